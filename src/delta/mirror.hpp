// The replica of one end of a link as both ends know it: bit for bit the same at both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bfloat16.hpp"
#include "base/large_vector.hpp"
#include "delta/difference.hpp"
#include "delta/host_passes.hpp"
#include "delta/mirror_type.hpp"

namespace starling::delta {

/// Kept in float32 or in bfloat16. Whoever works on it takes a block of it as floats; of float32
/// mirrors that is the memory itself, of others what came of it goes back to half().
class Mirror {
 public:
  using Room = std::array<float, passes::kBlock>;

  Mirror() = default;
  /// `values`, rounded to the nearest where that is needed.
  Mirror(MirrorType type, base::LargeFloats values);

  [[nodiscard]] MirrorView view() const noexcept;
  /// Elements begin .. begin + n - 1, n <= kBlock, which may lie in `room`.
  [[nodiscard]] const float* read(std::size_t begin, std::size_t n, Room& room) const noexcept;
  [[nodiscard]] float* take(std::size_t begin, std::size_t n, Room& room) noexcept;
  /// Where elements from `begin` on are kept in bfloat16; null of float32 mirrors.
  [[nodiscard]] base::BFloat16* half(std::size_t begin) noexcept;

  [[nodiscard]] base::LargeFloats values() const;
  /// values[j] is element indices[j]; `values` is replaced.
  void read_at(std::span<const std::uint32_t> indices, std::vector<float>& values) const;
  /// XXH3 of its bits.
  [[nodiscard]] std::uint64_t hash() const noexcept;

 private:
  base::LargeFloats full_;
  base::LargeVector<base::BFloat16> half_;  // one of the two is empty
};

}  // namespace starling::delta
