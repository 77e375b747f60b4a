// Memory of a program, planned before it runs: buffers that are not alive at the same time share
// bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace starling::compute {

/// Every buffer starts at a multiple of this: a cache line, and the widest vector register.
inline constexpr std::size_t kArenaAlignment = 64;

/// A buffer's size and life, in steps of the program (both ends included).
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  ///< one per buffer, multiples of kArenaAlignment
  std::size_t bytes = 0;             ///< of the whole arena
};

/// Places the buffers so that no two that live at the same step overlap: largest first, each at
/// the lowest offset that is free for its whole life (greedy by size, Pisarchyk and Lee,
/// arXiv:2001.03288).
[[nodiscard]] ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

/// One zeroed, aligned block of memory.
class Arena {
 public:
  Arena() = default;
  /// Empty (data() is null) if the memory is not available.
  explicit Arena(std::size_t bytes);

  [[nodiscard]] std::byte* data() noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, nullptr};
  std::size_t size_ = 0;
};

}  // namespace starling::compute
