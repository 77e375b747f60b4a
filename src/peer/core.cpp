#include "peer/core.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "peer/run_file_keys.hpp"

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

std::optional<RingSeat> seat_of(const base::PeerId& self, const Config& config,
                                base::StepNumber first, std::uint64_t life) {
  if (!exchange::uses_ring(config.exchange.mode)) return std::nullopt;
  return RingSeat({.self = self,
                   .peers = config.peers,
                   .elements = config.parameter_count + config.buffer_count,
                   .first = first,
                   .life = life});
}

}  // namespace

Core::Core(Config config, wire::MemberRecord self, const data::Shards& shards, const Resume& resume,
           membership::Signer& signer, base::Rng rng)
    : known_(config.membership.join, resume.addresses),
      config_(completed(std::move(config), known_)),
      self_(std::move(self)),
      shards_(shards),
      membership_(config_.membership, self_, signer, rng.fork()),
      exchange_({.config = config_.exchange,
                 .elements = config_.parameter_count,
                 .buffers = config_.buffer_count,
                 .samples_target = config_.target_samples,
                 .has_state = resume.step.value > 0,
                 .step = resume.step,
                 .samples = resume.samples,
                 .progress = resume.progress},
                rng.fork()),
      ring_(seat_of(self_.id, config_, resume.step.next(), rng())),
      share_{.batch = config_.train.batch},
      pace_(config_.step_interval, config_.train.batch),
      step_(resume.step),
      samples_(SIM_BUG(samples_forgotten) ? 0 : resume.samples),
      progress_(resume.progress) {
  membership_.progress().restore(resume.counters);
}

void Core::save(Outbox& out) {
  ++saves_outstanding_;
  remember_others(out);
  out.push_back(Run{SaveJob{.progress = progress_,
                            .others = membership_.progress().counters_of_others(),
                            .own_prefix = self_.id.prefix(),
                            .recalled = membership_.progress().recalled()}});
}

/// A checkpoint that somebody or a timer asks for. Asked for many times, it would fill the
/// trainer's queue. Peers of a ring can only go on from the same step, so they save together.
void Core::save_if_idle(Outbox& out) {
  if (ring_ && ring_->goes_on()) {
    ring_->wish_to_save();
  } else if (saves_outstanding_ == 0) {
    save(out);
  }
}

/// The next checkpoint may never come.
void Core::remember_changes(base::Time now, Outbox& out) {
  if (known_.may_have_moved(membership_.table().hash(), now)) remember_others(out);
}

void Core::remember_others(Outbox& out) {
  if (auto addresses = known_.remember(membership_.addresses_of_others())) {
    out.push_back(Remember{std::move(*addresses)});
  }
}

