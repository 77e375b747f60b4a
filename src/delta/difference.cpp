#include "delta/difference.hpp"

#include "base/assert.hpp"
#include "base/clones.hpp"

namespace starling::delta {
namespace {

STARLING_CLONES void subtract(const float* base, const float* mirror, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = base[i] - mirror[i];
}

STARLING_CLONES void add_subtract(const float* base, const float* offset, const float* mirror,
                                  float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = (base[i] + offset[i]) - mirror[i];
}

}  // namespace

void Difference::fill(std::size_t begin, std::span<float> out) const noexcept {
  ASSERT(base.size() == size() && (offset.empty() || offset.size() == size()));
  mirror.for_each_block(begin, begin + out.size(), [&](std::size_t at, std::span<const float> of) {
    float* const to = out.data() + (at - begin);
    if (offset.empty()) {
      subtract(base.data() + at, of.data(), to, of.size());
    } else {
      add_subtract(base.data() + at, offset.data() + at, of.data(), to, of.size());
    }
  });
}

}  // namespace starling::delta
