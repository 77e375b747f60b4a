#include "system.hpp"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/result.hpp"

namespace starling::peers {
namespace {

void tell_bus_error(int number, siginfo_t* cause, void*) {
  if (cause->si_code == BUS_ADRERR) {
    constexpr std::string_view kText =
        "starling: a file of the data became shorter while it was in use, or cannot be read\n";
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, kText.data(), kText.size());
    _exit(base::exit_code(base::ErrorCode::data));
  }
  signal(number, SIG_DFL);  // and the faulty access is repeated
}

}  // namespace

void open_missing_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

void take_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = tell_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  timespec now{};
  if (!std::getline(file, text) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  // Field 22; field 2, in parentheses, may contain anything.
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const double started =
      std::strtod(text.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

void allow_open_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

void use_huge_pages() {
  constexpr std::size_t kHeap = std::size_t{1} << 30;
  constexpr std::size_t kPage = std::size_t{2} << 20;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  constexpr std::size_t kPiecesMax = 100;  // may be free below the heap's end before it grows
  mallopt(M_TOP_PAD, static_cast<int>(kHeap));
  const auto end = [] { return static_cast<char*>(sbrk(0)); };
  char* const before = end();
  std::vector<std::string> pieces;
  while (end() == before && pieces.size() < kPiecesMax) pieces.emplace_back(kPiece, '\0');
  const std::size_t used = reinterpret_cast<std::uintptr_t>(before) % kPage;  // within its page
  char* const first = before + (kPage - used) % kPage;
  if (end() > first) madvise(first, static_cast<std::size_t>(end() - first), MADV_HUGEPAGE);
}

}  // namespace starling::peers
