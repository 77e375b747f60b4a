#include "base/large_vector.hpp"

#include <cstdlib>

#include <sys/mman.h>

namespace starling::base {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

}  // namespace

void* allocate_large(std::size_t bytes) {
  void* const memory = std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) & ~(kHugePage - 1));
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it, all is slower and right
#endif
  return memory;
}

void free_large(void* memory) noexcept { std::free(memory); }

}  // namespace starling::base
