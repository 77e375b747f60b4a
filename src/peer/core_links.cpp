// A peer's links: from a dial or a stranger's to a Hello that both ends accept, the messages on
// them, and who is sent away.
#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "base/simulated.hpp"
#include "peer/core.hpp"

namespace starling::peer {

using base::Notice;
using base::Severity;

void Core::on(LinkUp& event, base::Time now, Outbox& out) {
  if (event.peer == self_.id) {
    out.push_back(Close{event.link});
    // Either end of an own dial may be told first.
    const bool own_dial = membership_.is_dialing() || reach_.is_dialing() ||
                          (dialed_itself_ && now < *dialed_itself_ + kBothEndsTold);
    if (event.dialed) dialed_itself_ = now;
    if (!event.dialed && !own_dial && !std::exchange(reported_duplicate_key_, true)) {
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
      to_reach(reach::DialFailed{event.address, "that is this peer", true}, now, out);
    }
    return;
  }
  if (links_.size() >= kConnectionsMax) {
    out.push_back(Close{event.link});
    if (event.dialed && !event.via.valid()) {
      to_reach(reach::DialFailed{event.address, "too many links", false}, now, out);
    }
    return;
  }
  LinkInfo info{.peer = event.peer,
                .dialed = event.dialed,
                .address = std::move(event.address),
                .observed = std::move(event.observed),
                .via = event.via,
                .hello_until = now + kHelloTimeout};
  if (info.dialed && !info.via.valid()) {
    using enum reach::Answered::Purpose;
    reach::Outbox actions;
    const auto answered = reach_.answered(info.address, info.peer, now, actions);
    take_reach(actions, now, out);
    if (answered.purpose == close) return out.push_back(Close{event.link});
    info.wanted = answered.purpose == want;
    info.answers = answered.nonce;
  }
  if (knows_run_) say_hello(event.link, info, out);
  links_[event.link] = std::move(info);
}

void Core::say_hello(base::LinkId link, const LinkInfo& info, Outbox& out) const {
  const auto heartbeat = std::chrono::ceil<std::chrono::milliseconds>(config_.membership.heartbeat);
  out.push_back(
      Send{link, wire::Hello{.run = config_.run,
                             .parameters_hash = config_.parameters_hash,
                             .self = membership_.self(),
                             .answers = info.answers,
                             .observed = info.observed,
                             .heartbeat_ms = static_cast<std::uint32_t>(heartbeat.count())}});
}

void Core::on(LinkDown& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  const LinkInfo info = std::move(found->second);
  links_.erase(found);
  if (is_relay()) note_links_of_relay(now);
  if (info.ready) {
    // First, so that nobody is asked for anything over it.
    to_reach(reach::LinkLost{event.link}, now, out);
    if (phase_ == Phase::done) return;
    // What breaks over a circuit may be the relay.
    const bool broke = event.reason == membership::LossReason::reset;
    const auto reason = broke && info.via.valid() ? membership::LossReason::relay : event.reason;
    to_membership(membership::LinkLost{event.link, reason, event.text}, now, out);
  } else if (info.wanted) {
    to_reach(reach::DialFailed{info.address, event.text, false}, now, out);
  }
}

void Core::on(const CircuitEnded& event, base::Time now, Outbox& out) { to_reach(event, now, out); }

void Core::on(DialFailed& event, base::Time now, Outbox& out) {
  const reach::DialFailed failed{event.address, event.text, event.own, event.no_route};
  if (!reach_.is_wanted(event.address)) return to_reach(failed, now, out);
  // Where somebody wrote it down it should work; and it is tried for ever.
  const bool is_new = known_.note_failure(event.address);
  out.push_back(Notice{is_new && neighbours_.empty() ? Severity::warning : Severity::info,
                       "dialing " + event.address + " failed: " + event.text});
  // A swarm that comes up there later is no reason to end a peer that trains.
  if (event.turned_away && phase_ == Phase::waiting && !had_neighbour_ &&
      known_.note_turned_away(event.address)) {
    return end({EndReason::failed, {base::ErrorCode::secret, event.text}}, now, out);
  }
  to_reach(failed, now, out);
}

void Core::on(Found& event, base::Time now, Outbox& out) {
  to_membership(membership::Found{event.peer, std::move(event.address)}, now, out);
}

void Core::on(Moved& event, base::Time now, Outbox& out) {
  addresses_ = std::move(event.addresses);
  to_reach(reach::Moved{addresses_}, now, out);
}

void Core::on(Received& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  LinkInfo& info = found->second;
  if (auto* hello = std::get_if<wire::Hello>(&event.message)) {
    return on_hello(event.link, info, *hello, now, out);
  }
  if (const auto* refusal = std::get_if<wire::Refuse>(&event.message)) {
    return on_refuse(event.link, info, *refusal, now, out);
  }
  if (std::holds_alternative<wire::RunFileRequest>(event.message)) {
    return on_run_file_request(event.link, info, out);
  }
  if (auto* reply = std::get_if<wire::RunFileReply>(&event.message); reply && is_relay()) {
    // The newest member's, so that one which lies does not do so for ever.
    if (info.ready) config_.shared_run_file = std::move(reply->text);
    return;
  }
  if (!info.ready) {
    out.push_back(base::accusation("peer " + info.peer.brief() + " spoke before its hello"));
    out.push_back(Close{event.link});
    return;
  }
  const base::PeerId peer = info.peer;
  const bool is_neighbour = link_of(peer) == event.link;
  std::visit(
      [&](auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, wire::LinkOpen> || std::is_same_v<T, wire::Keyframe> ||
                      std::is_same_v<T, wire::Delta>) {
          to_membership(membership::Heard{event.link}, now, out);
          // What is still on its way when a neighbour relation ends is of no use any more.
          if (!is_neighbour) return;
          if constexpr (!std::is_same_v<T, wire::LinkOpen>) {
            membership_.progress().observe(peer.prefix(), message.samples, now);
          }
          to_agreement(Agreement::Received{peer, std::move(message), event.took}, now, out);
        } else if constexpr (std::is_same_v<T, wire::Reduce> ||
                             std::is_same_v<T, wire::ReduceReceived>) {
          to_membership(membership::Heard{event.link}, now, out);
          if (!agreement_.goes_in_step()) {
            return misbehaved(event.link, peer, Agreement::kUnasked, now, out);
          }
          // What comes on a link that was replaced is sent again on the new one.
          if (!is_neighbour) return;
          if constexpr (std::is_same_v<T, wire::Reduce>) {
            membership_.progress().observe(peer.prefix(), message.samples, now);
          }
          to_agreement(Agreement::Received{peer, std::move(message)}, now, out);
        } else if constexpr (std::is_same_v<T, wire::DialBack> ||
                             std::is_same_v<T, wire::DialedBack> ||
                             std::is_same_v<T, wire::Introduce> ||
                             std::is_same_v<T, wire::Circuit>) {
          to_membership(membership::Heard{event.link}, now, out);
          to_reach(reach::Received{event.link, std::move(message)}, now, out);
        } else {
          to_membership(membership::Received{event.link, std::move(message)}, now, out);
          // It has forgotten the link: who says this and then holds on to it would keep its place.
          if (std::is_same_v<T, wire::Bye> && phase_ != Phase::done) {
            out.push_back(Close{event.link});
          }
        }
      },
      event.message);
}

