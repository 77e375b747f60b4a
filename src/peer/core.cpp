#include "peer/core.hpp"

#include <utility>

#include "base/simulated.hpp"

namespace starling::peer {

using base::Notice;
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

/// Who knows where others may be looks for them there, and waits for one of them.
Config completed(Config config, const KnownAddresses& known) {
  config.membership.join = known.all();
  const bool expects_others = config.lan || !config.membership.join.empty();
  if (config.membership.wait_for == 0 && expects_others) config.membership.wait_for = 1;
  return config;
}

/// The member table as reach looks at it.
class Table final : public reach::Members {
 public:
  explicit Table(const membership::Core& membership) : membership_(membership) {}
  [[nodiscard]] const wire::MemberRecord* find(const base::PeerId& peer) const override {
    return membership_.table().find(peer);
  }

 private:
  const membership::Core& membership_;
};

bool is_due(const std::optional<base::Time>& deadline, base::Time now) {
  return deadline && *deadline <= now;
}

}  // namespace

Core::Core(Config config, wire::MemberRecord self, const data::Shards& shards, const Resume& resume,
           membership::Signer& signer, base::Rng rng)
    : known_(config.membership.join, resume.addresses),
      config_(completed(std::move(config), known_)),
      self_(std::move(self)),
      shards_(shards),
      membership_(config_.membership, self_, signer, rng.fork()),
      agreement_(config_, membership_, resume, rng),
      reach_(config_.relay, self_.id, self_.addresses, config_.secure, rng.fork()),
      addresses_(self_.addresses),
      knows_run_(self_.has_replica),
      share_{.batch = config_.train.batch},
      pace_(config_.step_interval, config_.train.batch),
      phase_(self_.has_replica ? Phase::waiting : Phase::relaying),
      step_(resume.step),
      samples_(SIM_BUG(samples_forgotten) ? 0 : resume.samples),
      progress_(resume.progress) {
  membership_.progress().restore(resume.counters);
}

void Core::handle(Event event, base::Time now, Outbox& out) {
  if (phase_ == Phase::done) return;
  std::visit([&](auto& value) { on(value, now, out); }, event);
  if (stay_until_) end_if_finished(now, out);
}

void Core::expire(base::Time now, Outbox& out) {
  if (phase_ == Phase::done) return;
  expire_parts(now, out);
  if (phase_ == Phase::done) return;
  if (phase_ == Phase::waiting && is_due(wait_until_, now)) end_wait(now, out);
  close_silent_links(now, out);
  if (is_due(relays_until_, now)) return end({EndReason::done, {}}, now, out);
  if (is_due(alone_until_, now)) end_if_alone(now, out);
  if (stay_until_) end_if_finished(now, out);
  if (phase_ == Phase::done) return;
  if (waits_for_step() && is_due(pace_.next(), now)) next_steps(now, out);
  if (is_due(checkpoint_at_, now)) {
    checkpoint_at_ = now + config_.checkpoint_every;
    save_if_idle(out);
  }
  if (is_due(report_at_, now)) {
    report_at_ = now + kReportEvery;
    out.push_back(Report{});
  }
}

void Core::expire_parts(base::Time now, Outbox& out) {
  if (is_due(membership_.next_deadline(), now)) {
    membership::Outbox actions;
    membership_.expire(now, actions);
    take_membership(actions, now, out);
    if (phase_ == Phase::done) return;
  }
  if (is_due(reach_.next_deadline(), now)) {
    reach::Outbox actions;
    reach_.expire(Table(membership_), now, actions);
    take_reach(actions, now, out);
    if (phase_ == Phase::done) return;
  }
  if (is_due(agreement_.next_deadline(), now)) {
    Agreement::Outbox actions;
    agreement_.expire(now, actions);
    take_agreement(actions, now, out);
  }
}

// The next checkpoint may never come.
void Core::remember_changes(base::Time now, Outbox& out) {
  if (is_relay()) return;  // another run may be the next
  if (known_.may_have_moved(membership_.table().hash(), now)) remember_others(out);
}

