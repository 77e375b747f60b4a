// Asks for memory ahead of its use. Passes over several vectors need it: the processor's own
// guesses end with each page of each of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::base {

inline constexpr std::size_t kCacheLine = 64;

/// Asks for `size` bytes from `ahead` bytes behind `at` on, to be read; they need not exist.
/// Inlined at once, as must be what only calls it: GCC drops calls that have no effect on values.
[[gnu::always_inline]] inline void prefetch(const void* at, std::size_t ahead,
                                            std::size_t size) noexcept {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(at) + ahead;
  for (std::size_t i = 0; i < size; i += kCacheLine) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer may not go past what exists
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
  }
}

}  // namespace starling::base
