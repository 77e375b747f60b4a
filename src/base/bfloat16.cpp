#include "base/bfloat16.hpp"

#include "base/assert.hpp"
#include "base/clones.hpp"

namespace starling::base {
namespace {

constexpr std::uint32_t kNearest = 0x8000;

STARLING_WIDE_CLONES void widen_all(const BFloat16* __restrict from, float* __restrict out,
                                    std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = widen(from[i]);
}

STARLING_CLONES void narrow_all(const float* __restrict from, BFloat16* __restrict out,
                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = narrow(from[i], kNearest);
}

}  // namespace

void widen(std::span<const BFloat16> from, std::span<float> out) noexcept {
  ASSERT(from.size() == out.size());
  widen_all(from.data(), out.data(), out.size());
}

void narrow(std::span<const float> from, std::span<BFloat16> out) noexcept {
  ASSERT(from.size() == out.size());
  narrow_all(from.data(), out.data(), out.size());
}

}  // namespace starling::base
