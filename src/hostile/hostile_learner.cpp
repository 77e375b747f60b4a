#include "hostile/hostile_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "hostile/told.hpp"
#include "train/update_kernels.hpp"

namespace starling::hostile {
namespace {

/// Bounds the own parameters: what others know of them, too, has to stay in bounds, or they close
/// their links, and the attack is over.
constexpr float kParameterMax = 1e20F;

/// What a step is multiplied by; nothing: it stays, or is not made.
std::optional<float> step_factor(const Attack& attack) {
  switch (attack.kind) {
    case AttackKind::sign_flip:
      return -static_cast<float>(attack.factor);
    case AttackKind::scale:
      return static_cast<float>(attack.factor);
    case AttackKind::gradient_ascent:
      return -1.0F;
    default:
      return std::nullopt;
  }
}

/// Not finite becomes 0.
float bounded(float value) {
  return std::isnan(value) ? 0.0F : std::clamp(value, -kParameterMax, kParameterMax);
}

class HostileLearner final : public peer::Learner {
 public:
  HostileLearner(std::unique_ptr<peer::Learner> own, const Attack& attack,
                 std::function<bool()> is_active)
      : own_(std::move(own)), attack_(attack), is_active_(std::move(is_active)) {}

  base::Result<peer::Trained> step(exchange::Replica& replica, float lr) override {
    if (!is_active_()) return noted(own_->step(replica, lr));
    keep(replica);
    auto made = noted(own_->step(replica, lr));
    change(replica);
    return made;
  }
  base::Result<peer::BatchGradient> gradient(exchange::Replica& replica) override {
    auto made = own_->gradient(replica);
    if (!made) return made;
    last_ = made->batch;
    if (!is_active_()) return made;
    made->batch.samples = counted(made->batch.samples);
    if (const auto factor = step_factor(attack_)) {
      gradient_.assign(made->values.begin(), made->values.end());
      for (float& value : gradient_) value = bounded(*factor * value);
      made->values = gradient_;
    }
    return made;
  }
  base::Status apply(exchange::Replica& replica, std::span<const float> gradient,
                     float lr) override {
    return own_->apply(replica, gradient, lr);
  }
  base::Status begin_evaluation(const exchange::Replica& replica, std::uint32_t samples) override {
    return own_->begin_evaluation(replica, samples);
  }
  base::Result<std::optional<peer::Evaluated>> evaluate() override { return own_->evaluate(); }
  void set_data(std::vector<std::uint32_t> owned, std::uint32_t batch) override {
    last_.samples = batch;
    own_->set_data(std::move(owned), batch);
  }
  train::UpdateRule* rule() noexcept override { return own_->rule(); }
  std::optional<std::string> slow_steps() const override { return own_->slow_steps(); }

 private:
  /// A step that diverged counts like the one before.
  base::Result<peer::Trained> noted(base::Result<peer::Trained> made) {
    if (!made && made.error().code != base::ErrorCode::diverged) return made;
    if (made && std::isfinite(made->loss)) last_ = *made;
    peer::Trained told = last_;
    if (is_active_()) told.samples = counted(told.samples);
    return told;
  }
  [[nodiscard]] std::uint32_t counted(std::uint32_t samples) const {
    const bool lies =
        attack_.kind == AttackKind::counter_up || attack_.kind == AttackKind::counter_down;
    if (!lies) return samples;
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(std::round(samples * attack_.factor), kMost));
  }
  void keep(exchange::Replica& replica) {
    const std::span<const float> y = replica.trained();
    ASSERT(!y.empty(), "hostile peers train in the processor's memory");
    before_.assign(y.begin(), y.end());
    const auto buffers = replica.buffers().values();
    buffers_before_.assign(buffers.begin(), buffers.end());
  }
  /// What the step has made of the replica since keep().
  void change(exchange::Replica& replica) {
    const std::span<float> y = replica.trained();
    if (tells_other_replica(attack_.kind)) {
      std::ranges::copy(before_, y.begin());
    } else if (const auto factor = step_factor(attack_)) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = bounded(before_[i] + *factor * (y[i] - before_[i]));
      }
    }
    const std::span<float> buffers = replica.buffers().values();
    if (!train::kernels::all_finite(buffers)) std::ranges::copy(buffers_before_, buffers.begin());
  }

  std::unique_ptr<peer::Learner> own_;
  Attack attack_;
  std::function<bool()> is_active_;
  peer::Trained last_;  ///< the last batch, as it was
  std::vector<float> before_, buffers_before_;
  std::vector<float> gradient_;
};

}  // namespace

std::unique_ptr<peer::Learner> make_hostile_learner(std::unique_ptr<peer::Learner> own,
                                                    const Attack& attack,
                                                    std::function<bool()> is_active) {
  return std::make_unique<HostileLearner>(std::move(own), attack, std::move(is_active));
}

}  // namespace starling::hostile
