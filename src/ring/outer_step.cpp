#include "ring/outer_step.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "train/update_kernels.hpp"

namespace starling::ring {

OuterStep::OuterStep(std::span<const float> x, float lr, float momentum)
    : start_(x.begin(), x.end()), momentum_(x.size()), lr_(lr), keep_(momentum) {}

void OuterStep::moved(std::span<const float> x, std::span<float> out) const {
  ASSERT(x.size() == start_.size() && out.size() == start_.size());
  std::ranges::copy(start_, out.begin());
  train::kernels::combine(out.size(), out.data(), 1.0F, x.data(), -1.0F);
}

void OuterStep::apply(std::span<const float> mean, std::span<float> x) {
  ASSERT(x.size() == start_.size() && mean.size() == start_.size());
  train::kernels::sgd(start_.size(), start_.data(), mean.data(), momentum_.data(),
                      {.lr = lr_, .momentum = keep_, .nesterov = true}, 1.0F, false);
  std::ranges::copy(start_, x.begin());
}

}  // namespace starling::ring
