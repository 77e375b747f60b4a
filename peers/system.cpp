#include "system.hpp"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace starling::peers {

double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  timespec now{};
  if (!std::getline(file, text) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  // Field 22; the second one, in parentheses, may hold anything.
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
  constexpr std::size_t kPiecesMax = 100;  // what may be free below the heap's end before it grows
  mallopt(M_TOP_PAD, static_cast<int>(kHeap));
  const auto end = [] { return static_cast<char*>(sbrk(0)); };
  char* const before = end();
  std::vector<std::string> pieces;
  while (end() == before && pieces.size() < kPiecesMax) pieces.emplace_back(kPiece, '\0');
  const std::size_t used = reinterpret_cast<std::uintptr_t>(before) % kPage;  // of its page
  char* const first = before + (kPage - used) % kPage;
  if (end() > first) madvise(first, static_cast<std::size_t>(end() - first), MADV_HUGEPAGE);
}

}  // namespace starling::peers
