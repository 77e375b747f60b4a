#include "peer/lifecycle.hpp"

#include <utility>

#include <fmt/core.h>

#include "base/simulated.hpp"
#include "peer/rates.hpp"

namespace starling::peer {

using base::LogEntry;
using base::Severity;

const char* to_string(Phase phase) noexcept {
  switch (phase) {
    case Phase::waiting:
      return "waiting";
    case Phase::training:
      return "training";
    case Phase::settling:
      return "settling";
    case Phase::finishing:
      return "finishing";
    case Phase::done:
      return "done";
    case Phase::relaying:
      return "relaying";
  }
  return "unknown";
}

namespace {

/// The end of a peer that had to meet others.
const base::Error kNoPeer{base::ErrorCode::unreachable, "no peer was reached"};
/// The end of a peer whose neighbours all left it out.
const base::Error kUnsettled{
    base::ErrorCode::unsettled,
    "this peer has agreed with none of the others: the model that it saved is not theirs. Take the "
    "model of one that has, or allow more time (exchange.settle_timeout)"};

}  // namespace

Lifecycle::Lifecycle(const Parts& parts)
    : parts_(parts),
      phase_(parts.membership.self().has_replica ? Phase::waiting : Phase::relaying) {}

// --- waiting ---

void Lifecycle::start(base::Time now) {
  const Config& config = parts_.config;
  started_ = true;
  if (phase_ == Phase::waiting) timers_.wait_until = now + config.membership.wait_timeout;
  if (config.require_peers > base::Duration{}) timers_.alone_until = now + config.require_peers;
  publish(now);
  parts_.training.update_progress(now);
}

void Lifecycle::start_if_ready(base::Time now, Outbox& out) {
  if (phase_ != Phase::waiting || !started_ || leaving_) return;
  const bool waits = timers_.wait_until.has_value();
  if (!parts_.agreement.may_start(parts_.neighbours.count(), parts_.config.membership.wait_for,
                                  waits, parts_.training.is_over())) {
    return;
  }
  if (parts_.config.trains && parts_.training.so_far().step.value == 0) {
    if (auto refusal = refuse_rate(parts_.membership.table(), parts_.config.train)) {
      return end({EndReason::failed, std::move(*refusal)}, now, out);
    }
  }
  phase_ = Phase::training;
  timers_.wait_until.reset();
  timers_.report_at = now + kReportEvery;
  parts_.training.begin(now);
  parts_.saving.begin_timer(now);
  next_steps(now, out);
}

// Of those that are not here yet nobody may be left.
void Lifecycle::end_wait(base::Time now, Outbox& out) {
  timers_.wait_until.reset();
  start_if_ready(now, out);
  const std::size_t neighbours = parts_.neighbours.count();
  if (phase_ == Phase::training && neighbours == 0) {
    const auto& alone_until = timers_.alone_until;
    out.push_back(LogEntry{
        Severity::warning,
        alone_until ? fmt::format("no peer was reached: gives up in {:.0f} s if none is",
                                  base::seconds(*alone_until - now))
                    : "no peer was reached: training alone, and looking for others meanwhile"});
  }
  if (phase_ == Phase::waiting && parts_.agreement.goes_in_step()) {
    out.push_back(LogEntry{
        Severity::warning,
        fmt::format("still waits for peers: {} of {} (swarm.peers) are linked, and the first step "
                    "is made when all are",
                    neighbours + 1, parts_.config.peers)});
  }
}

void Lifecycle::end_if_alone(base::Time now, Outbox& out) {
  timers_.alone_until.reset();
  // A peer that is about to end saves first.
  if (parts_.neighbours.met_one() || leaving_ || phase_ == Phase::finishing) return;
  end({EndReason::failed, kNoPeer}, now, out);
}

// --- training ---

bool Lifecycle::may_step() const {
  const bool evaluates = parts_.training.evaluations().under_way() > 0;
  return phase_ == Phase::training && parts_.agreement.may_step(leaving_, evaluates);
}

std::optional<base::Time> Lifecycle::step_at() const {
  const Agreement& agreement = parts_.agreement;
  if (agreement.stops() || agreement.is_averaging()) return std::nullopt;
  if (!may_step() || parts_.training.under_way() > 0) return std::nullopt;
  return parts_.training.next_step_at();
}

void Lifecycle::next_steps(base::Time now, Outbox& out) {
  Training& training = parts_.training;
  Agreement& agreement = parts_.agreement;
  training.update_progress(now);
  if (!may_step()) return;
  if (training.evaluations().reached_target()) training.end_run();
  const bool over = training.is_over();
  if (training.under_way() == 0) {
    if (auto job = agreement.begin_average(over)) out.push_back(Run{std::move(*job)});
  }
  if (agreement.is_averaging()) return;
  if (over) return begin_settling(now, out);
  if (!agreement.stops()) training.hand_out_steps(now, out);
}

void Lifecycle::on(const StepDone& done, base::Time now, Outbox& out) {
  Training& training = parts_.training;
  Agreement& agreement = parts_.agreement;
  training.count(done, now);
  if (const auto news = training.take_news(now)) {
    parts_.whole.to_membership(*news, now, out);
  }
  if (!SIM_RARE(progress_unpublished)) publish(now);
  if (SIM_RARE(save_now)) parts_.saving.save_if_idle(out);
  training.update_progress(now);
  if (agreement.has_links()) {
    parts_.whole.to_agreement(training.progressed(done.took), now, out);
    if (phase_ == Phase::done) return;
  }
  if (phase_ == Phase::settling && training.under_way() == 0) settle(now, out);
  agreement.step_made();
  if (!agreement.has_rounds()) training.evaluate_if_due(out);
  next_steps(now, out);
}

// All have the same replica: whatever is decided by what it is worth, all decide alike.
void Lifecycle::on(const OuterStepDone&, base::Time now, Outbox& out) {
  parts_.agreement.average_made();
  parts_.training.evaluate_if_due(out);
  next_steps(now, out);
}

void Lifecycle::end_evaluation(const std::optional<Evaluated>& evaluated, base::Time now,
                               Outbox& out) {
  Evaluations& evaluations = parts_.training.evaluations();
  evaluations.end(evaluated);
  // At the end others of a ring may still need this peer: end_if_finished() comes to it.
  if (phase_ != Phase::finishing) {
    if (auto error = evaluations.what_diverged()) {
      return end({EndReason::failed, std::move(*error)}, now, out);
    }
  }
  publish(now);
  out.push_back(Report{.evaluated = evaluated.has_value()});
  if (parts_.agreement.goes_in_step()) next_steps(now, out);
  end_if_over(now, out);
}

void Lifecycle::agreement_changed(base::Time now, Outbox& out) {
  start_if_ready(now, out);
  if (!parts_.agreement.has_links() || SIM_BUG(steps_end)) return;
  if (phase_ == Phase::training && parts_.training.under_way() == 0) next_steps(now, out);
}

void Lifecycle::publish(base::Time now) {
  wire::Progress own{.id_prefix = parts_.membership.self().id.prefix(),
                     .samples = parts_.training.so_far().samples,
                     .drift = static_cast<float>(parts_.agreement.drift().value_or(0)),
                     .links = static_cast<std::uint32_t>(parts_.neighbours.count())};
  if (const auto& evaluated = parts_.training.evaluations().latest()) {
    own.loss = static_cast<float>(evaluated->loss);
    own.accuracy = static_cast<float>(evaluated->accuracy);
  }
  const bool trains =
      phase_ == Phase::training || (phase_ == Phase::settling && parts_.training.under_way() > 0);
  parts_.membership.set_own_progress(own, trains, now);
}

void Lifecycle::report(base::Time now, Outbox& out) {
  timers_.report_at = now + kReportEvery;
  out.push_back(Report{});
}

// --- settling and finishing ---

void Lifecycle::begin_settling(base::Time now, Outbox& out) {
  phase_ = Phase::settling;
  parts_.agreement.finish();
  publish(now);  // the others count no longer on steps of this peer
  if (!parts_.agreement.has_links()) return begin_finishing(now, out);
  // The steps that are handed out already come first.
  if (parts_.training.under_way() == 0) settle(now, out);
}

void Lifecycle::settle(base::Time now, Outbox& out) {
  members_changed(now, out);
  parts_.whole.to_agreement(exchange::Phase::settling, now, out);
}

void Lifecycle::members_changed(base::Time now, Outbox& out) {
  if (phase_ != Phase::settling) return;
  const bool expected = parts_.membership.may_find_neighbours();
  parts_.whole.to_agreement(exchange::Company{expected}, now, out);
}

void Lifecycle::on(const Agreement::Settled& settled, base::Time now, Outbox& out) {
  settled_ = !settled.unsettled;
  const membership::MemberTable& table = parts_.membership.table();
  for (const auto& [peer, why] : settled.left_out) {
    const wire::MemberRecord* record = table.find(peer);
    // A member that is linked with others instead is not missing.
    const bool is_missed = record != nullptr && record->state != wire::MemberState::alive;
    if (why == exchange::LeftOutFor::lost && !is_missed) continue;
    left_out_.push_back({peer, record == nullptr ? peer.brief() : record->name, why});
    out.push_back(
        LogEntry{Severity::warning, fmt::format("settled without {}: {}", left_out_.back().name,
                                                base::name_of(why, exchange::kLeftOutNames))});
  }
  begin_finishing(now, out);
}

void Lifecycle::begin_finishing(base::Time now, Outbox& out) {
  const Agreement& agreement = parts_.agreement;
  if (phase_ == Phase::finishing || (leaving_ && !agreement.goes_in_step())) return;
  // This peer came when the others were done, and they left before their replica had come across.
  if (agreement.has_links() && agreement.exchange().never_joined() &&
      parts_.training.so_far().swarm_samples >= parts_.config.target_samples) {
    return end({EndReason::failed,
                {base::ErrorCode::unreachable,
                 "the others ended the run before this peer had a replica of it: take the model of "
                 "one of them"}},
               now, out);
  }
  phase_ = Phase::finishing;
  parts_.saving.end_timer();  // the last one follows
  // In this order: to evaluate may take long, and whoever ends this peer meanwhile loses nothing.
  parts_.saving.save(out);
  parts_.training.evaluations().begin_last(out);
}

// --- the end ---

void Lifecycle::leave(base::Time now, Outbox& out) {
  if (std::exchange(leaving_, true)) return;
  parts_.agreement.wish_to_leave();
  if (phase_ == Phase::waiting || phase_ == Phase::relaying) {
    return end({EndReason::left, {}}, now, out);
  }
  if (parts_.agreement.goes_in_step() && phase_ == Phase::training) {
    return;  // the others hear of it with the next gradient
  }
  if (phase_ != Phase::finishing) return parts_.saving.save(out);
  end_if_over(now, out);
}

void Lifecycle::on(const Saved& saved, base::Time now, Outbox& out) {
  if (parts_.saving.end(saved, out)) end_if_over(now, out);
}

void Lifecycle::on(Agreement::Broken& broken, base::Time now, Outbox& out) {
  end({leaving_ ? EndReason::left : EndReason::failed, std::move(broken.error)}, now, out);
}

void Lifecycle::end_if_over(base::Time now, Outbox& out) {
  const Agreement& agreement = parts_.agreement;
  if (parts_.saving.under_way() > 0 || !agreement.is_served()) return;
  if (leaving_ && !agreement.is_needed()) {
    return end({EndReason::left, parts_.saving.unsaved()}, now, out);
  }
  // Not while an evaluation may still find that the run has reached its target.
  if (agreement.stops() && phase_ == Phase::training &&
      parts_.training.evaluations().under_way() == 0) {
    const base::Error error = agreement.end_by("another peer was asked to leave");
    return end({EndReason::failed, error}, now, out);
  }
  end_if_finished(now, out);
}

void Lifecycle::end_if_finished(base::Time now, Outbox& out) {
  const Evaluations& evaluations = parts_.training.evaluations();
  const base::Error& unsaved = parts_.saving.unsaved();
  if (phase_ != Phase::finishing || evaluations.under_way() > 0) return;
  if (auto error = evaluations.what_diverged()) {
    return end({EndReason::failed, std::move(*error)}, now, out);
  }
  // Where nothing is evaluated, the checkpoint alone tells what the last step came to.
  if (unsaved.code == base::ErrorCode::diverged) {
    return end({EndReason::failed, unsaved}, now, out);
  }
  if (stays_as_relay(now, out)) return;
  end({EndReason::done, shortcoming()}, now, out);
}

base::Error Lifecycle::shortcoming() const {
  const base::Error& unsaved = parts_.saving.unsaved();
  if (!unsaved.text.empty()) return unsaved;
  if (parts_.config.require_peers > base::Duration{} && !parts_.neighbours.met_one()) {
    return kNoPeer;
  }
  return settled_.value_or(true) ? unsaved : kUnsettled;
}

// Peers linked over this one may not be done yet, and have no other way to the rest.
bool Lifecycle::stays_as_relay(base::Time now, Outbox& out) {
  const reach::Circuits& circuits = parts_.reach.circuits();
  auto& until = timers_.stay_until;
  if (!until && circuits.relayed() > 0) {
    until = now + kStayMax;
    out.push_back(LogEntry{Severity::info,
                           fmt::format("done; it stays for {} circuits that it relays, {:.0f} s at "
                                       "most",
                                       circuits.relayed(), base::seconds(kStayMax))});
    parts_.whole.to_reach(reach::Retire{}, now, out);
    parts_.whole.to_membership(membership::Stay{}, now, out);
  }
  return until && now < *until && circuits.relayed() > 0;
}

void Lifecycle::end_stay_if_over(base::Time now, Outbox& out) {
  if (timers_.stay_until) end_if_finished(now, out);
}

void Lifecycle::end(Finished finished, base::Time now, Outbox& out) {
  if (phase_ == Phase::done) return;
  const bool done = phase_ == Phase::finishing || parts_.agreement.stops();
  phase_ = Phase::done;
  // Ending without a word would be taken for a crash.
  membership::Outbox farewell;
  parts_.membership.handle(membership::Leave{done}, now, farewell);
  for (membership::Action& action : farewell) {
    if (auto* send = std::get_if<membership::Send>(&action)) {
      out.push_back(Send{send->link, std::move(send->message)});
    } else if (const auto* close = std::get_if<membership::Close>(&action)) {
      out.push_back(Send{close->link, wire::Bye{close->reason, {}}});
      out.push_back(Close{close->link});
    }
  }
  out.push_back(std::move(finished));
}

}  // namespace starling::peer
