#include "io/ucx/guard.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <ucs/type/status.h>
#include <uct/api/uct.h>
#include <unistd.h>

#include "io/raw_address.hpp"
#include "io/ucx/filter.hpp"

namespace starling::io::ucx {
namespace {

thread_local Guard* watching = nullptr;

int guarded_listen(int descriptor, int backlog) {
  return watching != nullptr ? watching->listen(descriptor, backlog)
                             : ::listen(descriptor, backlog);
}

// --- replacing an imported function ---

#if defined(__x86_64__)
constexpr ElfW(Word) kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr ElfW(Word) kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr ElfW(Word) kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr ElfW(Word) kGlobalData = R_AARCH64_GLOB_DAT;
#else
#error "which relocations are imported functions on this processor?"
#endif

// NOLINTBEGIN(performance-no-int-to-ptr): ELF has addresses as integers.

/// The imports of a loaded library, as the dynamic loader sees them (ELF).
class Library {
 public:
  /// The library that contains this code.
  static std::optional<Library> of(const void* code) {
    Dl_info info;
    void* map = nullptr;
    if (dladdr1(code, &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) return std::nullopt;
    return Library(*static_cast<const link_map*>(map));
  }

  /// Sets the address at which `name` is called. Returns the number of places, or nothing if one
  /// could not be written.
  [[nodiscard]] std::optional<int> replace(std::string_view name, void* with) const {
    int places = 0;
    for (const auto& table : {calls_, data_}) {
      for (const ElfW(Rela) & entry : table) {
        const auto type = static_cast<ElfW(Word)>(ELF64_R_TYPE(entry.r_info));
        if (type != kJumpSlot && type != kGlobalData) continue;
        if (name != strings_ + symbols_[ELF64_R_SYM(entry.r_info)].st_name) continue;
        if (!write(reinterpret_cast<void**>(base_ + entry.r_offset), with)) return std::nullopt;
        ++places;
      }
    }
    return places;
  }

 private:
  explicit Library(const link_map& map) : base_(map.l_addr) {
    const auto at = [&](const ElfW(Dyn) & entry) { return entry.d_un.d_ptr; };
    ElfW(Addr) calls = 0;
    ElfW(Addr) data = 0;
    std::size_t calls_size = 0;
    std::size_t data_size = 0;
    for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_JMPREL:
          calls = at(*entry);
          break;
        case DT_PLTRELSZ:
          calls_size = entry->d_un.d_val;
          break;
        case DT_RELA:
          data = at(*entry);
          break;
        case DT_RELASZ:
          data_size = entry->d_un.d_val;
          break;
        case DT_SYMTAB:
          symbols_ = reinterpret_cast<const ElfW(Sym)*>(at(*entry));
          break;
        case DT_STRTAB:
          strings_ = reinterpret_cast<const char*>(at(*entry));
          break;
        default:
          break;
      }
    }
    if (symbols_ == nullptr || strings_ == nullptr) return;
    const auto table = [](ElfW(Addr) begin, std::size_t bytes) {
      return std::span(reinterpret_cast<const ElfW(Rela)*>(begin), bytes / sizeof(ElfW(Rela)));
    };
    calls_ = table(calls, calls != 0 ? calls_size : 0);
    data_ = table(data, data != 0 ? data_size : 0);
  }

  // A place that the loader has made read-only (RELRO) is writable only during this write.
  [[nodiscard]] bool write(void** place, void* value) const {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto* const start =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(place) & ~(page - 1));
    const bool locked = is_read_only(reinterpret_cast<std::uintptr_t>(place), page);
    if (locked && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if (locked) mprotect(start, page, PROT_READ);
    return true;
  }

  [[nodiscard]] bool is_read_only(std::uintptr_t place, std::uintptr_t page) const {
    struct Question {
      ElfW(Addr) base;
      std::uintptr_t place;
      std::uintptr_t page;
    } question{base_, place, page};
    return dl_iterate_phdr(
               [](dl_phdr_info* library, std::size_t, void* argument) {
                 const auto& asked = *static_cast<const Question*>(argument);
                 if (library->dlpi_addr != asked.base) return 0;
                 for (const ElfW(Phdr) & part :
                      std::span(library->dlpi_phdr, library->dlpi_phnum)) {
                   if (part.p_type != PT_GNU_RELRO) continue;
                   const std::uintptr_t begin = asked.base + part.p_vaddr;
                   const std::uintptr_t end = (begin + part.p_memsz) & ~(asked.page - 1);
                   if (begin <= asked.place && asked.place < end) return 1;
                 }
                 return 0;
               },
               &question) != 0;
  }