void Core::remember_others(Outbox& out) {
  if (auto addresses = known_.remember(membership_.addresses_of_others())) {
    out.push_back(Remember{std::move(*addresses)});
  }
}

void Core::on(Start&, base::Time now, Outbox& out) {
  started_ = true;
  wait_until_ = now + config_.membership.wait_timeout;
  if (config_.require_peers > base::Duration{}) alone_until_ = now + config_.require_peers;
  publish(now);
  update_progress(now);
  membership::Outbox actions;
  membership_.expire(now, actions);
  take_membership(actions, now, out);
  start_if_ready(now, out);
}

void Core::on(Outcome& event, base::Time now, Outbox& out) {
  std::visit([&](auto& outcome) { on_outcome(outcome, now, out); }, event);
}

void Core::on_outcome(Notice& said, base::Time, Outbox& out) { out.push_back(std::move(said)); }

void Core::on_outcome(Failed& failed, base::Time now, Outbox& out) {
  end({EndReason::failed, std::move(failed.error)}, now, out);
}

void Core::on_outcome(exchange::Outcome& outcome, base::Time now, Outbox& out) {
  to_agreement(std::move(outcome), now, out);
}

void Core::to_membership(const membership::Event& event, base::Time now, Outbox& out) {
  membership::Outbox actions;
  membership_.handle(event, now, actions);
  take_membership(actions, now, out);
}

void Core::to_reach(const reach::Event& event, base::Time now, Outbox& out) {
  reach::Outbox actions;
  reach_.handle(event, Table(membership_), now, actions);
  take_reach(actions, now, out);
}

void Core::to_agreement(Agreement::Event event, base::Time now, Outbox& out) {
  Agreement::Outbox actions;
  agreement_.handle(std::move(event), now, actions);
  take_agreement(actions, now, out);
}

void Core::take_agreement(Agreement::Outbox& actions, base::Time now, Outbox& out) {
  for (Agreement::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit([&](auto& value) { perform(value, now, out); }, action);
  }
  if (phase_ == Phase::waiting) start_if_ready(now, out);
  if (!agreement_.has_links() || SIM_BUG(steps_end)) return;
  if (phase_ == Phase::training && steps_outstanding_ == 0) next_steps(now, out);
}

void Core::perform(Agreement::Send& send, base::Time, Outbox& out) {
  send_to(send.peer, std::move(send.message), out);
}

void Core::perform(Run& run, base::Time, Outbox& out) { out.push_back(std::move(run)); }

void Core::perform(const Agreement::Misbehaved& who, base::Time now, Outbox& out) {
  misbehaved(link_of(who.peer), who.peer, who.text, now, out);
}

void Core::perform(const Agreement::NoRoom& who, base::Time now, Outbox& out) {
  no_room_for(link_of(who.peer), who.peer, who.text, now, out);
}

void Core::perform(const Agreement::Settled& settled, base::Time now, Outbox& out) {
  if (settled.timed_out) out.push_back(Notice{Severity::warning, "settling took too long"});
  begin_finishing(now, out);
}

void Core::perform(const Agreement::SaveTogether&, base::Time now, Outbox& out) {
  if (checkpoint_at_) checkpoint_at_ = now + config_.checkpoint_every;
  save(out);
}

void Core::perform(const Agreement::Served&, base::Time now, Outbox& out) { end_if_over(now, out); }

void Core::perform(Agreement::Broken& broken, base::Time now, Outbox& out) {
  end_broken(std::move(broken.error), now, out);
}

void Core::perform(Agreement::Failed& failed, base::Time now, Outbox& out) {
  end({EndReason::failed, std::move(failed.error)}, now, out);
}

void Core::take_membership(membership::Outbox& actions, base::Time now, Outbox& out) {
  for (membership::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit([&](auto& value) { perform(value, now, out); }, action);
  }
  if (phase_ != Phase::done) remember_changes(now, out);
}

void Core::perform(membership::Dial& dial, base::Time now, Outbox& out) {
  to_reach(reach::Want{std::move(dial.address), dial.peer}, now, out);
}