void Core::handle(Event event, base::Time now, Outbox& out) {
  if (phase_ == Phase::done) return;
  std::visit([&](auto& value) { on(value, now, out); }, event);
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

void Core::on(LinkUp& event, base::Time now, Outbox& out) {
  if (event.peer == self_.id) {
    out.push_back(Close{event.link});
    // Its own dial is told only when it has come in at its other end.
    if (!event.dialed && !membership_.is_dialing() &&
        !std::exchange(reported_duplicate_key_, true)) {
      out.push_back(
          Notice{Severity::warning,
                 "another process has this peer's key (key.pem in its folder) and dials it "
                 "from " +
                     event.address + ": stop one of the two, or start one in a folder of its own"});
    }
    if (event.dialed) {
      if (known_.was_given(event.address)) {
        out.push_back(Notice{Severity::warning,
                             event.address + " leads to this peer itself, or to another process "
                                             "that has its key (key.pem in its folder)"});
      }
      to_membership(membership::DialFailed{event.address, "that is this peer", true}, now, out);
    }
    return;
  }
  if (links_.size() >= kConnectionsMax) {
    out.push_back(Close{event.link});
    if (event.dialed) {
      to_membership(membership::DialFailed{event.address, "too many links", false}, now, out);
    }
    return;
  }
  links_[event.link] = {.peer = event.peer,
                        .dialed = event.dialed,
                        .address = std::move(event.address),
                        .hello_until = now + kHelloTimeout};
  out.push_back(Send{event.link, wire::Hello{.run = config_.run,
                                             .parameters_hash = config_.parameters_hash,
                                             .self = membership_.self()}});
}

void Core::on(LinkDown& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  const LinkInfo info = std::move(found->second);
  links_.erase(found);
  if (info.ready) {
    to_membership(membership::LinkLost{event.link, event.reason, event.text}, now, out);
  } else if (info.dialed) {
    to_membership(membership::DialFailed{info.address, event.text, false}, now, out);
  }
}

void Core::on(DialFailed& event, base::Time now, Outbox& out) {
  // Where somebody wrote it down it should work; and it is tried for ever.
  const bool is_new = known_.note_failure(event.address);
  out.push_back(Notice{is_new && neighbours_.empty() ? Severity::warning : Severity::info,
                       "dialing " + event.address + " failed: " + event.text});
  // A swarm that comes up there later is no reason to end a peer that trains.
  if (event.turned_away && phase_ == Phase::waiting && !had_neighbour_ &&
      known_.note_turned_away(event.address)) {
    return end({EndReason::failed, {base::ErrorCode::run_file, event.text}}, now, out);
  }
  to_membership(membership::DialFailed{event.address, event.text, event.own}, now, out);
}

void Core::on(Found& event, base::Time now, Outbox& out) {
  to_membership(membership::Found{event.peer, std::move(event.address)}, now, out);
}

void Core::on(Received& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  LinkInfo& info = found->second;
  if (auto* hello = std::get_if<wire::Hello>(&event.message)) {
    return on_hello(event.link, info, *hello, now, out);
  }
  if (const auto* refusal = std::get_if<wire::Refuse>(&event.message)) {
    return on_refuse(info, *refusal, now, out);
  }
  if (std::holds_alternative<wire::RunFileRequest>(event.message)) {
    return on_run_file_request(event.link, info, out);
  }
  if (!info.ready) {
    out.push_back(base::accusation("peer " + info.peer.brief() + " spoke before its hello"));
    out.push_back(Close{event.link});
    return;
  }
  const base::PeerId peer = info.peer;
  const auto neighbour = neighbours_.find(peer);
  const bool is_neighbour = neighbour != neighbours_.end() && neighbour->second == event.link;
  std::visit(
      [&](auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, wire::LinkOpen> || std::is_same_v<T, wire::Keyframe> ||
                      std::is_same_v<T, wire::Delta>) {
          to_membership(membership::Heard{event.link}, now, out);
          // What is still on its way when a neighbour relation ends is of no use any more.
          if (!is_neighbour) return;
          if constexpr (std::is_same_v<T, wire::Delta>) {
            membership_.progress().observe(peer.prefix(), message.samples, now);
          }
          to_exchange(exchange::Received{peer, std::move(message), event.took}, now, out);
        } else if constexpr (std::is_same_v<T, wire::Reduce> ||
                             std::is_same_v<T, wire::ReduceReceived>) {
          to_membership(membership::Heard{event.link}, now, out);
          if (!ring_) return misbehaved(event.link, peer, kUnasked, now, out);
          // What comes on a link that was replaced is sent again on the new one.
          if (!is_neighbour) return;
          if constexpr (std::is_same_v<T, wire::Reduce>) {
            membership_.progress().observe(peer.prefix(), message.samples, now);
          }
          to_ring(RingSeat::Received{peer, std::move(message)}, now, out);
        } else {
          to_membership(membership::Received{event.link, std::move(message)}, now, out);
        }
      },
      event.message);
}

void Core::on(const Arriving& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end() || !found->second.ready) return;
  to_membership(membership::Heard{.link = event.link, .part = true}, now, out);
  if (event.type != static_cast<std::uint8_t>(wire::FrameType::keyframe)) return;
  const auto neighbour = neighbours_.find(found->second.peer);
  if (neighbour == neighbours_.end() || neighbour->second != event.link) return;
  to_exchange(exchange::KeyframeArriving{neighbour->first, event.bytes}, now, out);
}

void Core::on(Unreadable& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  misbehaved(event.link, found->second.peer, event.text, now, out);
}

void Core::on(Outcome& event, base::Time now, Outbox& out) {
  std::visit([&](auto& outcome) { on_outcome(outcome, now, out); }, event);
}

void Core::on_outcome(Notice& said, base::Time, Outbox& out) { out.push_back(std::move(said)); }

void Core::on_outcome(Failed& failed, base::Time now, Outbox& out) {
  end({EndReason::failed, std::move(failed.error)}, now, out);
}

void Core::on_outcome(exchange::Outcome& outcome, base::Time now, Outbox& out) {
  to_exchange(exchange::event_of(std::move(outcome)), now, out);
}

void Core::on(Checkpoint&, base::Time, Outbox& out) { save_if_idle(out); }

