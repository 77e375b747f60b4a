#include "membership/overlay/overlay.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {
namespace {

using wire::NeighbourKind;

LossReason reason_of(wire::ByeReason reason) {
  switch (reason) {
    case wire::ByeReason::left:
      return LossReason::left;
    case wire::ByeReason::done:
      return LossReason::done;
    case wire::ByeReason::replaced:
      return LossReason::replaced;
    case wire::ByeReason::duplicate:
      return LossReason::duplicate;
    case wire::ByeReason::silent:
    case wire::ByeReason::misbehaved:  // that is its opinion, and no ground to ban it
    case wire::ByeReason::none:
      break;
  }
  return LossReason::closed;
}

}  // namespace

Overlay::Overlay(const Config& config, const MemberTable& table, const ProgressTable& progress,
                 const Watch& watch, base::Rng& rng)
    : table_(table),
      rng_(rng),
      links_(table.self()),
      candidates_(config, table, progress, standings_),
      places_(config.degree, table, watch, links_, candidates_),
      seeker_(config, table, links_, candidates_, standings_, places_, rng) {}

void Overlay::handle(const OverlayEvent& event, base::Time now, OverlayOutbox& out) {
  std::visit([&](const auto& value) { on(value, now, out); }, event);
}

void Overlay::seek(base::Time now, OverlayOutbox& out) {
  if (left_) return;
  while (const auto surplus = places_.surplus(rng_)) give_away(*surplus, now, out);
  seeker_.seek(now, out);
}

void Overlay::expire(base::Time now, OverlayOutbox& out) {
  standings_.drop_over(now);
  bans_.drop_forgiven(now);
  if (left_) return;
  for (auto at = links_.begin(); at != links_.end();) {
    const auto& [id, link] = *at++;
    if (link.role == Role::neighbour || now < link.role_ends) continue;
    if (link.held) {
      links_.make_contact(id, now + kContactLifeMax, out);
      continue;
    }
    seeker_.dialer().postpone(link.peer, kRejectedPause, now);
    links_.close(id, wire::ByeReason::none, LossReason::closed, out);
  }
  seeker_.end_overdue(now, out);
}

base::Time Overlay::next_deadline(base::Time now, base::Time latest) const {
  for (const auto& [id, link] : links_) {
    if (link.role != Role::neighbour) latest = std::min(latest, link.role_ends);
  }
  return seeker_.next_due(now, latest);
}

void Overlay::on(const LinkReady& event, base::Time now, OverlayOutbox& out) {
  ASSERT(event.link.valid() && links_.find(event.link) == nullptr, "a link becomes ready once");
  const base::PeerId peer = event.other.id;
  const wire::MemberRecord* known = table_.find(peer);
  const bool was_there = known != nullptr && candidates_.is_there(*known);
  if (peer == table_.self_id()) {
    if (event.dialed) {
      static_cast<void>(seeker_.dialer().failed(event.address, true, false, now));
    }
    out.push_back(Close{event.link, wire::ByeReason::duplicate});
    return;
  }
  if (event.dialed) seeker_.answered(event, now, out);
  if (refuses(event, now, out)) return;
  const Link link{.peer = peer,
                  .dialed = event.dialed,
                  .address = event.address,
                  .ready = now,
                  .role_ends = now + (SIM_RARE(short_contact) ? kContactLife / 40
                                      : event.dialed          ? kContactLife
                                                              : kContactLifeMax),
                  .relayed = event.relayed,
                  .to_relay = !event.other.has_replica,
                  .fits = candidates_.fits(event.other),
                  .was_there = was_there,
                  .replaces = !event.relayed && links_.is_relayed_neighbour(peer)};
  if (links_.resolve_duplicates(event.link, link, now, out)) {
    out.push_back(Close{event.link, wire::ByeReason::duplicate});
    return;
  }
  links_.add(event.link, link, event.other, out);
}

