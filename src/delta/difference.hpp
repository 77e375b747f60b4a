// What is compressed: the difference of a replica and a mirror, never stored as a whole.
#pragma once

#include <cstddef>
#include <span>

namespace starling::delta {

/// The vector (base + offset) - mirror, computed in float32 in this order wherever it is read.
/// `offset` may be empty: then base - mirror. All have the size of `mirror`.
struct Difference {
  std::span<const float> base;
  std::span<const float> offset;
  std::span<const float> mirror;

  [[nodiscard]] std::size_t size() const noexcept { return mirror.size(); }
  [[nodiscard]] float at(std::size_t i) const noexcept {
    const float x = offset.empty() ? base[i] : base[i] + offset[i];
    return x - mirror[i];
  }
  /// out[j] = element begin + j, for the out.size() elements from `begin`.
  void fill(std::size_t begin, std::span<float> out) const noexcept;
};

}  // namespace starling::delta
