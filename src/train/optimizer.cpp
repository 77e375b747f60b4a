#include "train/optimizer.hpp"

#include <cmath>

#include "base/assert.hpp"
#include "base/clones.hpp"

namespace starling::train {

namespace {

// Plain loops over pointers that do not overlap: the compiler vectorises them.

STARLING_CLONES
void sgd(std::size_t n, float* __restrict p, const float* __restrict g, float* __restrict v,
         float lr, float momentum, float decay) {
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = momentum * v[i] + (g[i] + decay * p[i]);
    p[i] -= lr * v[i];
  }
}

STARLING_CLONES
void nesterov_sgd(std::size_t n, float* __restrict p, const float* __restrict g,
                  float* __restrict v, float lr, float momentum, float decay) {
  for (std::size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * p[i];
    v[i] = momentum * v[i] + d;
    p[i] -= lr * (d + momentum * v[i]);
  }
}

struct AdamFactors {
  float keep;  ///< 1 - lr * weight decay
  float beta1;
  float beta2;
  float step;        ///< lr / (1 - beta1^t)
  float root_scale;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
};

STARLING_CLONES
void adamw(std::size_t n, float* __restrict p, const float* __restrict g, float* __restrict m,
           float* __restrict s, const AdamFactors& factors) {
  const AdamFactors f = factors;
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = f.beta1 * m[i] + (1.0F - f.beta1) * g[i];
    s[i] = f.beta2 * s[i] + (1.0F - f.beta2) * (g[i] * g[i]);
    p[i] = p[i] * f.keep - f.step * m[i] / (std::sqrt(s[i]) * f.root_scale + f.epsilon);
  }
}

}  // namespace

UpdateRule::UpdateRule(const Config& config, std::size_t parameters)
    : config_(config),
      first_(parameters),
      second_(config.optimizer == Optimizer::adamw ? parameters : 0) {}

void UpdateRule::apply(std::span<float> parameters, std::span<const float> gradient, float lr) {
  ASSERT(parameters.size() == first_.size() && gradient.size() == first_.size());
  ++steps_;
  if (config_.optimizer == Optimizer::sgd) {
    const auto update = config_.nesterov ? nesterov_sgd : sgd;
    update(first_.size(), parameters.data(), gradient.data(), first_.data(), lr,
           static_cast<float>(config_.momentum), static_cast<float>(config_.weight_decay));
    return;
  }
  const auto t = static_cast<double>(steps_);
  const AdamFactors factors{
      .keep = static_cast<float>(1.0 - static_cast<double>(lr) * config_.weight_decay),
      .beta1 = static_cast<float>(config_.beta1),
      .beta2 = static_cast<float>(config_.beta2),
      .step = static_cast<float>(static_cast<double>(lr) / (1.0 - std::pow(config_.beta1, t))),
      .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config_.beta2, t))),
      .epsilon = static_cast<float>(config_.epsilon)};
  adamw(first_.size(), parameters.data(), gradient.data(), first_.data(), second_.data(), factors);
}

std::vector<UpdateRule::Slot> UpdateRule::slots() {
  if (config_.optimizer == Optimizer::sgd) return {{"momentum", first_}};
  return {{"mean", first_}, {"square", second_}};
}

}  // namespace starling::train
