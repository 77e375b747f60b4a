// Numbers so small that they matter to nothing, but to a processor's speed.
#pragma once

namespace starling::base {

/// Far below what adds to any parameter, and far above subnormal numbers.
inline constexpr float kFaded = 0x1p-100F;

/// 0 in place of what has faded away: a moving mean that nothing feeds any more would otherwise
/// become subnormal, and by rounding to the nearest stay so for ever. An x86 processor takes ten
/// times as long over those. What is no number stays so.
[[nodiscard]] constexpr float unless_faded(float value) noexcept {
  return (value < kFaded) & (value > -kFaded) ? 0.0F : value;
}

}  // namespace starling::base
