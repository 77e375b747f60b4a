#include "peer/training.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
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
    // A smaller batch counts by its samples.
    const double part = static_cast<double>(assignment_.batch) / config_.train.batch;
    out.push_back(Run{agreement_.begin_step(rate, part)});
  }
}

// Before the next step, and not while a crowd joins: it looks at all members.
void Training::assign_shards(Outbox& out) {
  if (!std::exchange(members_changed_, false)) return;
  Assignment assignment = assignment_of(membership_.table(), shards_, config_.train);
  if (assignment == assignment_ && !SIM_RARE(shards_told_again)) return;
  if (SIM_BUG(shards_not_moved) && !assignment_.shards.empty()) return;
  assignment_ = std::move(assignment);
  out.push_back(Run{ShardsJob{assignment_.shards, assignment_.batch}});
}

// A faster peer gets more of the data, so that all of it is passed over alike.
std::optional<float> Training::count(const StepDone& done, base::Time now) {
  ASSERT(under_way_ > 0);
  --under_way_;
  so_far_.step = done.step;
  so_far_.samples += done.samples;
  so_far_.last_step = now;
  if (!so_far_.first_step) so_far_.first_step = now;
  const double loss = done.loss;
  std::optional<double>& mean = so_far_.loss;
  mean = mean ? *mean + kLossSmoothing * (loss - *mean) : loss;
  return speed_.measure(so_far_.samples, membership_.self().speed, now);
}

void Training::evaluate_if_due(Outbox& out) {
  if (!is_over()) evaluations_.begin_if_due(so_far_.samples, so_far_.swarm_samples, out);
}

exchange::Progressed Training::progressed(base::Duration took) const {
  return {so_far_.step, so_far_.samples, so_far_.progress, took};
}

void Training::add_bounds(base::Bounds& out) const {
  out.add("shards", assignment_.shards.size(), shards_.count());
  out.add("steps asked for", under_way_, kStepsAhead);
  out.add("evaluations asked for", evaluations_.under_way(), kEvaluationsMax);
}

}  // namespace starling::peer