void Core::on(const Arriving& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end() || !found->second.ready) return;
  to_membership(membership::Heard{.link = event.link, .part = true}, now, out);
  if (event.type != static_cast<std::uint8_t>(wire::FrameType::keyframe)) return;
  const base::PeerId peer = found->second.peer;
  if (link_of(peer) != event.link) return;
  to_agreement(exchange::KeyframeArriving{peer, event.bytes}, now, out);
}

void Core::on(Unreadable& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  misbehaved(event.link, found->second.peer, event.text, now, out);
}

void Core::on_hello(base::LinkId link, LinkInfo& info, wire::Hello& hello, base::Time now,
                    Outbox& out) {
  if (SIM_RARE(hello_ignored)) return out.push_back(Close{link});
  if (info.ready || hello.self.id != info.peer) {
    out.push_back(base::accusation("peer " + info.peer.brief() + " sent a wrong hello"));
    out.push_back(Close{link});
    return;
  }
  if (!knows_run_) find_run(hello, out);
  if (hello.run != config_.run || hello.parameters_hash != config_.parameters_hash) {
    // Both ends see it. The one that joins leaves the refusal to the other, whose word says what
    // differs and ends this peer: closing here would drop that word on its way.
    if (info.dialed && !had_neighbour_) return;
    out.push_back(Notice{Severity::warning, "peer " + hello.self.name + " (" + info.peer.brief() +
                                                ") has another run file and was refused"});
    return refuse(
        link,
        {wire::RefuseReason::other_run,
         is_relay() ? "this relay serves another run, until a minute after the last of its "
                      "peers has gone"
                    : "this swarm trains another run",
         config_.canonical},
        out);
  }
  if (hello.self.has_replica && !agreement_.admits(info.peer)) {
    return refuse(link,
                  {wire::RefuseReason::fixed_set,
                   fmt::format("this swarm runs with exchange.mode = \"{}\": its peers are fixed",
                               base::name_of(config_.exchange.mode, exchange::kModeNames)),
                   {}},
                  out);
  }
  make_ready(link, info, hello, now, out);
}