// Closes a link that this peer does not take; false: it takes it.
bool Overlay::refuses(const LinkReady& event, base::Time now, OverlayOutbox& out) {
  const base::PeerId peer = event.other.id;
  if (const auto left = standings_.left(Standing::banned, peer, now)) {
    // Also where it lives at a configured address, which nothing else keeps from being dialed.
    seeker_.dialer().block_for(peer, std::min(*left, kBanTime), now);
    out.push_back(Close{event.link, wire::ByeReason::misbehaved});
    return true;
  }
  // A crowd of joiners that all know this peer: those it has no time for start with others.
  const bool turned_away = !event.dialed && table_.find(peer) == nullptr && !strangers_.take(now);
  if (!left_ && !turned_away && links_.size() < places_.ready_links_max()) return false;
  if (!left_) refer(event.link, peer, out);
  out.push_back(Close{event.link, left_ ? wire::ByeReason::left : wire::ByeReason::none});
  return true;
}

// A dead member that answers is the way to the other half of a swarm that was cut, and one that
// nobody here knew may be: that link is worth one neighbour more on either side.
// So may one that is held alive while its counter alone stands still: an overlay can fall in two
// parts in which nobody misses a neighbour.
void Overlay::on(const Admitted& event, base::Time now, OverlayOutbox& out) {
  const Link* link = links_.find(event.link);
  if (link == nullptr || !link->dialed || !link->fits) return;
  if (standings_.has(Standing::no_room, link->peer)) return;
  if (link->to_relay) {
    if (link->replaces || places_.wants_relays()) links_.request(event.link, false, now, out);
    return;
  }
  const bool returned = !link->was_there;
  if (link->replaces || places_.wanted(now) > 0 || returned ||
      candidates_.seems_apart(link->peer, now)) {
    links_.request(event.link, returned && links_.count(Role::neighbour) > 0, now, out);
  }
}

void Overlay::on(const LinkLost& event, base::Time now, OverlayOutbox& out) {
  const Link* found = links_.find(event.link);
  if (found == nullptr) return;
  const base::PeerId peer = found->peer;
  const bool neighbour = found->role == Role::neighbour;
  Dialer& dialer = seeker_.dialer();
  links_.lose(event.link, event.reason, out);
  if (event.reason == LossReason::banned) ban(peer, now);
  if (event.reason == LossReason::no_room) {
    standings_.add(Standing::no_room, peer, now + kNoRoomTime);
    dialer.block_for(peer, kNoRoomTime, now);
  }
  const bool broke = event.reason == LossReason::reset || event.reason == LossReason::relay;
  if (neighbour && broke && !SIM_RARE(reset_unnoticed)) {
    standings_.add(Standing::wanted_back, peer, now + kReconnectFirst);
    if (!SIM_RARE(wait_before_redial)) dialer.history().hurry(peer, now);
    // Both ends want it back: one of them waits a little, so that they do not meet half-way.
    if (table_.self_id() > peer) dialer.postpone(peer, 3 * kBackoffMin, now);
    // Where the relay went, the other end may be as well as before.
    if (event.reason == LossReason::reset) {
      out.push_back(Accuse{peer, wire::DeathReason::reset});
    }
  } else {
    dialer.postpone(peer, kRejectedPause, now);
  }
}

void Overlay::on(const DialFailed& event, base::Time now, OverlayOutbox& out) {
  seeker_.failed(event, now, out);
}

void Overlay::on(const Found& event, base::Time now, OverlayOutbox& out) {
  if (!left_) seeker_.found(event, now, out);
}

void Overlay::on(const Received& event, base::Time now, OverlayOutbox& out) {
  const Link* link = links_.find(event.link);
  if (link == nullptr) return;
  if (const auto* neighbour = std::get_if<wire::Neighbour>(&event.message)) {
    on_neighbour(event.link, neighbour->kind, now, out);
  } else if (const auto* bye = std::get_if<wire::Bye>(&event.message)) {
    const base::PeerId peer = link->peer;
    on(LinkLost{event.link, reason_of(bye->reason), bye->text}, now, out);
    // It takes no link for so long, whatever it has against this peer.
    if (bye->reason == wire::ByeReason::misbehaved) {
      seeker_.dialer().block_for(peer, kBanTime, now);
    }
  }
}

void Overlay::on(const Hold& event, base::Time, OverlayOutbox&) {
  if (links_.find(event.link) != nullptr) links_.hold(event.link, event.on);
}

void Overlay::on(const Stay&, base::Time, OverlayOutbox&) { seeker_.rest(); }

