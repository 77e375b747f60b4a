#include "peer/links.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "base/simulated.hpp"

namespace starling::peer {

using base::LogEntry;
using base::Severity;

namespace {

void refuse(base::LinkId id, wire::Refuse refusal, Outbox& out) {
  out.push_back(Send{id, std::move(refusal)});
  out.push_back(Close{id});
}

void accuse(base::LinkId id, const base::PeerId& peer, const std::string& what, Outbox& out) {
  out.push_back(base::accusation("peer " + peer.brief() + what));
  out.push_back(Close{id});
}

}  // namespace

Links::Links(const Parts& parts)
    : parts_(parts), run_(parts.config, !parts.membership.self().has_replica) {}

// --- links that come and go ---

void Links::on(LinkUp& event, base::Time now, Outbox& out) {
  if (event.peer == parts_.membership.self().id) return meet_itself(event, now, out);
  if (links_.size() >= kConnectionsMax) {
    out.push_back(Close{event.link});
    if (event.dialed && !event.via.valid()) {
      parts_.whole.to_reach(reach::DialFailed{event.address, "too many links", false}, now, out);
    }
    return;
  }
  Link link{.peer = event.peer,
            .dialed = event.dialed,
            .address = std::move(event.address),
            .observed = std::move(event.observed),
            .via = event.via,
            .hello_until = now + kHelloTimeout};
  if (link.dialed && !link.via.valid()) {
    using enum reach::Answered::Purpose;
    const auto answered = parts_.whole.answered(link.address, link.peer, now, out);
    if (answered.purpose == close) return out.push_back(Close{event.link});
    link.wanted = answered.purpose == want;
    link.answers = answered.nonce;
  }
  if (run_.is_known()) say_hello(event.link, link, out);
  links_[event.link] = std::move(link);
}

void Links::meet_itself(const LinkUp& event, base::Time now, Outbox& out) {
  out.push_back(Close{event.link});
  // Either end of an own dial may be told first.
  const bool own_dial = parts_.membership.is_dialing() || parts_.reach.is_dialing() ||
                        (dialed_itself_ && now < *dialed_itself_ + kBothEndsTold);
  if (event.dialed) dialed_itself_ = now;
  if (!event.dialed && !own_dial && !std::exchange(reported_duplicate_key_, true)) {
    out.push_back(
        LogEntry{Severity::warning,
                 "another process has this peer's key (key.pem in its folder) and dials it "
                 "from " +
                     event.address + ": stop one of the two, or start one in a folder of its own"});
  }
  if (!event.dialed) return;
  if (parts_.known.was_given(event.address)) {
    out.push_back(LogEntry{Severity::warning,
                           event.address + " leads to this peer itself, or to another process "
                                           "that has its key (key.pem in its folder)"});
  }
  parts_.whole.to_reach(reach::DialFailed{event.address, "that is this peer", true}, now, out);
}

void Links::on(LinkDown& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  const Link link = std::move(found->second);
  links_.erase(found);
  if (run_.relays()) run_.note_links(is_any_ready(), now);
  if (link.ready) {
    // First, so that nobody is asked for anything over it.
    parts_.whole.to_reach(reach::LinkLost{event.link}, now, out);
    if (parts_.whole.phase() == Phase::done) return;
    // A circuit breaks if its relay does.
    const bool broke = event.reason == membership::LossReason::reset;
    const auto reason = broke && link.via.valid() ? membership::LossReason::relay : event.reason;
    parts_.whole.to_membership(membership::LinkLost{event.link, reason, event.text}, now, out);
  } else if (link.wanted) {
    parts_.whole.to_reach(reach::DialFailed{link.address, event.text, false}, now, out);
  }
}

void Links::on(DialFailed& event, base::Time now, Outbox& out) {
  const reach::DialFailed failed{event.address, event.text, event.own, event.no_route};
  if (!parts_.reach.is_wanted(event.address)) return parts_.whole.to_reach(failed, now, out);
  // Where somebody wrote it down it should work; and it is tried for ever.
  const bool is_new = parts_.known.note_failure(event.address);
  out.push_back(
      LogEntry{is_new && parts_.neighbours.count() == 0 ? Severity::warning : Severity::info,
               "dialing " + event.address + " failed: " + event.text});
  // A swarm that comes up there later is no reason to end a peer that trains.
  if (event.turned_away && parts_.whole.phase() == Phase::waiting && !parts_.neighbours.met_one() &&
      parts_.known.note_turned_away(event.address)) {
    return parts_.whole.end({EndReason::failed, {base::ErrorCode::secret, event.text}}, now, out);
  }
  parts_.whole.to_reach(failed, now, out);
}

void Links::close_silent(base::Time now, Outbox& out) {
  for (auto& [id, link] : links_) {
    if (link.ready || link.closing || link.hello_until > now) continue;
    link.closing = true;
    out.push_back(Close{id});
  }
}

const Links::Link* Links::find(base::LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() ? &found->second : nullptr;
}

bool Links::is_any_ready() const {
  return std::ranges::any_of(links_, [](const auto& entry) { return entry.second.ready; });
}

// --- messages ---

void Links::on(Received& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (auto* hello = std::get_if<wire::Hello>(&event.message)) {
    return on_hello(event.link, link, *hello, now, out);
  }
  if (const auto* refusal = std::get_if<wire::Refuse>(&event.message)) {
    return on_refuse(event.link, link, *refusal, now, out);
  }
  if (std::holds_alternative<wire::RunFileRequest>(event.message)) {
    return on_run_file_request(event.link, link, out);
  }
  if (auto* reply = std::get_if<wire::RunFileReply>(&event.message); reply && run_.relays()) {
    // The newest member's, so that one which lies does not do so for ever.
    if (link.ready) run_.set_run_file(std::move(reply->text));
    return;
  }
  if (!link.ready) return accuse(event.link, link.peer, " spoke before its hello", out);
  pass_on(event.link, base::PeerId(link.peer), event, now, out);
}

void Links::pass_on(base::LinkId id, const base::PeerId& peer, Received& event, base::Time now,
                    Outbox& out) {
  Whole& whole = parts_.whole;
  const bool is_neighbour = parts_.neighbours.link_of(peer) == id;
  std::visit(
      [&](auto& message) {
        using T = std::decay_t<decltype(message)>;
        constexpr bool is_gradient =
            std::is_same_v<T, wire::Reduce> || std::is_same_v<T, wire::ReduceReceived>;
        if constexpr (is_gradient || std::is_same_v<T, wire::LinkOpen> ||
                      std::is_same_v<T, wire::Keyframe> || std::is_same_v<T, wire::Delta> ||
                      std::is_same_v<T, wire::Settle>) {
          whole.to_membership(membership::Heard{id}, now, out);
          if (is_gradient && !parts_.agreement.goes_in_step()) {
            return misbehaved(id, peer, Agreement::kUnasked, now, out);
          }
          // Messages that were under way when a neighbour relation ended are of no use any more,
          // and those on a link that was replaced are sent again on the new one, if needed.
          if (!is_neighbour) return;
          if constexpr (std::is_same_v<T, wire::Keyframe> || std::is_same_v<T, wire::Delta> ||
                        std::is_same_v<T, wire::Reduce>) {
            parts_.membership.progress().observe(peer.prefix(), message.samples, now);
          }
          whole.to_agreement(Agreement::Received{peer, std::move(message), event.took}, now, out);
        } else if constexpr (std::is_same_v<T, wire::DialBack> ||
                             std::is_same_v<T, wire::DialedBack> ||
                             std::is_same_v<T, wire::Introduce> ||
                             std::is_same_v<T, wire::Circuit>) {
          whole.to_membership(membership::Heard{id}, now, out);
          whole.to_reach(reach::Received{id, std::move(message)}, now, out);
        } else {
          whole.to_membership(membership::Received{id, std::move(message)}, now, out);
          // It has forgotten the link: who says this and then holds on to it would keep its place.
          if (std::is_same_v<T, wire::Bye> && whole.phase() != Phase::done) {
            out.push_back(Close{id});
          }
        }
      },
      event.message);
}

void Links::on(const Arriving& event, base::Time now, Outbox& out) {
  const Link* link = find(event.link);
  if (link == nullptr || !link->ready) return;
  const base::PeerId peer = link->peer;
  parts_.whole.to_membership(membership::Heard{.link = event.link, .part = true}, now, out);
  if (event.type != static_cast<std::uint8_t>(wire::FrameType::keyframe)) return;
  if (parts_.neighbours.link_of(peer) != event.link) return;
  parts_.whole.to_agreement(exchange::KeyframeArriving{peer, event.bytes}, now, out);
}

void Links::on(Unreadable& event, base::Time now, Outbox& out) {
  const Link* link = find(event.link);
  if (link == nullptr) return;
  misbehaved(event.link, base::PeerId(link->peer), event.text, now, out);
}

// --- greetings ---

void Links::say_hello(base::LinkId id, const Link& link, Outbox& out) const {
  wire::Hello hello = run_.hello(parts_.membership.self());
  hello.answers = link.answers;
  hello.observed = link.observed;
  out.push_back(Send{id, std::move(hello)});
}

void Links::on_hello(base::LinkId id, Link& link, wire::Hello& hello, base::Time now, Outbox& out) {
  if (SIM_RARE(hello_ignored)) return out.push_back(Close{id});
  if (link.ready || hello.self.id != link.peer) {
    return accuse(id, link.peer, " sent a wrong hello", out);
  }
  if (!run_.is_known()) find_run(hello, out);
  if (!run_.is_of(hello)) {
    // Both ends see it. The one that joins leaves the refusal to the other, whose word says what
    // differs and ends this peer: closing here would drop that word on its way.
    if (link.dialed && !parts_.neighbours.met_one()) return;
    out.push_back(LogEntry{Severity::warning, "peer " + hello.self.name + " (" + link.peer.brief() +
                                                  ") has another run file and was refused"});
    return refuse(
        id,
        {wire::RefuseReason::other_run,
         run_.relays() ? "this relay serves another run, until a minute after the last of its "
                         "peers has gone"
                       : "this swarm trains another run",
         parts_.config.canonical},
        out);
  }
  if (hello.self.has_replica && !parts_.agreement.admits(link.peer)) {
    return refuse(id,
                  {wire::RefuseReason::fixed_set,
                   fmt::format("this swarm runs with exchange.mode = \"{}\": its peers are fixed",
                               base::name_of(parts_.config.exchange.mode, exchange::kModeNames)),
                   {}},
                  out);
  }
  make_ready(id, link, hello, now, out);
}

// The first peer that comes says which run it is, unless a person did; heartbeats come as they do
// there.
void Links::find_run(const wire::Hello& hello, Outbox& out) {
  if (!run_.find(hello)) return;
  parts_.membership.set_heartbeat(run_.heartbeat());
  out.push_back(
      LogEntry{Severity::info, fmt::format("relays for run {}", run_.id().hex().substr(0, 8))});
  for (const auto& [id, link] : links_) {
    if (!link.closing) say_hello(id, link, out);
  }
}

// To membership a link is that of the end that wanted it, whoever dialed: both Hellos say so.
void Links::make_ready(base::LinkId id, Link& link, wire::Hello& hello, base::Time now,
                       Outbox& out) {
  link.ready = true;
  out.push_back(Accept{id});
  if (run_.relays()) {
    run_.note_links(true, now);
    out.push_back(Send{id, wire::RunFileRequest{}});
  }
  const bool both = link.answers != 0 && hello.answers != 0;
  bool asked = link.dialed;
  if (hello.answers != 0) asked = true;
  if (link.answers != 0) asked = both && parts_.membership.self().id < link.peer;
  std::string address;
  if (asked) address = link.wanted ? link.address : parts_.reach.address_of(link.peer);
  const reach::LinkReady ready{
      .link = id,
      .peer = link.peer,
      .observed = link.observed.empty() && !link.via.valid() ? link.address : link.observed,
      .via = link.via,
      .asked = asked,
      .address = address};
  const bool relayed = link.via.valid();
  // `link` may be gone after this.
  parts_.whole.to_membership(membership::LinkReady{.link = id,
                                                   .other = std::move(hello.self),
                                                   .dialed = asked,
                                                   .address = std::move(address),
                                                   .relayed = relayed},
                             now, out);
  if (parts_.whole.phase() != Phase::done) parts_.whole.to_reach(ready, now, out);
}

// A link serves for one answer, so nobody gets more out of this peer than they dial for.
void Links::on_run_file_request(base::LinkId id, Link& link, Outbox& out) {
  if (tell_run_file(id, link, out)) return;
  if (link.ready || link.dialed) {
    return accuse(id, link.peer, " asked for a run file that it has", out);
  }
  if (run_.run_file().empty()) {
    return refuse(id,
                  {wire::RefuseReason::none,
                   run_.relays() ? "no peer has handed this relay the run file yet: try again, or "
                                   "start with the file itself"
                                 : "this peer hands out no run file (another program trains, or "
                                   "the file is too long): start with the file itself",
                   {}},
                  out);
  }
  out.push_back(Send{id, wire::RunFileReply{run_.run_file()}});
  out.push_back(Close{id});
}

// Where all others are behind routers, who is invited can ask nobody but the relay.
bool Links::tell_run_file(base::LinkId id, Link& link, Outbox& out) const {
  const wire::MemberRecord* record = parts_.membership.table().find(link.peer);
  if (!link.ready || record == nullptr || record->has_replica) return false;
  if (std::exchange(link.told_run_file, true)) return false;
  if (!run_.run_file().empty()) out.push_back(Send{id, wire::RunFileReply{run_.run_file()}});
  return true;
}

// --- refusals and ends ---

// The other end closes the link, too; but whoever refuses again and again would fill the log.
void Links::on_refuse(base::LinkId id, const Link& link, const wire::Refuse& refusal,
                      base::Time now, Outbox& out) {
  out.push_back(LogEntry{Severity::warning, "peer " + link.address + " refused: " + refusal.text});
  out.push_back(Close{id});
  // A peer that has met one of its run is in the right swarm. At an address that nobody gave, of a
  // former life, that a member has left or that was heard on the network, anybody may live.
  if (!link.dialed || parts_.neighbours.met_one() || !parts_.known.was_given(link.address)) return;
  // Otherwise, the steps that it has made by itself would be lost.
  if (parts_.whole.phase() != Phase::waiting) return;
  if (refusal.reason == wire::RefuseReason::other_run) {
    if (is_any_ready()) return;
    if (!refusal.canonical.empty()) out.push_back(Refused{refusal.canonical, link.address});
  }
  if (refusal.reason == wire::RefuseReason::other_run ||
      refusal.reason == wire::RefuseReason::fixed_set) {
    parts_.whole.end({EndReason::failed,
                      {base::ErrorCode::run_file,
                       "the peer at " + link.address + " refused this peer: " + refusal.text}},
                     now, out);
  }
}

void Links::on(const Agreement::Misbehaved& who, base::Time now, Outbox& out) {
  const base::LinkId link = parts_.neighbours.link_of(who.peer);
  if (!who.is_judged) return misbehaved(link, who.peer, who.text, now, out);
  out.push_back(
      LogEntry{Severity::warning, "peer " + who.peer.brief() + " is turned away: " + who.text});
  end_link({link, membership::LossReason::banned, who.text},
           {wire::ByeReason::misbehaved, who.text}, now, out);
}

void Links::misbehaved(base::LinkId id, const base::PeerId& peer, const std::string& text,
                       base::Time now, Outbox& out) {
  out.push_back(base::accusation("peer " + peer.brief() + " broke the protocol: " + text));
  end_link({id, membership::LossReason::banned, text}, {wire::ByeReason::misbehaved, text}, now,
           out);
}

// The peer goes on with the neighbours that it has, and takes no link with this one for a while.
void Links::on(const Agreement::NoRoom& who, base::Time now, Outbox& out) {
  out.push_back(LogEntry{Severity::warning,
                         "no link with " + who.peer.brief() + " for a minute: " + who.text +
                             "; lower swarm.degree or exchange.density, or set exchange.mirror to "
                             "bf16"});
  end_link({parts_.neighbours.link_of(who.peer), membership::LossReason::no_room, who.text},
           {wire::ByeReason::none, "has no room for another link"}, now, out);
}

// Membership hears of it first: told by the link's end alone, it would dial again within a second.
void Links::end_link(const membership::LinkLost& lost, wire::Bye bye, base::Time now, Outbox& out) {
  if (!lost.link.valid()) return;  // it ended meanwhile
  parts_.whole.to_membership(lost, now, out);
  // An all-reduce ends with its first loss.
  if (parts_.whole.phase() == Phase::done) return;
  out.push_back(Send{lost.link, std::move(bye)});
  out.push_back(Close{lost.link});
}

}  // namespace starling::peer