// To membership a link is that of the end that wanted it, whoever dialed: both Hellos say so.
void Core::make_ready(base::LinkId link, LinkInfo& info, wire::Hello& hello, base::Time now,
                      Outbox& out) {
  info.ready = true;
  out.push_back(Accept{link});
  if (is_relay()) {
    note_links_of_relay(now);
    out.push_back(Send{link, wire::RunFileRequest{}});
  }
  const bool both = info.answers != 0 && hello.answers != 0;
  bool asked = info.dialed;
  if (hello.answers != 0) asked = true;
  if (info.answers != 0) asked = both && self_.id < info.peer;
  std::string address;
  if (asked) address = info.wanted ? info.address : reach_.address_of(info.peer);
  const reach::LinkReady ready{
      .link = link,
      .peer = info.peer,
      .observed = info.observed.empty() && !info.via.valid() ? info.address : info.observed,
      .via = info.via,
      .asked = asked,
      .address = address};
  const bool relayed = info.via.valid();
  // `info` may be gone after this.
  to_membership(membership::LinkReady{.link = link,
                                      .other = std::move(hello.self),
                                      .dialed = asked,
                                      .address = std::move(address),
                                      .relayed = relayed},
                now, out);
  if (phase_ != Phase::done) to_reach(ready, now, out);
}

// A link serves for one answer, so nobody gets more out of this peer than they dial for.
void Core::on_run_file_request(base::LinkId link, LinkInfo& info, Outbox& out) {
  if (tell_run_file(link, info, out)) return;
  if (info.ready || info.dialed) {
    out.push_back(
        base::accusation("peer " + info.peer.brief() + " asked for a run file that it has"));
    out.push_back(Close{link});
    return;
  }
  if (config_.shared_run_file.empty()) {
    return refuse(link,
                  {wire::RefuseReason::none,
                   is_relay() ? "no peer has handed this relay the run file yet: try again, or "
                                "start with the file itself"
                              : "this peer hands out no run file (another program trains, or the "
                                "file is too long): start with the file itself",
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

// The other end closes the link, too; but whoever refuses again and again would fill the log.
void Core::on_refuse(base::LinkId link, const LinkInfo& info, const wire::Refuse& refusal,
                     base::Time now, Outbox& out) {
  out.push_back(Notice{Severity::warning, "peer " + info.address + " refused: " + refusal.text});
  out.push_back(Close{link});
  // Whoever has met a peer of its run is in the right swarm. At an address that nobody gave, of a
  // former life, that a member has left or that was heard on the network, anybody may live.
  if (!info.dialed || had_neighbour_ || !known_.was_given(info.address)) return;
  if (phase_ != Phase::waiting) return;  // what it has trained by itself would be lost
  if (refusal.reason == wire::RefuseReason::other_run) {
    const auto is_ready = [](const auto& entry) { return entry.second.ready; };
    if (std::ranges::any_of(links_, is_ready)) return;
    if (!refusal.canonical.empty()) out.push_back(Refused{refusal.canonical, info.address});
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

// A new link that has said no Hello in time.
void Core::close_silent_links(base::Time now, Outbox& out) {
  for (auto& [link, info] : links_) {
    if (info.ready || info.closing || info.hello_until > now) continue;
    info.closing = true;
    out.push_back(Close{link});
  }
}

}  // namespace starling::peer
