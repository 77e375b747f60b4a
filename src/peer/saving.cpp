#include "peer/saving.hpp"

#include <utility>

#include "base/simulated.hpp"

namespace starling::peer {

Saving::Saving(const Config& config, const membership::Core& membership, const Training& training,
               Agreement& agreement, KnownAddresses& known)
    : config_(config),
      membership_(membership),
      training_(training),
      agreement_(agreement),
      known_(known) {}

void Saving::begin_timer(base::Time now) {
  if (config_.checkpoint_every > base::Duration{}) next_at_ = now + config_.checkpoint_every;
}

void Saving::expire(base::Time now, Outbox& out) {
  begin_timer(now);
  save_if_idle(out);
}

void Saving::save(Outbox& out) {
  ++under_way_;
  remember_others(out);
  const membership::ProgressTable& counters = membership_.progress();
  out.push_back(Run{SaveJob{.progress = training_.so_far().progress,
                            .weight = training_.measured_weight(),
                            .others = counters.counters_of_others(),
                            .own_prefix = membership_.self().id.prefix(),
                            .recalled = counters.recalled()}});
}

// Asked for many times, it would fill the trainer's queue.
void Saving::save_if_idle(Outbox& out) {
  if (!agreement_.saves_together() && under_way_ == 0) save(out);
}

void Saving::save_together(base::Time now, Outbox& out) {
  if (next_at_) begin_timer(now);
  save(out);
}

bool Saving::end(const Saved& saved, Outbox& out) {
  if (saved.status || !SIM_BUG(save_once)) --under_way_;
  if (!saved.status) {
    out.push_back(base::LogEntry{base::Severity::warning,
                                 "the checkpoint was not written: " + saved.status.error().text});
  }
  if (under_way_ > 0) return false;
  unsaved_ = {};
  if (!saved.status) unsaved_ = saved.status.error().in("the model was not saved");
  return true;
}

void Saving::remember_changes(base::Time now, Outbox& out) {
  if (!membership_.self().has_replica) return;  // a relay's next run may be another
  if (known_.may_have_moved(membership_.table().hash(), now)) remember_others(out);
}

void Saving::remember_others(Outbox& out) {
  if (auto addresses = known_.remember(membership_.addresses_of_others())) {
    out.push_back(Remember{std::move(*addresses)});
  }
}

}  // namespace starling::peer
