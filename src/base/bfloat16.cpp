#include "base/bfloat16.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/clones.hpp"
#include "base/prefetch.hpp"

namespace starling::base {
namespace {

constexpr std::size_t kAhead = 2048;  // bytes

// What is added to a float's bits before the lower half is dropped.
constexpr std::uint32_t kNearest = 0x8000;

// A Weyl sequence over the elements, whose start is the seed: even over elements, and as random as
// the seeds over draws of one element, which is what its mean needs.
inline std::uint32_t draw(std::uint32_t seed, std::uint32_t index) {
  return (index * 0x9e3779b9U + seed) >> 16;
}

inline BFloat16 rounded(float value, std::uint32_t more) {
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(value) + more) >> 16;
  return {static_cast<std::uint16_t>((bits & 0x7fffU) != 0 ? bits : 0)};
}

STARLING_CLONES void widen_all(const BFloat16* __restrict from, float* __restrict out,
                               std::size_t n) {
  constexpr std::size_t kStrip = 128;
  for (std::size_t strip = 0; strip < n; strip += kStrip) {
    prefetch(from + strip, kAhead, kStrip * sizeof(BFloat16));
    const std::size_t end = std::min(strip + kStrip, n);
    for (std::size_t i = strip; i < end; ++i) out[i] = widen(from[i]);
  }
}

STARLING_CLONES void narrow_drawn(const float* __restrict from, std::uint32_t seed,
                                  std::uint32_t first, BFloat16* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = rounded(from[i], draw(seed, first + static_cast<std::uint32_t>(i)));
  }
}

STARLING_CLONES void narrow_nearest(const float* __restrict from, BFloat16* __restrict out,
                                    std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = rounded(from[i], kNearest);
}

}  // namespace

void widen(std::span<const BFloat16> from, std::span<float> out) noexcept {
  ASSERT(from.size() == out.size());
  widen_all(from.data(), out.data(), out.size());
}

void narrow(std::span<const float> from, std::uint32_t seed, std::size_t first,
            std::span<BFloat16> out) noexcept {
  ASSERT(from.size() == out.size());
  narrow_drawn(from.data(), seed, static_cast<std::uint32_t>(first), out.data(), out.size());
}

void narrow(std::span<const float> from, std::span<BFloat16> out) noexcept {
  ASSERT(from.size() == out.size());
  narrow_nearest(from.data(), out.data(), out.size());
}

}  // namespace starling::base
