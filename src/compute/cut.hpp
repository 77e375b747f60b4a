// The threshold of the largest elements, from histograms of their magnitudes. A float's magnitude
// orders like its bits without the sign, so all comparisons are on integers ("keys").
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace starling::compute {

constexpr std::uint32_t key_of(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

inline constexpr std::uint32_t kHalfKeyBits = 16;  ///< the lower half, for one histogram
inline constexpr std::size_t kHighKeys = std::size_t{1} << (31 - kHalfKeyBits);
inline constexpr std::size_t kLowKeys = std::size_t{1} << kHalfKeyBits;

/// What leaves exactly a number of elements: those above the key, and the first `equals` of those
/// on it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t equals = 0;
};

/// The bin that leaves `count` elements, and how many of its own; {0, 0} where there are fewer.
[[nodiscard]] inline Cut cut_of(std::span<const std::uint32_t> histogram, std::size_t count) {
  std::size_t above = 0;
  for (std::size_t bin = histogram.size(); bin-- > 0;) {
    if (above + histogram[bin] >= count) return {static_cast<std::uint32_t>(bin), count - above};
    above += histogram[bin];
  }
  return {};
}

/// The index of the first value whose magnitude is beyond the limit, or is no number.
[[nodiscard]] inline std::optional<std::uint32_t> first_beyond(
    std::span<const std::uint32_t> indices, std::span<const float> values, float limit) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (!(std::fabs(values[j]) <= limit)) return indices[j];
  }
  return {};
}

}  // namespace starling::compute