void Core::on_hello(base::LinkId link, LinkInfo& info, wire::Hello& hello, base::Time now,
                    Outbox& out) {
  if (SIM_RARE(hello_ignored)) return out.push_back(Close{link});
  if (info.ready || hello.self.id != info.peer) {
    out.push_back(base::accusation("peer " + info.peer.brief() + " sent a wrong hello"));
    out.push_back(Close{link});
    return;
  }
  if (hello.run != config_.run || hello.parameters_hash != config_.parameters_hash) {
    // Both ends see it. The one that joins leaves the refusal to the other, whose word says what
    // differs and ends this peer: closing here would drop that word on its way.
    if (info.dialed && !had_neighbour_) return;
    out.push_back(Notice{Severity::warning, "peer " + hello.self.name + " (" + info.peer.brief() +
                                                ") has another run file and was refused"});
    return refuse(
        link, {wire::RefuseReason::other_run, "this swarm trains another run", config_.canonical},
        out);
  }
  if (ring_ && !ring_->admits(info.peer)) {
    return refuse(link,
                  {wire::RefuseReason::fixed_set,
                   fmt::format("this swarm runs with exchange.mode = \"{}\": its peers are fixed",
                               base::name_of(config_.exchange.mode, kModeNames)),
                   {}},
                  out);
  }
  info.ready = true;
  out.push_back(Accept{link});
  to_membership(membership::LinkReady{link, std::move(hello.self), info.dialed, info.address}, now,
                out);
}

// A link serves for one answer, so nobody gets more out of this peer than they dial for.
void Core::on_run_file_request(base::LinkId link, const LinkInfo& info, Outbox& out) {
  if (info.ready || info.dialed) {
    out.push_back(
        base::accusation("peer " + info.peer.brief() + " asked for a run file that it has"));
    out.push_back(Close{link});
    return;
  }
  if (config_.shared_run_file.empty()) {
    return refuse(link,
                  {wire::RefuseReason::none,
                   "this peer hands out no run file (another program trains, or the file is too "
                   "long): start with the file itself",
                   {}},
                  out);
  }
  out.push_back(Send{link, wire::RunFileReply{config_.shared_run_file}});
  out.push_back(Close{link});
}

void Core::refuse(base::LinkId link, wire::Refuse refusal, Outbox& out) {
  out.push_back(Send{link, std::move(refusal)});
  out.push_back(Close{link});
}

void Core::on_refuse(const LinkInfo& info, const wire::Refuse& refusal, base::Time now,
                     Outbox& out) {
  out.push_back(Notice{Severity::warning, "peer " + info.address + " refused: " + refusal.text});
  // Whoever has met a peer of its run is in the right swarm. At an address that nobody gave, of a
  // former life, that a member has left or that was heard on the network, anybody may live.
  if (!info.dialed || had_neighbour_ || !known_.was_given(info.address)) return;
  if (phase_ != Phase::waiting) return;  // what it has trained by itself would be lost
  if (refusal.reason == wire::RefuseReason::other_run) {
    const auto is_ready = [](const auto& entry) { return entry.second.ready; };
    if (std::ranges::any_of(links_, is_ready)) return;
    out.push_back(Refused{refusal.canonical, info.address});
  }
  if (refusal.reason == wire::RefuseReason::other_run ||
      refusal.reason == wire::RefuseReason::fixed_set) {
    end({EndReason::failed,
         {base::ErrorCode::run_file,
          "the peer at " + info.address + " refused this peer: " + refusal.text}},
        now, out);
  }
}

void Core::misbehaved(base::LinkId link, const base::PeerId& peer, const std::string& text,
                      base::Time now, Outbox& out) {
  out.push_back(base::accusation("peer " + peer.brief() + " broke the protocol: " + text));
  end_link({link, membership::LossReason::banned, text}, {wire::ByeReason::misbehaved, text}, now,
           out);
}

// The peer goes on with the neighbours that it has, and takes no link with this one for a while.
void Core::no_room_for(base::LinkId link, const base::PeerId& peer, const std::string& text,
                       base::Time now, Outbox& out) {
  out.push_back(Notice{Severity::warning,
                       "no link with " + peer.brief() + " for a minute: " + text +
                           "; lower swarm.degree or exchange.density, or set exchange.mirror to "
                           "bf16"});
  end_link({link, membership::LossReason::no_room, text},
           {wire::ByeReason::none, "has no room for another link"}, now, out);
}

// Membership hears of it first: told by the link's end alone, it would dial again within a second.
void Core::end_link(const membership::LinkLost& lost, wire::Bye bye, base::Time now, Outbox& out) {
  if (!lost.link.valid()) return;  // it ended meanwhile
  to_membership(lost, now, out);
  if (phase_ == Phase::done) return;  // an all-reduce ends with its first loss
  out.push_back(Send{lost.link, std::move(bye)});
  out.push_back(Close{lost.link});
}

void Core::to_membership(const membership::Event& event, base::Time now, Outbox& out) {
  membership::Outbox actions;
  membership_.handle(event, now, actions);
  take_membership(actions, now, out);
}

void Core::to_exchange(exchange::Event event, base::Time now, Outbox& out) {
  exchange::Outbox actions;
  exchange_.handle(std::move(event), now, actions);
  take_exchange(actions, now, out);
}

void Core::to_ring(RingSeat::Event event, base::Time now, Outbox& out) {
  std::vector<RingSeat::Action> actions;
  ring_->handle(std::move(event), now, actions);
  take_ring(actions, now, out);
}

