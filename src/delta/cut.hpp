// The threshold of the largest elements, from histograms of their magnitudes. A float's magnitude
// orders like its bits without the sign, so all comparisons are on integers ("keys").
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.hpp"

namespace starling::delta {

constexpr std::uint32_t key_of(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// The place of number i of `sample` elements of n, spread evenly. Places are jittered so that they
/// do not fall in step with a regular structure of a replica (rows of a layer).
[[nodiscard]] constexpr std::uint32_t sampled_place(std::size_t i, std::size_t sample,
                                                    std::size_t n) noexcept {
  const std::size_t stride = n / sample;
  std::uint64_t state = n + i * base::kSplitmixStep;
  const std::uint64_t jitter = ((base::splitmix64(state) >> 32) * stride) >> 32;
  return static_cast<std::uint32_t>(i * stride + jitter);
}

inline constexpr std::uint32_t kHalfKeyBits = 16;  ///< the lower half, for one histogram
inline constexpr std::size_t kHighKeys = std::size_t{1} << (31 - kHalfKeyBits);
inline constexpr std::size_t kLowKeys = std::size_t{1} << kHalfKeyBits;

/// A threshold that leaves an exact number of elements: those above the key, and the first `equals`
/// of those on it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t equals = 0;
};

/// The bin that leaves `count` elements, and how many of its own count; {0, 0} if there are fewer.
[[nodiscard]] inline Cut cut_of(std::span<const std::uint32_t> histogram, std::size_t count) {
  std::size_t above = 0;
  for (std::size_t bin = histogram.size(); bin-- > 0;) {
    if (above + histogram[bin] >= count) return {static_cast<std::uint32_t>(bin), count - above};
    above += histogram[bin];
  }
  return {};
}

/// The index of the first value whose magnitude is beyond the limit, or that is NaN.
[[nodiscard]] inline std::optional<std::uint32_t> first_beyond(
    std::span<const std::uint32_t> indices, std::span<const float> values, float limit) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (!(std::fabs(values[j]) <= limit)) return indices[j];
  }
  return {};
}

}  // namespace starling::delta