void Overlay::on(const Leave& event, base::Time, OverlayOutbox& out) {
  left_ = true;
  const wire::ByeReason bye = event.done ? wire::ByeReason::done : wire::ByeReason::left;
  while (links_.size() > 0) links_.close(links_.begin()->first, bye, LossReason::left, out);
}

void Overlay::on(const EndLink& event, base::Time now, OverlayOutbox& out) {
  const Link* link = links_.find(event.link);
  if (link == nullptr) return;
  wire::ByeReason bye = wire::ByeReason::none;
  if (event.reason == LossReason::banned) {
    bye = wire::ByeReason::misbehaved;
    ban(link->peer, now);
  } else if (event.reason == LossReason::silent) {
    bye = wire::ByeReason::silent;
    standings_.add(Standing::wanted_back, link->peer, now + kReconnectFirst);
  }
  links_.close(event.link, bye, event.reason, out);
}

void Overlay::on(const MemberBack& event, base::Time now, OverlayOutbox&) {
  seeker_.dialer().history().hurry(event.peer, now);
}

void Overlay::on(const MemberGone& event, base::Time now, OverlayOutbox&) {
  if (event.left) seeker_.dialer().forget_found(event.peer, now);
  standings_.erase(Standing::wanted_back, event.peer);
  seeker_.dialer().postpone(event.peer, kRevivalMin, now);
}

void Overlay::on(const StoodStill& event, base::Time, OverlayOutbox&) {
  links_.extend(event.pause);
  seeker_.dialer().extend(event.pause);
}

void Overlay::on_neighbour(base::LinkId id, NeighbourKind kind, base::Time now,
                           OverlayOutbox& out) {
  const Link& link = links_.at(id);
  switch (kind) {
    case NeighbourKind::request:
      on_request(id, false, now, out);
      break;
    case NeighbourKind::urgent_request:
      on_request(id, true, now, out);
      break;
    case NeighbourKind::accept:
      if (link.role == Role::requested) make_neighbour(id, out);
      break;
    case NeighbourKind::reject:
      if (link.role == Role::requested) on_reject(id, now, out);
      break;
    case NeighbourKind::leave:
      if (link.role == Role::neighbour) {
        links_.end_neighbour(id, LossReason::closed, now + kContactLife, out);
        seeker_.dialer().postpone(link.peer, kRejectedPause, now);
      }
      break;
    case NeighbourKind::none:
      break;
  }
}

void Overlay::on_request(base::LinkId id, bool urgent, base::Time now, OverlayOutbox& out) {
  const Link& link = links_.at(id);
  bool moved = link.role == Role::neighbour;
  for (auto other = links_.begin(); other != links_.end();) {
    const auto& [other_id, relation] = *other++;
    if (other_id == id || relation.peer != link.peer) continue;
    // The other end is about to close the one it asked on.
    if (links_.stays(relation, now)) return;
    moved = moved || relation.role == Role::neighbour;
    links_.close(other_id, wire::ByeReason::duplicate, LossReason::duplicate, out);
  }
  const bool room = SIM_RARE(accept_without_room) ||
                    (places_.has_room_for(link, now) && !SIM_RARE(reject_with_room));
  // Where each end hears nothing of the other's counter, the overlay is in two parts. If that of
  // one alone stands still, as its trainer may, there is no need for a link.
  const bool served = link.to_relay || candidates_.is_relay();
  const bool wanted =
      moved || room || (!served && (urgent || candidates_.seems_apart(link.peer, now)));
  const wire::MemberRecord* record = table_.find(link.peer);
  const bool fits = (record == nullptr || candidates_.fits(*record)) &&
                    !standings_.has(Standing::no_room, link.peer);
  if (!wanted || !fits) {
    // Once a link: a few bytes that ask again and again are not worth kilobytes each.
    if (links_.take_referral(id)) refer(id, link.peer, out);
    out.push_back(Send{id, wire::Neighbour{NeighbourKind::reject}});
    return;
  }
  out.push_back(Send{id, wire::Neighbour{NeighbourKind::accept}});
  if (link.role != Role::neighbour) make_neighbour(id, out);
}