void Core::take_membership(membership::Outbox& actions, base::Time now, Outbox& out) {
  for (membership::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit([&](auto& value) { perform(value, now, out); }, action);
  }
  if (phase_ != Phase::done) remember_changes(now, out);
}

void Core::perform(membership::Dial& dial, base::Time, Outbox& out) {
  out.push_back(Dial{std::move(dial.address)});
}

void Core::perform(membership::Send& send, base::Time, Outbox& out) {
  out.push_back(Send{send.link, std::move(send.message)});
}

void Core::perform(const membership::Close& close, base::Time, Outbox& out) {
  out.push_back(Send{close.link, wire::Bye{close.reason, {}}});
  out.push_back(Close{close.link});
}

void Core::perform(const membership::MembersChanged&, base::Time now, Outbox& out) {
  members_changed_ = true;
  look_for_companions(now, out);
}

void Core::perform(Notice& said, base::Time, Outbox& out) { out.push_back(std::move(said)); }

void Core::take_exchange(exchange::Outbox& actions, base::Time now, Outbox& out) {
  if (exchange_.open_links() > 0) drift_ = exchange_.drift();
  std::vector<exchange::Misbehaved> banned;
  std::vector<exchange::Refused> refused;
  for (exchange::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit(
        [&](auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, exchange::Send>) {
            send_to(value.peer, std::move(value.message), out);
          } else if constexpr (std::is_same_v<T, exchange::Run>) {
            out.push_back(Run{std::move(value.job)});
          } else if constexpr (std::is_same_v<T, exchange::Misbehaved>) {
            banned.push_back(std::move(value));
          } else if constexpr (std::is_same_v<T, exchange::Refused>) {
            refused.push_back(std::move(value));
          } else if constexpr (std::is_same_v<T, exchange::Settled>) {
            if (value.timed_out) out.push_back(Notice{Severity::warning, "settling took too long"});
            begin_finishing(out);
          } else if constexpr (std::is_same_v<T, exchange::Failed>) {
            end({EndReason::failed, std::move(value.error)}, now, out);
          } else {
            out.push_back(std::move(value));
          }
        },
        action);
  }
  // What the exchange does about it comes behind what it has done already: jobs are run in order.
  for (const exchange::Misbehaved& who : banned) {
    if (phase_ == Phase::done) return;
    misbehaved(link_of(who.peer), who.peer, who.text, now, out);
  }
  for (const exchange::Refused& who : refused) {
    if (phase_ == Phase::done) return;
    no_room_for(link_of(who.peer), who.peer, who.text, now, out);
  }
  if (phase_ == Phase::waiting) start_if_ready(now, out);
  if (phase_ == Phase::training && steps_outstanding_ == 0 && !SIM_BUG(steps_end))
    next_steps(now, out);
}

void Core::take_ring(std::vector<RingSeat::Action>& actions, base::Time now, Outbox& out) {
  for (RingSeat::Action& action : actions) {
    if (phase_ == Phase::done) return;  // Finished is the last action
    std::visit([&](auto& value) { perform(value, now, out); }, action);
  }
  if (phase_ == Phase::waiting) start_if_ready(now, out);
}

/// What was heard of the swarm's progress since the last own step decides how the first link opens.
void Core::tell_progress(base::Time now, Outbox& out) {
  update_progress(now);
  to_exchange(exchange::Progressed{step_, samples_, progress_}, now, out);
}

void Core::perform(const membership::NeighbourUp& up, base::Time now, Outbox& out) {
  const base::PeerId peer = up.peer;
  had_neighbour_ = true;
  neighbours_[peer] = up.link;
  if (ring_) to_ring(RingSeat::LinkUp{peer}, now, out);
  if (exchange::uses_links(config_.exchange.mode)) {
    if (exchange_.open_links() == 0) tell_progress(now, out);
    to_exchange(exchange::NeighbourUp{peer}, now, out);
  }
  if (phase_ == Phase::waiting) start_if_ready(now, out);
}

void Core::perform(const membership::NeighbourDown& down, base::Time now, Outbox& out) {
  const auto& [peer, link, reason] = down;
  neighbours_.erase(peer);
  if (exchange::uses_links(config_.exchange.mode)) {
    to_exchange(exchange::NeighbourDown{peer, membership::is_for_good(reason)}, now, out);
  }
  if (ring_) to_ring(RingSeat::LinkDown{peer, reason}, now, out);
}

base::LinkId Core::link_of(const base::PeerId& peer) const {
  const auto found = neighbours_.find(peer);
  return found != neighbours_.end() ? found->second : base::LinkId{};
}

void Core::send_to(const base::PeerId& peer, wire::Message message, Outbox& out) {
  const base::LinkId link = link_of(peer);
  if (link.valid()) out.push_back(Send{link, std::move(message)});
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

}  // namespace starling::peer