void Core::take_reach(reach::Outbox& actions, base::Time now, Outbox& out) {
  for (reach::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit([&](auto& value) { perform(value, now, out); }, action);
  }
}

void Core::perform(reach::Dial& dial, base::Time, Outbox& out) { out.push_back(std::move(dial)); }

void Core::perform(reach::Send& send, base::Time, Outbox& out) {
  out.push_back(Send{send.link, std::move(send.message)});
}

void Core::perform(const reach::OpenCircuit& open, base::Time, Outbox& out) { out.push_back(open); }

void Core::perform(const reach::Relay& relay, base::Time, Outbox& out) { out.push_back(relay); }

void Core::perform(const reach::EndCircuit& end, base::Time, Outbox& out) { out.push_back(end); }

void Core::perform(const reach::Hold& hold, base::Time now, Outbox& out) {
  to_membership(membership::Hold{hold.link, hold.on}, now, out);
}

// The outer address comes first: it is the one that most members can use.
void Core::perform(const reach::Tell& tell, base::Time now, Outbox& out) {
  std::vector<std::string> addresses = addresses_;
  if (!tell.outer.empty()) {
    std::erase(addresses, tell.outer);
    addresses.insert(addresses.begin(), tell.outer);
    if (addresses.size() > wire::kAddressesMax) addresses.resize(wire::kAddressesMax);
  }
  to_membership(membership::Moved{std::move(addresses), tell.reach}, now, out);
}

void Core::perform(reach::Failed& failed, base::Time now, Outbox& out) {
  to_membership(membership::DialFailed{std::move(failed.address), std::move(failed.text),
                                       failed.own, failed.no_route},
                now, out);
}

void Core::perform(membership::Send& send, base::Time, Outbox& out) {
  out.push_back(std::move(send));
}

void Core::perform(const membership::Close& close, base::Time, Outbox& out) {
  out.push_back(Send{close.link, wire::Bye{close.reason, {}}});
  out.push_back(Close{close.link});
}

void Core::perform(const membership::MembersChanged&, base::Time now, Outbox& out) {
  members_changed_ = true;
  if (agreement_.goes_in_step()) to_agreement(Agreement::MembersChanged{}, now, out);
  if (phase_ == Phase::settling) tell_company(now, out);
}

void Core::perform(Notice& said, base::Time, Outbox& out) { out.push_back(std::move(said)); }

// What was heard of the swarm's progress since the last own step decides how the first link opens.
void Core::tell_progress(base::Time now, Outbox& out) {
  update_progress(now);
  to_agreement(exchange::Progressed{step_, samples_, progress_}, now, out);
}

void Core::perform(const membership::NeighbourUp& up, base::Time now, Outbox& out) {
  const base::PeerId peer = up.peer;
  had_neighbour_ = true;
  neighbours_[peer] = up.link;
  if (agreement_.has_links() && exchange().open_links() == 0) tell_progress(now, out);
  to_agreement(Agreement::LinkUp{peer}, now, out);
  if (phase_ == Phase::waiting) start_if_ready(now, out);
}

void Core::perform(const membership::NeighbourDown& down, base::Time now, Outbox& out) {
  const auto& [peer, link, reason] = down;
  neighbours_.erase(peer);
  to_agreement(Agreement::LinkDown{peer, reason}, now, out);
}

base::LinkId Core::link_of(const base::PeerId& peer) const {
  const auto found = neighbours_.find(peer);
  return found != neighbours_.end() ? found->second : base::LinkId{};
}

void Core::send_to(const base::PeerId& peer, wire::Message message, Outbox& out) {
  const base::LinkId link = link_of(peer);
  if (link.valid()) out.push_back(Send{link, std::move(message)});
}

void Core::end(Finished finished, base::Time now, Outbox& out) {
  if (phase_ == Phase::done) return;
  const bool done = phase_ == Phase::finishing || agreement_.stops();
  phase_ = Phase::done;
  // Ending without a word would be taken for a crash.
  membership::Outbox farewell;
  membership_.handle(membership::Leave{done}, now, farewell);
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