  ElfW(Addr) base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  std::span<const ElfW(Rela)> calls_;
  std::span<const ElfW(Rela)> data_;
};

// NOLINTEND(performance-no-int-to-ptr)

base::Status replace_listen() {
  int places = 0;
  // libucs, libuct and libucp: in the known versions, the first calls it.
  for (const void* code : {reinterpret_cast<const void*>(&ucs_status_string),
                           reinterpret_cast<const void*>(&uct_query_components),
                           reinterpret_cast<const void*>(&ucp_get_version)}) {
    const auto library = Library::of(code);
    const auto replaced = library
                              ? library->replace("listen", reinterpret_cast<void*>(&guarded_listen))
                              : std::nullopt;
    if (!replaced) {
      return base::fail(base::ErrorCode::internal,
                        "UCX's sockets cannot be guarded: its libraries do not let their calls of "
                        "listen be replaced");
    }
    places += *replaced;
  }
  if (places > 0) return {};
  return base::fail(base::ErrorCode::internal,
                    "UCX's sockets cannot be guarded: its libraries do not call listen");
}

// --- sockets ---

std::optional<base::IpPort> name_of(int descriptor, decltype(getsockname)* ask) {
  return ip_port_from([&](sockaddr* name, socklen_t* size) { return ask(descriptor, name, size); });
}

bool listens(int descriptor) {
  int yes = 0;
  socklen_t size = sizeof yes;
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

bool attach(int descriptor, bool v6, std::span<const base::Ip> members) {
  std::vector<sock_filter> program = filter_for(v6, members);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

// The process's open descriptors, without opening one that stays.
std::vector<int> open_descriptors() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name(entry->d_name);
    int number = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && number != dirfd(folder)) found.push_back(number);
  }
  closedir(folder);
  return found;
}

}  // namespace

base::Status Guard::install() {
  static const base::Status installed = replace_listen();
  return installed;
}

Guard::Watch::Watch(Guard& guard) noexcept { watching = &guard; }

Guard::Watch::~Watch() { watching = nullptr; }

int Guard::listen(int descriptor, int backlog) noexcept {
  const auto name = name_of(descriptor, getsockname);
  if (!name) {
    errno = EOPNOTSUPP;  // the filter cannot read this family
    return -1;
  }
  if (!attach(descriptor, name->ip.is_v6(), members_)) return -1;
  if (::listen(descriptor, backlog) != 0) return -1;
  sockets_.push_back({descriptor, *name});
  return 0;
}

base::Status Guard::allow(std::span<const base::Ip> members) {
  if (members.size() > kAllowedMax) {
    return base::fail(base::ErrorCode::network, "a fabric has at most {} members, not {}",
                      kAllowedMax, members.size());
  }
  members_.assign(members.begin(), members.end());
  // UCX may have closed one since, and its number may belong to another file.
  std::erase_if(sockets_, [](const Socket& socket) {
    return !listens(socket.descriptor) || name_of(socket.descriptor, getsockname) != socket.at;
  });
  base::Status status;
  for (const Socket& socket : sockets_) {
    const bool v6 = socket.at.ip.is_v6();
    if (attach(socket.descriptor, v6, members_)) continue;
    const std::string why = std::error_code(errno, std::system_category()).message();
    // An old filter would still let in members that have left.
    if (!attach(socket.descriptor, v6, {})) ::shutdown(socket.descriptor, SHUT_RDWR);
    status =
        base::fail(base::ErrorCode::network, "cannot guard UCX's port {}: {}", socket.at.port, why);
  }
  return status;
}

void Guard::shut(const base::Ip& member) const {
  for (const int descriptor : open_descriptors()) {
    const auto peer = name_of(descriptor, getpeername);
    if (!peer || peer->ip != member) continue;
    const auto here = name_of(descriptor, getsockname);
    if (here && std::ranges::find(sockets_, *here, &Socket::at) != sockets_.end()) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
  }
}

}  // namespace starling::io::ucx
