// Vectors of the size of a replica. They lie on huge pages if the system has them: otherwise a pass
// over several vectors at once waits for the page tables.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace starling::base {

/// From this size on, memory is requested in huge pages.
inline constexpr std::size_t kLargeBytes = std::size_t{1} << 22;

/// Memory on huge pages, as far as the system gives any. Throws std::bad_alloc.
[[nodiscard]] void* allocate_large(std::size_t bytes);
void free_large(void* memory) noexcept;

template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class U>
  explicit LargeAllocator(const LargeAllocator<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    return static_cast<T*>(bytes < kLargeBytes ? ::operator new(bytes) : allocate_large(bytes));
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    if (n * sizeof(T) < kLargeBytes) {
      ::operator delete(memory);
    } else {
      free_large(memory);
    }
  }

  friend bool operator==(const LargeAllocator&, const LargeAllocator&) noexcept { return true; }
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;
using LargeFloats = LargeVector<float>;

}  // namespace starling::base
