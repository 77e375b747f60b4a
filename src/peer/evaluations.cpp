#include "peer/evaluations.hpp"

#include <cmath>

#include <fmt/core.h>

namespace starling::peer {

void Evaluations::begin_if_due(std::uint64_t own, std::uint64_t swarm, Outbox& out) {
  if (config_.evaluate_every == 0 || under_way_ > 0) return;
  const std::uint64_t trained = config_.evaluate_by_own_samples ? own : swarm;
  const std::uint64_t due = trained / config_.evaluate_every;
  if (due <= due_) return;
  due_ = due;
  ++under_way_;
  out.push_back(Run{EvaluateJob{config_.evaluate_samples}});
}

void Evaluations::begin_last(Outbox& out) {
  ++under_way_;
  out.push_back(Run{EvaluateJob{}});
}

void Evaluations::end(const std::optional<Evaluated>& evaluated) {
  latest_ = evaluated;
  --under_way_;
}

bool Evaluations::reached_target() const noexcept {
  return config_.target_accuracy && latest_ && latest_->accuracy >= *config_.target_accuracy;
}

std::optional<base::Error> Evaluations::what_diverged() const {
  if (!latest_ || std::isfinite(latest_->loss)) return std::nullopt;
  return base::Error{base::ErrorCode::diverged,
                     fmt::format("the loss of an evaluation is {}: lower train.lr, or look for "
                                 "values in the test data that are not finite",
                                 latest_->loss)};
}

}  // namespace starling::peer