void Overlay::on_reject(base::LinkId id, base::Time now, OverlayOutbox& out) {
  const Link& link = links_.at(id);
  SeekPace& pace = seeker_.pace();
  links_.make_contact(id, now + kContactLife, out);  // it no longer counts as on its way
  seeker_.dialer().postpone(link.peer, link.to_relay ? kRevivalMin : kRejectedPause, now);
  standings_.add(Standing::had_no_place, link.peer, now + kNoPlaceMemory);
  if (!link.to_relay) pace.rejected(rng_, now);
  const bool others = seeker_.has_others(now);
  const bool lonely = links_.count(Role::neighbour) == 0;
  const bool dials_only = candidates_.self().reach == wire::Reachability::dials_only;
  // A peer with slack left takes one more at no cost. One without gives another away, which asks
  // the next in turn: that would go round and round. Moving counters show that nothing is amiss.
  const bool full = !lonely && candidates_.is_full(link.peer);
  const bool in_vain = full && candidates_.counters_move(now);
  // Nobody introduces a peer without links to those that it cannot dial, nor refutes for it.
  const bool helpless = lonely && dials_only;
  const bool tried =
      pace.has_tried(full) || (!others && !full) || helpless || SIM_RARE(urgent_at_once);
  if (tried && !in_vain && !link.to_relay && places_.wanted(now) > 0 &&
      pace.take_urgent(lonely, now)) {
    links_.request(id, true, now, out);
    return;
  }
  // Over this link, while it is a contact, a peer that nobody can dial is introduced to others.
  if (dials_only) return;
  links_.close(id, wire::ByeReason::none, LossReason::closed, out);
}

void Overlay::make_neighbour(base::LinkId id, OverlayOutbox& out) {
  const Link& link = links_.at(id);
  if (!link.to_relay) seeker_.pace().accepted();
  standings_.erase(Standing::wanted_back, link.peer);
  links_.make_neighbour(id, out);
}

void Overlay::give_away(base::LinkId id, base::Time now, OverlayOutbox& out) {
  const Link& link = links_.at(id);
  seeker_.dialer().postpone(link.peer, kRejectedPause, now);
  out.push_back(Send{id, wire::Neighbour{NeighbourKind::leave}});
  // The circuits over it must not fall with it: who is linked by them would be the next to ask.
  if (link.held) {
    links_.end_neighbour(id, LossReason::replaced, now + kContactLife, out);
  } else {
    links_.close(id, wire::ByeReason::replaced, LossReason::replaced, out);
  }
}

// To a peer that finds no place here: some members that may have one. Joiners that all know the
// same peer are spread over the swarm by this, and by the rumour of their own records.
void Overlay::refer(base::LinkId id, const base::PeerId& to, OverlayOutbox& out) {
  if (SIM_RARE(no_referral)) return;
  std::vector<const wire::MemberRecord*> members;
  for (const auto& [peer, member] : table_.members()) {
    const bool alive = counts_as_alive(member.record.state);
    if (alive && peer != to && peer != table_.self_id()) {
      members.push_back(&member.record);
    }
  }
  std::vector<wire::MemberRecord> named;
  for (std::size_t i = 0; i < kReferrals && !members.empty(); ++i) {
    std::swap(members[rng_.below(members.size())], members.back());
    named.push_back(*members.back());
    members.pop_back();
  }
  for (wire::Gossip& gossip : to_gossip(std::move(named))) {
    out.push_back(Send{id, std::move(gossip)});
  }
}

void Overlay::ban(const base::PeerId& peer, base::Time now) {
  standings_.add(Standing::banned, peer, now + bans_.begin(peer, now));
  seeker_.dialer().block_for(peer, kBanTime, now);  // then `refuses` does it again
}

void Overlay::add_bounds(base::Bounds& out) const {
  out.add("peers with a standing", standings_.size(), kMembersMax);
  out.add("peers that were banned", bans_.size(), kMembersMax);
  out.add("ready links", links_.size(), places_.ready_links_max());
  out.add("neighbours", links_.count(Role::neighbour), places_.neighbours_max());
  out.add("relays", links_.relays(), kRelaysMax);
  seeker_.dialer().add_bounds(out);
}

void Overlay::add_timers(base::Time now, base::Bounds& out) const {
  for (const auto& [id, link] : links_) {
    if (link.role == Role::neighbour) continue;
    out.add_timer("the end of a link's role", link.role_ends, now, kContactLifeMax);
  }
  standings_.add_timers(now, out);
  seeker_.add_timers(now, out);
}

}  // namespace starling::membership
