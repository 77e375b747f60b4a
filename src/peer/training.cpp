#include "peer/training.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "peer/rates.hpp"
#include "train/schedule.hpp"

namespace starling::peer {
namespace {

/// Weight of the newest batch in the smoothed training loss.
constexpr double kLossSmoothing = 0.05;

}  // namespace

Training::Training(const Config& config, const data::Shards& shards,
                   const membership::Core& membership, Agreement& agreement, const Resume& resume)
    : config_(config),
      shards_(shards),
      membership_(membership),
      agreement_(agreement),
      evaluations_(config),
      so_far_{.step = resume.step,
              .samples = SIM_BUG(samples_forgotten) ? 0 : resume.samples,
              .progress = resume.progress},
      assignment_{.batch = config.train.batch},
      weight_(resume.weight),
      pace_(config.step_interval, config.train.batch) {}

void Training::update_progress(base::Time now) {
  if (agreement_.goes_in_step()) {
    // Every peer has made the same steps, so all know the sum and stop at the same one.
    so_far_.swarm_samples = so_far_.samples * config_.peers;
  } else {
    so_far_.swarm_samples = membership_.progress().total(now);
  }
  const double done =
      static_cast<double>(so_far_.swarm_samples) / static_cast<double>(config_.target_samples);
  const double known = SIM_BUG(progress_falls) ? done : std::max(so_far_.progress, done);
  so_far_.progress = std::clamp(known, 0.0, 1.0);
}

void Training::hand_out_steps(base::Time now, Outbox& out) {
  float& rate = so_far_.learning_rate;
  rate = train::learning_rate(config_.train, SIM_BUG(rate_of_the_start) ? 0 : so_far_.progress);
  if (SIM_BUG(rate_of_zero)) rate = 0;
  const bool one = agreement_.goes_in_step() || SIM_RARE(one_step_ahead);
  const std::uint32_t ahead = one ? 1 : kStepsAhead;
  const auto enough = [&] {
    const std::uint64_t handed_out = std::uint64_t{under_way_} * assignment_.batch;
    return so_far_.swarm_samples + handed_out >= config_.target_samples;
  };
  for (; under_way_ < ahead && !enough() && pace_.take(assignment_.batch, now); ++under_way_) {
    assign_shards(out);
    out.push_back(Run{agreement_.begin_step(rate, rate_factor_)});
  }
}

// Before the next step, and not while a crowd joins: it looks at all members.
void Training::assign_shards(Outbox& out) {
  if (!std::exchange(members_changed_, false)) return;
  Assignment assignment = assignment_of(membership_.table(), shards_, config_.train);
  rate_factor_ = rate_factor(membership_.table(), config_.train, assignment.batch);
  warn_of_rate(out);
  if (assignment == assignment_ && !SIM_RARE(shards_told_again)) return;
  if (SIM_BUG(shards_not_moved) && !assignment_.shards.empty()) return;
  assignment_ = std::move(assignment);
  out.push_back(Run{ShardsJob{assignment_.shards, assignment_.batch}});
}

void Training::warn_of_rate(Outbox& out) {
  const auto median = median_rate(membership_.table(), false);
  const bool differs =
      config_.trains && median && times_apart(config_.train.lr, *median) > kRateApart;
  if (differs && !warned_of_rate_) {
    out.push_back(base::LogEntry{
        base::Severity::warning,
        fmt::format("train.lr is {} here and {} at most other peers", config_.train.lr, *median)});
  }
  warned_of_rate_ = differs;
}

void Training::count(const StepDone& done, base::Time now) {
  ASSERT(under_way_ > 0);
  --under_way_;
  so_far_.step = done.step;
  so_far_.samples += done.samples;
  so_far_.last_step = now;
  if (!so_far_.first_step) so_far_.first_step = now;
  const double loss = done.loss;
  std::optional<double>& mean = so_far_.loss;
  mean = mean ? *mean + kLossSmoothing * (loss - *mean) : loss;
  // By the rate or by the weight a peer may count less, not by both.
  weight_.on_step(done.samples / rate_factor_, membership_.table(), now);
}

// A faster peer gets more of the data, so that all of it is passed over alike.
std::optional<membership::SpeedMeasured> Training::take_news(base::Time now) {
  const wire::MemberRecord& told = membership_.self();
  const auto speed = speed_.measure(so_far_.samples, told.speed, now);
  if (!speed && told.weight == weight()) return std::nullopt;
  return membership::SpeedMeasured{.speed = speed.value_or(told.speed), .weight = weight()};
}

// Before anybody's first step, all replicas are worth the same.
std::int8_t Training::weight() const {
  if (config_.weight) return *config_.weight;
  const bool all_alike = !config_.weighs_by_speed || so_far_.swarm_samples == 0;
  return all_alike ? std::int8_t{0} : weight_.value();
}

std::optional<std::int8_t> Training::measured_weight() const {
  const std::int8_t weight = weight_.value();
  return weight == wire::kNoWeight ? std::nullopt : std::optional(weight);
}

void Training::evaluate_if_due(Outbox& out) {
  if (is_over()) return;
  evaluations_.begin_if_due(so_far_.samples, so_far_.swarm_samples, out);
  if (evaluations_.under_way() > 0) weight_.interrupt();
}

exchange::Progressed Training::progressed(base::Duration took) const {
  return {so_far_.step, so_far_.samples, so_far_.progress, took, weight()};
}

void Training::add_bounds(base::Bounds& out) const {
  out.add("shards", assignment_.shards.size(), shards_.count());
  out.add("steps asked for", under_way_, kStepsAhead);
  out.add("evaluations asked for", evaluations_.under_way(), kEvaluationsMax);
}

}  // namespace starling::peer
