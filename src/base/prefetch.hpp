// Requests memory ahead of its use. Passes over several vectors need it: the processor's own
// prefetching stops at each page of each vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::base {

inline constexpr std::size_t kCacheLine = 64;

/// Requests `size` bytes from `ahead` bytes after `at` on, to be read; they need not exist. Always
/// inlined, and so must be functions that only call it: GCC drops calls that have no effect on
/// values.
[[gnu::always_inline]] inline void prefetch(const void* at, std::size_t ahead,
                                            std::size_t size) noexcept {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(at) + ahead;
  for (std::size_t i = 0; i < size; i += kCacheLine) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer may not go past existing memory
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
  }
}

}  // namespace starling::base
