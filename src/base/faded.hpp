// Numbers so small that they only matter to a processor's speed.
#pragma once

namespace starling::base {

/// Far too small to change any parameter, and far above subnormal numbers.
inline constexpr float kFaded = 0x1p-100F;

/// 0 instead of a value that has faded away: otherwise, a moving mean that nothing feeds any more
/// would become subnormal, and stay so forever by rounding to the nearest. An x86 processor takes
/// ten times as long with subnormal numbers. NaN stays NaN.
[[nodiscard]] constexpr float unless_faded(float value) noexcept {
  return ((value < kFaded) & (value > -kFaded)) ? 0.0F : value;
}

}  // namespace starling::base
