// The training half of a peer's core: from waiting for the first links to the last checkpoint.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "peer/core.hpp"
#include "train/schedule.hpp"

namespace starling::peer {

using base::Notice;
using base::Severity;
namespace {

/// The end of a peer that had to meet others.
const base::Error kNoPeer{base::ErrorCode::unreachable, "no peer was reached"};
/// Weight of the newest batch in the smoothed training loss.
constexpr double kLossSmoothing = 0.05;

/// Why a peer cannot go on after this evaluation, or cannot be done with it.
std::optional<base::Error> what_diverged(const std::optional<Evaluated>& evaluated) {
  if (!evaluated || std::isfinite(evaluated->loss)) return std::nullopt;
  return base::Error{base::ErrorCode::diverged,
                     fmt::format("the loss of an evaluation is {}: lower train.lr, or look for "
                                 "values in the test data that are not finite",
                                 evaluated->loss)};
}

}  // namespace

void Core::start_if_ready(base::Time now, Outbox& out) {
  if (phase_ != Phase::waiting || !started_ || leaving_) return;
  if (!agreement_.may_start(neighbours_.size(), config_.membership.wait_for,
                            wait_until_.has_value(), progress_ >= 1.0)) {
    return;
  }
  phase_ = Phase::training;
  training_since_ = now;
  if (config_.checkpoint_every > base::Duration{}) checkpoint_at_ = now + config_.checkpoint_every;
  report_at_ = now + kReportEvery;
  next_steps(now, out);
}

// Of those that are not here yet nobody may be left.
void Core::end_wait(base::Time now, Outbox& out) {
  wait_until_.reset();
  start_if_ready(now, out);
  if (phase_ == Phase::training && neighbours_.empty()) {
    out.push_back(Notice{
        Severity::warning,
        alone_until_ ? fmt::format("no peer was reached: gives up in {:.0f} s if none is",
                                   base::seconds(*alone_until_ - now))
                     : "no peer was reached: training alone, and looking for others meanwhile"});
  }
  if (phase_ == Phase::waiting && agreement_.goes_in_step()) {
    out.push_back(Notice{
        Severity::warning,
        fmt::format("still waits for peers: {} of {} (swarm.peers) are linked, and the first step "
                    "is made when all are",
                    neighbours_.size() + 1, config_.peers)});
  }
}

void Core::end_if_alone(base::Time now, Outbox& out) {
  alone_until_.reset();
  // Who is about to end saves first.
  if (had_neighbour_ || leaving_ || phase_ == Phase::finishing) return;
  end({EndReason::failed, kNoPeer}, now, out);
}

void Core::update_progress(base::Time now) {
  if (agreement_.goes_in_step()) {
    // Every peer has made the same steps, so all know the sum and stop at the same one.
    swarm_samples_ = samples_ * config_.peers;
  } else {
    swarm_samples_ = membership_.progress().total(now);
  }
  const double done =
      static_cast<double>(swarm_samples_) / static_cast<double>(config_.target_samples);
  progress_ = std::clamp(SIM_BUG(progress_falls) ? done : std::max(progress_, done), 0.0, 1.0);
}

void Core::evaluate_if_due(Outbox& out) {
  if (config_.evaluate_every == 0 || evaluations_outstanding_ > 0) return;
  const std::uint64_t trained = config_.evaluate_by_own_samples ? samples_ : swarm_samples_;
  const std::uint64_t due = trained / config_.evaluate_every;
  if (due <= evaluations_due_ || progress_ >= 1.0) return;
  evaluations_due_ = due;
  ++evaluations_outstanding_;
  out.push_back(Run{EvaluateJob{config_.evaluate_samples}});
}

void Core::next_steps(base::Time now, Outbox& out) {
  update_progress(now);
  if (!may_step()) return;
  const bool reached =
      config_.target_accuracy && evaluated_ && evaluated_->accuracy >= *config_.target_accuracy;
  if (reached) progress_ = 1.0;  // so that a restart does not train on, either
  const bool over = progress_ >= 1.0;
  if (steps_outstanding_ == 0) {
    if (auto job = agreement_.begin_average(over)) out.push_back(Run{std::move(*job)});
  }
  if (agreement_.is_averaging()) return;
  if (over) return begin_settling(now, out);
  if (agreement_.stops()) return;
  hand_out_steps(now, out);
}

void Core::hand_out_steps(base::Time now, Outbox& out) {
  learning_rate_ = train::learning_rate(config_.train, SIM_BUG(rate_of_the_start) ? 0 : progress_);
  if (SIM_BUG(rate_of_zero)) learning_rate_ = 0;
  const bool one = agreement_.goes_in_step() || SIM_RARE(one_step_ahead);
  const std::uint32_t ahead = one ? 1 : kStepsAhead;
  const auto enough = [&] {
    const std::uint64_t handed_out = std::uint64_t{steps_outstanding_} * share_.batch;
    return swarm_samples_ + handed_out >= config_.target_samples;
  };
  for (; steps_outstanding_ < ahead && !enough() && pace_.take(share_.batch, now);
       ++steps_outstanding_) {
    assign_shards(out);
    // A smaller batch counts by its samples.
    const double part = static_cast<double>(share_.batch) / config_.train.batch;
    out.push_back(Run{agreement_.begin_step(learning_rate_, part)});
  }
}

// Before the next step, and not while a crowd joins: it looks at all members.
void Core::assign_shards(Outbox& out) {
  if (!std::exchange(members_changed_, false)) return;
  Share share = share_of(membership_.table(), shards_, config_.train);
  if (share == share_ && !SIM_RARE(shards_told_again)) return;
  if (SIM_BUG(shards_not_moved) && !share_.shards.empty()) return;
  share_ = std::move(share);
  out.push_back(Run{ShardsJob{share_.shards, share_.batch}});
}

void Core::on_outcome(OuterGradient& ready, base::Time now, Outbox& out) {
  to_agreement(Agreement::Contribution{samples_, std::move(ready.values)}, now, out);
}

// All have the same replica: whatever is decided by what it is worth, all decide alike.
void Core::on_outcome(const OuterStepDone&, base::Time now, Outbox& out) {
  agreement_.average_made();
  evaluate_if_due(out);
  next_steps(now, out);
}

bool Core::may_step() const noexcept {
  return phase_ == Phase::training && agreement_.may_step(leaving_, evaluations_outstanding_ > 0);
}

// Whether nothing but the limit of steps a second will cause the next one.
bool Core::waits_for_step() const noexcept {
  if (agreement_.stops()) return false;
  return pace_.next() && may_step() && steps_outstanding_ == 0 && !agreement_.is_averaging();
}

void Core::on_outcome(GradientReady& ready, base::Time now, Outbox& out) {
  to_agreement(Agreement::Contribution{samples_, std::move(ready.gradient), ready.step}, now, out);
}

void Core::on_outcome(const StepDone& done, base::Time now, Outbox& out) {
  ASSERT(steps_outstanding_ > 0);
  --steps_outstanding_;
  step_ = done.step;
  last_step_ = now;
  if (!first_step_) first_step_ = now;
  samples_ += done.samples;
  const double loss = done.loss;
  train_loss_ = train_loss_ ? *train_loss_ + kLossSmoothing * (loss - *train_loss_) : loss;
  measure_speed(now, out);
  if (!SIM_RARE(progress_unpublished)) publish(now);
  if (SIM_RARE(save_now)) save_if_idle(out);
  update_progress(now);
  if (agreement_.has_links()) {
    to_agreement(exchange::Progressed{step_, samples_, progress_, done.took}, now, out);
    if (phase_ == Phase::done) return;
  }
  if (phase_ == Phase::settling && steps_outstanding_ == 0) settle(now, out);
  agreement_.step_made();
  if (!agreement_.has_rounds()) evaluate_if_due(out);
  next_steps(now, out);
}

// A faster peer gets more of the data, so that all of it is passed over alike.
void Core::measure_speed(base::Time now, Outbox& out) {
  const auto speed = speed_.measure(samples_, membership_.self().speed, now);
  if (speed) to_membership(membership::SpeedMeasured{*speed}, now, out);
}

void Core::begin_settling(base::Time now, Outbox& out) {
  phase_ = Phase::settling;
  agreement_.finish();
  publish(now);  // the others count no longer on steps of this peer
  if (!agreement_.has_links()) return begin_finishing(now, out);
  // The steps that are handed out already come first.
  if (steps_outstanding_ == 0) settle(now, out);
}

void Core::settle(base::Time now, Outbox& out) {
  tell_company(now, out);
  to_agreement(exchange::Phase::settling, now, out);
}

void Core::tell_company(base::Time now, Outbox& out) {
  to_agreement(exchange::Company{membership_.may_find_neighbours()}, now, out);
}

void Core::begin_finishing(base::Time now, Outbox& out) {
  if (phase_ == Phase::finishing || (leaving_ && !agreement_.goes_in_step())) return;
  // This peer came when the others were done, and they left before their replica had come across.
  if (agreement_.has_links() && exchange().is_bystander() &&
      swarm_samples_ >= config_.target_samples) {
    return end({EndReason::failed,
                {base::ErrorCode::unreachable,
                 "the others ended the run before this peer had a replica of it: take the model of "
                 "one of them"}},
               now, out);
  }
  phase_ = Phase::finishing;
  checkpoint_at_.reset();  // the last one follows
  // In this order: to evaluate may take long, and whoever ends this peer meanwhile loses nothing.
  save(out);
  ++evaluations_outstanding_;
  out.push_back(Run{EvaluateJob{}});
}

void Core::save(Outbox& out) {
  ++saves_outstanding_;
  remember_others(out);
  out.push_back(Run{SaveJob{.progress = progress_,
                            .others = membership_.progress().counters_of_others(),
                            .own_prefix = self_.id.prefix(),
                            .recalled = membership_.progress().recalled()}});
}

// A checkpoint that somebody or a timer asks for. Asked for many times, it would fill the
// trainer's queue. Peers of a ring can only go on from the same step, so they save together.
void Core::save_if_idle(Outbox& out) {
  if (!agreement_.saves_together() && saves_outstanding_ == 0) save(out);
}

void Core::on(Checkpoint&, base::Time, Outbox& out) {
  if (!is_relay()) save_if_idle(out);
}

void Core::on(Leave&, base::Time now, Outbox& out) {
  if (std::exchange(leaving_, true)) return;
  agreement_.wish_to_leave();
  if (phase_ == Phase::waiting || is_relay()) return end({EndReason::left, {}}, now, out);
  if (agreement_.goes_in_step() && phase_ == Phase::training)
    return;  // the others hear of it with the next gradient
  if (phase_ != Phase::finishing) return save(out);
  end_if_over(now, out);
}

void Core::on_outcome(const Evaluated& evaluated, base::Time now, Outbox& out) {
  end_evaluation(evaluated, now, out);
}

void Core::on_outcome(const NotEvaluated&, base::Time now, Outbox& out) {
  end_evaluation(std::nullopt, now, out);
}

void Core::end_evaluation(const std::optional<Evaluated>& evaluated, base::Time now, Outbox& out) {
  evaluated_ = evaluated;
  --evaluations_outstanding_;
  // At the end others of a ring may still need this peer: end_if_finished() comes to it.
  if (phase_ != Phase::finishing) {
    if (auto error = what_diverged(evaluated)) {
      return end({EndReason::failed, std::move(*error)}, now, out);
    }
  }
  publish(now);
  out.push_back(Report{.evaluated = evaluated.has_value()});
  if (agreement_.goes_in_step()) next_steps(now, out);
  end_if_over(now, out);
}

void Core::on_outcome(const Saved& saved, base::Time now, Outbox& out) {
  if (saved.status || !SIM_BUG(save_once)) --saves_outstanding_;
  if (!saved.status) {
    out.push_back(
        Notice{Severity::warning, "the checkpoint was not written: " + saved.status.error().text});
  }
  if (saves_outstanding_ > 0) return;
  unsaved_ = {};
  if (!saved.status) unsaved_ = saved.status.error().in("the model was not saved");
  end_if_over(now, out);
}

void Core::end_if_over(base::Time now, Outbox& out) {
  if (saves_outstanding_ > 0 || !agreement_.is_served()) return;
  if (leaving_ && !agreement_.is_needed()) return end({EndReason::left, unsaved_}, now, out);
  // Not while an evaluation may still find that the run has reached its target.
  if (agreement_.stops() && phase_ == Phase::training && evaluations_outstanding_ == 0) {
    end_broken(agreement_.end_by("another peer was asked to leave"), now, out);
  }
  end_if_finished(now, out);
}

void Core::end_broken(base::Error error, base::Time now, Outbox& out) {
  end({leaving_ ? EndReason::left : EndReason::failed, std::move(error)}, now, out);
}

void Core::end_if_finished(base::Time now, Outbox& out) {
  if (phase_ != Phase::finishing || evaluations_outstanding_ > 0) return;
  if (auto error = what_diverged(evaluated_)) {
    return end({EndReason::failed, std::move(*error)}, now, out);
  }
  // Where nothing is evaluated, the checkpoint alone tells what the last step came to.
  if (unsaved_.code == base::ErrorCode::diverged) {
    return end({EndReason::failed, unsaved_}, now, out);
  }
  if (stays_as_relay(now, out)) return;
  const bool misses_peers = config_.require_peers > base::Duration{} && !had_neighbour_;
  end({EndReason::done, misses_peers && unsaved_.text.empty() ? kNoPeer : unsaved_}, now, out);
}

// Who is linked over this peer may not be done yet, and have no other way to the rest.
bool Core::stays_as_relay(base::Time now, Outbox& out) {
  if (!stay_until_ && reach_.relayed() > 0) {
    stay_until_ = now + kStayMax;
    out.push_back(Notice{Severity::info,
                         fmt::format("done; it stays for {} circuits that it relays, {:.0f} s at "
                                     "most",
                                     reach_.relayed(), base::seconds(kStayMax))});
    to_reach(reach::Retire{}, now, out);
  }
  return stay_until_ && now < *stay_until_ && reach_.relayed() > 0;
}

void Core::publish(base::Time now) {
  wire::Progress own{.id_prefix = self_.id.prefix(),
                     .samples = samples_,
                     .drift = static_cast<float>(agreement_.drift().value_or(0)),
                     .links = static_cast<std::uint32_t>(neighbours_.size())};
  if (evaluated_) {
    own.loss = static_cast<float>(evaluated_->loss);
    own.accuracy = static_cast<float>(evaluated_->accuracy);
  }
  const bool trains =
      phase_ == Phase::training || (phase_ == Phase::settling && steps_outstanding_ > 0);
  membership_.set_own_progress(own, trains, now);
}

}  // namespace starling::peer
