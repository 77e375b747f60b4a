#include "peer/core.hpp"

#include <utility>

#include "base/overloaded.hpp"

namespace starling::peer {

using base::LogEntry;
using base::Overloaded;

namespace {

/// A peer that knows where others may be looks for them there, and waits for one of them.
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

}  // namespace

namespace {

/// With the settings of training that others compare theirs with.
wire::MemberRecord described(wire::MemberRecord self, const Config& config) {
  if (!self.has_replica || !config.trains) return self;
  self.batch = config.train.batch;
  self.lr = static_cast<float>(config.train.lr);
  return self;
}

}  // namespace

Core::Core(Config config, wire::MemberRecord self, const data::Shards& shards, const Resume& resume,
           membership::Signer& signer, base::Rng rng)
    : known_(config.membership.join, resume.addresses),
      config_(completed(std::move(config), known_)),
      addresses_(self.addresses),
      membership_(config_.membership, described(std::move(self), config_), signer, rng.fork()),
      agreement_(config_, membership_, resume, rng),
      reach_(config_.relay, membership_.self().id, addresses_, config_.secure, rng.fork()),
      links_({.config = config_,
              .reach = reach_,
              .agreement = agreement_,
              .neighbours = neighbours_,
              .membership = membership_,
              .known = known_,
              .whole = *this}),
      training_(config_, shards, membership_, agreement_, resume),
      saving_(config_, membership_, training_, agreement_, known_),
      lifecycle_({.config = config_,
                  .neighbours = neighbours_,
                  .reach = reach_,
                  .membership = membership_,
                  .agreement = agreement_,
                  .training = training_,
                  .saving = saving_,
                  .whole = *this}) {
  membership_.progress().restore(resume.counters);
}

void Core::handle(Event event, base::Time now, Outbox& out) {
  if (phase() == Phase::done) return;
  std::visit(Overloaded{[&](Start&) {
                          lifecycle_.start(now);
                          expire_membership(now, out);
                          lifecycle_.start_if_ready(now, out);
                        },
                        [&](Found& found) { to_membership(std::move(found), now, out); },
                        [&](Moved& moved) {
                          addresses_ = std::move(moved.addresses);
                          to_reach(reach::Moved{addresses_}, now, out);
                        },
                        [&](CircuitEnded& ended) { to_reach(ended, now, out); },
                        [&](Outcome& outcome) { take(outcome, now, out); },
                        [&](Leave&) { lifecycle_.leave(now, out); },
                        [&](Checkpoint&) {
                          if (phase() != Phase::relaying) saving_.save_if_idle(out);
                        },
                        [&](auto& of_link) { links_.on(of_link, now, out); }},
             event);
  lifecycle_.end_stay_if_over(now, out);
}

// --- to the parts ---

void Core::to_membership(membership::Event event, base::Time now, Outbox& out) {
  membership::Outbox actions;
  membership_.handle(std::move(event), now, actions);
  take(actions, now, out);
}

void Core::to_reach(const reach::Event& event, base::Time now, Outbox& out) {
  reach::Outbox actions;
  reach_.handle(event, Table(membership_), now, actions);
  take(actions, now, out);
}

void Core::to_agreement(Agreement::Event event, base::Time now, Outbox& out) {
  Agreement::Outbox actions;
  agreement_.handle(std::move(event), now, actions);
  take(actions, now, out);
}

reach::Answered Core::answered(const std::string& address, const base::PeerId& peer, base::Time now,
                               Outbox& out) {
  reach::Outbox actions;
  const reach::Answered answered = reach_.answered(address, peer, now, actions);
  take(actions, now, out);
  return answered;
}

void Core::end(Finished finished, base::Time now, Outbox& out) {
  lifecycle_.end(std::move(finished), now, out);
}

void Core::expire_membership(base::Time now, Outbox& out) {
  membership::Outbox actions;
  membership_.expire(now, actions);
  take(actions, now, out);
}

void Core::expire_reach(base::Time now, Outbox& out) {
  reach::Outbox actions;
  reach_.expire(Table(membership_), now, actions);
  take(actions, now, out);
}

void Core::expire_agreement(base::Time now, Outbox& out) {
  Agreement::Outbox actions;
  agreement_.expire(now, actions);
  take(actions, now, out);
}

// --- from the parts ---

void Core::take(membership::Outbox& actions, base::Time now, Outbox& out) {
  for (membership::Action& action : actions) {
    if (phase() == Phase::done) return;  // Finished is the last action
    std::visit(Overloaded{[&](membership::Dial& dial) {
                            to_reach(reach::Want{std::move(dial.address), dial.peer}, now, out);
                          },
                          [&](membership::Close& close) {
                            out.push_back(Send{close.link, wire::Bye{close.reason, {}}});
                            out.push_back(Close{close.link});
                          },
                          [&](membership::NeighbourUp& up) { neighbour_up(up, now, out); },
                          [&](membership::NeighbourDown& down) {
                            neighbours_.remove(down.peer);
                            to_agreement(Agreement::LinkDown{down.peer, down.reason}, now, out);
                          },
                          [&](membership::MembersChanged&) {
                            training_.members_changed();
                            if (agreement_.goes_in_step()) {
                              to_agreement(Agreement::MembersChanged{}, now, out);
                            }
                            lifecycle_.members_changed(now, out);
                          },
                          [&](auto& own) { out.push_back(std::move(own)); }},
               action);
  }
  if (phase() != Phase::done) saving_.remember_changes(now, out);
}

// News of the swarm's progress since the last own step decides how the first link opens.
void Core::neighbour_up(const membership::NeighbourUp& up, base::Time now, Outbox& out) {
  neighbours_.add(up.peer, up.link);
  if (agreement_.has_links() && exchange().open_links() == 0) {
    training_.update_progress(now);
    to_agreement(training_.progressed(), now, out);
  }
  to_agreement(Agreement::LinkUp{up.peer}, now, out);
  lifecycle_.start_if_ready(now, out);
}

void Core::take(reach::Outbox& actions, base::Time now, Outbox& out) {
  for (reach::Action& action : actions) {
    if (phase() == Phase::done) return;  // Finished is the last action
    std::visit(
        Overloaded{
            [&](reach::Send& send) {
              out.push_back(Send{send.link, std::move(send.message)});
            },
            [&](reach::Hold& hold) {
              to_membership(membership::Hold{hold.link, hold.on}, now, out);
            },
            [&](reach::Tell& tell) {
              to_membership(membership::Moved{addresses_with(tell.outer), tell.reach}, now, out);
            },
            [&](reach::Failed& failed) {
              to_membership(
                  membership::DialFailed{std::move(failed.address), std::move(failed.text),
                                         failed.own, failed.no_route},
                  now, out);
            },
            [&](auto& own) { out.push_back(std::move(own)); }},
        action);
  }
}

// The outer address comes first: it is the one that most members can use.
std::vector<std::string> Core::addresses_with(const std::string& outer) const {
  std::vector<std::string> addresses = addresses_;
  if (outer.empty()) return addresses;
  std::erase(addresses, outer);
  addresses.insert(addresses.begin(), outer);
  if (addresses.size() > wire::kAddressesMax) addresses.resize(wire::kAddressesMax);
  return addresses;
}

void Core::take(Agreement::Outbox& actions, base::Time now, Outbox& out) {
  for (Agreement::Action& action : actions) {
    if (phase() == Phase::done) return;  // Finished is the last action
    std::visit(Overloaded{[&](Agreement::Send& send) {
                            const base::LinkId link = neighbours_.link_of(send.peer);
                            if (link.valid()) out.push_back(Send{link, std::move(send.message)});
                          },
                          [&](Run& run) { out.push_back(std::move(run)); },
                          [&](LogEntry& said) { out.push_back(std::move(said)); },
                          [&](Agreement::Misbehaved& who) { links_.on(who, now, out); },
                          [&](Agreement::NoRoom& who) { links_.on(who, now, out); },
                          [&](Agreement::SaveTogether&) { saving_.save_together(now, out); },
                          [&](Agreement::Served&) { lifecycle_.end_if_over(now, out); },
                          [&](Agreement::Failed& failed) {
                            end({EndReason::failed, std::move(failed.error)}, now, out);
                          },
                          [&](auto& of_run) { lifecycle_.on(of_run, now, out); }},
               action);
  }
  lifecycle_.agreement_changed(now, out);
}

void Core::note_exchange(const exchange::Committed& made, base::Time now, Outbox& out) {
  const std::uint64_t prefix = made.peer.prefix();
  membership::ProgressTable& progress = membership_.progress();
  progress.watch(prefix, made.moved, made.told);
  if (!config_.weighs_by_speed) return;
  to_agreement(exchange::Vouched{made.peer, progress.credible_samples_of(prefix, now)}, now, out);
}

void Core::take(Outcome& outcome, base::Time now, Outbox& out) {
  std::visit(
      Overloaded{[&](GradientReady& ready) {
                   to_agreement(Agreement::Contribution{training_.so_far().samples,
                                                        std::move(ready.gradient), ready.step},
                                now, out);
                 },
                 [&](OuterGradient& ready) {
                   to_agreement(
                       Agreement::Contribution{training_.so_far().samples, std::move(ready.values)},
                       now, out);
                 },
                 [&](exchange::Outcome& of_exchange) {
                   if (const auto* made = std::get_if<exchange::Committed>(&of_exchange)) {
                     note_exchange(*made, now, out);
                   }
                   to_agreement(std::move(of_exchange), now, out);
                 },
                 [&](Evaluated& evaluated) { lifecycle_.end_evaluation(evaluated, now, out); },
                 [&](NotEvaluated&) { lifecycle_.end_evaluation(std::nullopt, now, out); },
                 [&](Failed& failed) {
                   end({EndReason::failed, std::move(failed.error)}, now, out);
                 },
                 [&](LogEntry& said) { out.push_back(std::move(said)); },
                 [&](auto& of_run) { lifecycle_.on(of_run, now, out); }},
      outcome);
}

}  // namespace starling::peer
