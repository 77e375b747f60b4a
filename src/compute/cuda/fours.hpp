// Four elements of a vector at a time: a thread of a GPU reads and writes up to 16 bytes at once.
#pragma once

#include "compute/cuda/shared.hpp"

namespace starling::compute::cuda {

/// Elements from a multiple of kFour on.
struct Four {
  float of[4];
};

inline constexpr std::size_t kFour = 4;

/// How many elements there are from i on, below n, of kFour.
STARLING_BOTH inline std::size_t in_four(std::size_t i, std::size_t n) {
  return n - i < kFour ? n - i : kFour;
}

/// The first `count` of four elements; zeros for the others. Vectors begin at multiples of 16
/// bytes.
STARLING_BOTH inline Four load_four(const float* from, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
  }
#endif
  Four four{};
  for (std::size_t k = 0; k < kFour; ++k) four.of[k] = k < count ? from[k] : 0.0F;
  return four;
}

/// The same of bfloat16s, widened.
STARLING_BOTH inline Four load_four(const std::uint16_t* from, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    return {{__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xffff0000U),
             __uint_as_float(four.y << 16), __uint_as_float(four.y & 0xffff0000U)}};
  }
#endif
  Four four{};
  for (std::size_t k = 0; k < kFour; ++k) four.of[k] = k < count ? widened(from[k]) : 0.0F;
  return four;
}

STARLING_BOTH inline void store_four(const Four& four, float* to, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    *reinterpret_cast<float4*>(to) = {four.of[0], four.of[1], four.of[2], four.of[3]};
    return;
  }
#endif
  for (std::size_t k = 0; k < kFour; ++k) {
    if (k < count) to[k] = four.of[k];
  }
}

STARLING_BOTH inline void store_four(const std::uint16_t (&four)[kFour], std::uint16_t* to,
                                     std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    *reinterpret_cast<uint2*>(to) = {four[0] | static_cast<unsigned>(four[1]) << 16,
                                     four[2] | static_cast<unsigned>(four[3]) << 16};
    return;
  }
#endif
  for (std::size_t k = 0; k < kFour; ++k) {
    if (k < count) to[k] = four[k];
  }
}

}  // namespace starling::compute::cuda
