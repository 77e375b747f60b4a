#include "base/large_vector.hpp"

#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>

namespace starling::base {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

// Vectors that a pass reads side by side must not begin at the same place of a huge page: the same
// element of each would have the same lower address bits, and first-level caches that guess ways
// from few bits of an address (AMD's since Zen) then evict one for the other: a commit of 100 M
// took twice as long. So beginnings are staggered by pages and lines. Vectors of one size lie
// evenly spaced, so the remainder of a division by a prime differs between neighbours.
constexpr std::size_t kStagger = 6 * 4096 + 9 * 64;
constexpr std::size_t kBeginnings = 31;
constexpr std::size_t kRoom = kStagger * (kBeginnings - 1);
static_assert(kRoom < kHugePage);
/// From this size on, the extra bytes do not matter.
constexpr std::size_t kStaggeredBytes = std::size_t{1} << 24;

}  // namespace

void* allocate_large(std::size_t bytes) {
  const bool staggered = bytes >= kStaggeredBytes;
  const std::size_t whole = (bytes + (staggered ? kRoom : 0) + kHugePage - 1) & ~(kHugePage - 1);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, whole));
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // Only a request: without it, everything is slower but correct.
  static_cast<void>(madvise(memory, whole, MADV_HUGEPAGE));
#endif
  const std::size_t number = reinterpret_cast<std::uintptr_t>(memory) / kHugePage;
  return memory + (staggered ? number % kBeginnings * kStagger : 0);
}

void free_large(void* memory) noexcept {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(memory) % kHugePage;
  std::free(static_cast<std::byte*>(memory) - offset);
}

}  // namespace starling::base
