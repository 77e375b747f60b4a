#include "base/file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace starling::base {
namespace {

constexpr mode_t kModeBits = 07777;

std::string reason(int error) { return std::generic_category().message(error); }

FileStamp stamp_from(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = static_cast<std::uint64_t>(info.st_size),
          .changed_s = info.st_mtim.tv_sec,
          .changed_ns = info.st_mtim.tv_nsec};
}

/// The stamp of an open file, if it is a regular file and not larger than allowed.
Result<FileStamp> checked_stamp(int fd, const std::string& path, std::uint64_t bytes_max) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(ErrorCode::data, "{}: cannot be examined: {}", path, reason(errno));
  }
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::data, "{}: is not a regular file", path);
  const FileStamp stamp = stamp_from(info);
  if (stamp.bytes > bytes_max) {
    return fail(ErrorCode::data, "{}: has {} bytes, at most {} are accepted", path, stamp.bytes,
                bytes_max);
  }
  return stamp;
}

Status write_all(int fd, const std::string& path, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail(ErrorCode::data, "{}: cannot be written: {}", path, reason(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status write_parts(const Descriptor& file, const std::string& path, std::span<const ByteView> parts,
                   Durability durability) {
  for (const ByteView part : parts) {
    if (Status status = write_all(file.get(), path, part); !status) return status;
  }
  if (durability == Durability::synced && ::fsync(file.get()) != 0) {
    return fail(ErrorCode::data, "{}: cannot be synced to disk: {}", path, reason(errno));
  }
  return {};
}

/// The file that a rename replaces.
struct Replaced {
  std::string path;
  std::optional<mode_t> mode;  ///< nothing: there is no such file yet
};

/// The file that a rename to `path` may replace, if there is one. A symbolic link stands for the
/// file it leads to, and stays; a device or a pipe is refused, since it would be gone for all its
/// users.
Result<Replaced> replaceable(const std::string& path) {
  struct stat info {};
  Replaced target{path, std::nullopt};
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    char* const real = ::realpath(path.c_str(), nullptr);
    if (real == nullptr) {
      return fail(ErrorCode::data, "{}: this symbolic link cannot be followed: {}", path,
                  reason(errno));
    }
    target.path = real;
    std::free(real);
  }
  if (::stat(target.path.c_str(), &info) != 0) return target;
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::data, "{}: is not a regular file{}, and only such are replaced", path,
                S_ISDIR(info.st_mode) ? " but a folder" : "");
  }
  target.mode = info.st_mode & kModeBits;
  return target;
}

/// Makes a file beside `path`, and writes its name to `made`. Unlike a file of mkstemp(), it has
/// the mode that the user's umask gives to files.
Descriptor make_beside(const std::string& path, std::string& made) {
  for (int number = 0;; ++number) {
    made = fmt::format("{}.new{}", path, number);
    Descriptor file(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode));
    if (file.valid() || errno != EEXIST) return file;
  }
}

/// Renames without replacing anything. False: it failed, with errno; EEXIST if something is there.
/// link() does this on all file systems with hard links (NFS, for example, lacks such a rename);
/// the others, such as those of memory sticks, have the rename.
bool put_where_nothing_is(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  if (errno != EPERM && errno != ENOTSUP) return false;
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Result<Bytes> read_file(const std::string& path, std::uint64_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path, reason(errno));
  }
  const auto stamp = checked_stamp(file.get(), path, bytes_max);
  if (!stamp) return fail(stamp.error());
  Bytes content(stamp->bytes);
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::data, "{}: cannot be read: {}", path, reason(errno));
    if (got == 0) break;  // shrunk meanwhile
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

Status write_file_synced(const std::string& path, std::span<const ByteView> parts) {
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kNewFileMode));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be created: {}", path, reason(errno));
  }
  return write_parts(file, path, parts, Durability::synced);
}

Status replace_file(const std::string& path, std::span<const ByteView> parts,
                    Durability durability) {
  const auto target = replaceable(path);
  if (!target) return fail(target.error());
  std::string temporary;
  Status status;
  {
    const Descriptor file = make_beside(target->path, temporary);
    if (!file.valid()) {
      return fail(ErrorCode::data, "{}: cannot be created: {}", path, reason(errno));
    }
    if (target->mode) ::fchmod(file.get(), *target->mode);
    status = write_parts(file, temporary, parts, durability);
  }
  if (status && ::rename(temporary.c_str(), target->path.c_str()) != 0) {
    status = fail(ErrorCode::data, "{}: cannot be replaced: {}", path, reason(errno));
  }
  if (!status) {
    ::unlink(temporary.c_str());
    return status;
  }
  if (durability == Durability::unsynced) return {};
  return sync_folder(parent_of(target->path));
}

Status replace_file(const std::string& path, std::string_view text, Durability durability) {
  const ByteView parts[] = {bytes_of(text.data(), text.size())};
  return replace_file(path, parts, durability);
}

Status check_replaceable(const std::string& path) {
  const auto target = replaceable(path);
  if (!target) return fail(target.error());
  if (::access(parent_of(target->path).c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::data, "{}: cannot be written: {}", path, reason(errno));
}

Status make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) return fail(ErrorCode::data, "{}: cannot be created: {}", path, failed.message());
  return {};
}

// Never readable by others, not even for a moment.
Result<bool> create_private_file(const std::string& path, ByteView content) {
  std::string temporary = path + ".XXXXXX";
  Status status;
  bool created = true;
  {
    const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
    if (!file.valid()) {
      return fail(ErrorCode::data, "{}: cannot be created: {}", path, reason(errno));
    }
    const ByteView parts[] = {content};
    status = write_parts(file, temporary, parts, Durability::synced);
  }
  if (status && !put_where_nothing_is(temporary, path)) {
    created = false;
    if (errno != EEXIST) {
      status = fail(ErrorCode::data, "{}: cannot be put in place: {}", path, reason(errno));
    }
  }
  ::unlink(temporary.c_str());
  if (status) status = sync_folder(parent_of(path));
  if (!status) return fail(std::move(status.error()));
  return created;
}

Status sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path, reason(errno));
  }
  if (::fsync(folder.get()) != 0) {
    return fail(ErrorCode::data, "{}: cannot be synced to disk: {}", path, reason(errno));
  }
  return {};
}

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return stamp_from(info);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::expect_random_reads() noexcept {
  // Only advice: if it is not taken, reading is slower.
  if (data_ != nullptr) static_cast<void>(::madvise(data_, size_, MADV_RANDOM));
}

Result<AppendedFile> AppendedFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kNewFileMode));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path, reason(errno));
  }
  return AppendedFile(path, std::move(file));
}

Status AppendedFile::append(std::string_view piece) {
  const off_t size = ::lseek(file_.get(), 0, SEEK_END);
  Status status = write_all(file_.get(), path_, bytes_of(piece.data(), piece.size()));
  // If this fails, too, the bytes stay in the file: nothing better can be done.
  if (!status && size >= 0) static_cast<void>(!::ftruncate(file_.get(), size));
  return status;
}

Result<MappedFile> MappedFile::open(const std::string& path, std::uint64_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path, reason(errno));
  }
  const auto stamp = checked_stamp(file.get(), path, bytes_max);
  if (!stamp) return fail(stamp.error());
  MappedFile mapped;
  mapped.stamp_ = *stamp;
  if (stamp->bytes == 0) return mapped;
  void* const data = ::mmap(nullptr, stamp->bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::data, "{}: cannot be mapped: {}", path, reason(errno));
  }
  mapped.data_ = data;
  mapped.size_ = stamp->bytes;
  return mapped;
}

}  // namespace starling::base
