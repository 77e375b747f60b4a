#include "membership/overlay/links.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

void Links::add(base::LinkId id, Link link, wire::MemberRecord other, OverlayOutbox& out) {
  links_.emplace(id, std::move(link));
  out.push_back(LinkMet{id, std::move(other)});
}

// Of two links between a pair, the end that dialed the losing one closes it: it alone knows
// whether the other link is alive on its side. A peer that dials anew because its old link broke
// keeps the new one, whatever this end still believes of the old, and asks for it (on_request).
// Two simultaneous dials: the smaller id's link stays, and both ends find so (stays).
bool Links::resolve_duplicates(base::LinkId id, const Link& link, base::Time now,
                               OverlayOutbox& out) {
  const bool smaller = self_ < link.peer;
  std::vector<base::LinkId> losers;
  for (const auto& [other_id, other] : links_) {
    if (other.peer != link.peer || other_id == id) continue;
    // A direct link replaces one over a circuit: the end that dialed it sees to that.
    if (!link.relayed && other.relayed) {
      if (link.dialed) losers.push_back(other_id);
      continue;
    }
    if (link.dialed && (other.dialed || !smaller)) return true;
    const bool loses = link.dialed || (other.dialed && !stays(other, now));
    if (loses) losers.push_back(other_id);
  }
  for (const base::LinkId loser : losers) {
    close(loser, wire::ByeReason::duplicate, LossReason::duplicate, out);
  }
  return false;
}

// Whether this end's link outlasts a later one that the other end dialed: the dials may have been
// simultaneous, and this is the smaller id.
bool Links::stays(const Link& link, base::Time now) const {
  return link.dialed && !link.relayed && self_ < link.peer && now - link.ready < kSimultaneous;
}

void Links::lose(base::LinkId id, LossReason reason, OverlayOutbox& out) {
  if (at(id).role == Role::neighbour) end_neighbour(id, reason, {}, out);
  links_.erase(id);
  out.push_back(LinkEnded{id});
}

void Links::close(base::LinkId id, wire::ByeReason bye, LossReason reason, OverlayOutbox& out) {
  lose(id, reason, out);
  out.push_back(Close{id, bye});
}

void Links::set_role(base::LinkId id, Role role, base::Time ends, OverlayOutbox& out) {
  Link& link = links_.at(id);
  link.role = role;
  link.role_ends = ends;
  out.push_back(RoleSet{id, role, link.dialed});
}

void Links::make_contact(base::LinkId id, base::Time ends, OverlayOutbox& out) {
  set_role(id, Role::contact, ends, out);
}

void Links::request(base::LinkId id, bool urgent, base::Time now, OverlayOutbox& out) {
  using enum wire::NeighbourKind;
  const base::Duration life = SIM_RARE(short_request) ? kRequestTimeout / 50 : kRequestTimeout;
  set_role(id, Role::requested, now + life, out);
  out.push_back(Send{id, wire::Neighbour{urgent ? urgent_request : request}});
}

void Links::make_neighbour(base::LinkId id, OverlayOutbox& out) {
  Link& link = links_.at(id);
  ASSERT(link.role != Role::neighbour);
  link.turn = ++neighbours_had_;
  if (exchanges(link)) out.push_back(NeighbourUp{link.peer, id});
  set_role(id, Role::neighbour, {}, out);
}

void Links::end_neighbour(base::LinkId id, LossReason reason, base::Time ends, OverlayOutbox& out) {
  const Link& link = at(id);
  ASSERT(link.role == Role::neighbour);
  make_contact(id, ends, out);
  if (exchanges(link)) out.push_back(NeighbourDown{link.peer, id, reason});
  out.push_back(
      base::LogEntry{base::Severity::info,
                     fmt::format("link to {} ended: {}", link.peer.brief(), to_string(reason))});
}

void Links::hold(base::LinkId id, bool on) { links_.at(id).held = on; }

bool Links::take_referral(base::LinkId id) { return !std::exchange(links_.at(id).referred, true); }

void Links::extend(base::Duration pause) {
  for (auto& [id, link] : links_) link.role_ends += pause;
}

const Link* Links::find(base::LinkId id) const {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : &found->second;
}

std::size_t Links::count(Role role) const {
  return static_cast<std::size_t>(std::ranges::count_if(links_, [&](const auto& entry) {
    return entry.second.role == role && !entry.second.to_relay;
  }));
}

std::size_t Links::relays() const {
  return static_cast<std::size_t>(std::ranges::count_if(links_, [](const auto& entry) {
    return entry.second.to_relay && entry.second.role != Role::contact;
  }));
}

bool Links::is_linked(const base::PeerId& peer) const {
  return std::ranges::any_of(links_, [&](const auto& entry) { return entry.second.peer == peer; });
}

bool Links::is_relayed_neighbour(const base::PeerId& peer) const {
  return std::ranges::any_of(links_, [&](const auto& entry) {
    const Link& link = entry.second;
    return link.peer == peer && link.relayed && link.role == Role::neighbour;
  });
}

}  // namespace starling::membership
