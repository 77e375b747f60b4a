// Core: whom to dial, which links are neighbour relations, which of two links stays.
#include <algorithm>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/core.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

using base::Severity;
using wire::NeighbourKind;

// Of two links between a pair, the end that dialed the losing one closes it: it alone knows
// whether the other link is alive on its side. A peer that dials anew because its old link broke
// keeps the new one, whatever this end still believes of the old, and asks for it (on_request).
// Two simultaneous dials: the smaller id's link stays, and both ends find so (stays).
bool Core::resolve_duplicates(base::LinkId id, const Link& link, base::Time now, Outbox& out) {
  const bool smaller = table_.self_id() < link.peer;
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
    close(loser, wire::ByeReason::duplicate, LossReason::duplicate, now, out);
  }
  return false;
}

// Whether this end's link outlasts a later one that the other end dialed: the dials may have been
// simultaneous, and this is the smaller id.
bool Core::stays(const Link& link, base::Time now) const {
  return link.dialed && !link.relayed && table_.self_id() < link.peer &&
         now - link.ready < kSimultaneous;
}

void Core::on_message(base::LinkId id, const wire::Neighbour& message, base::Time now,
                      Outbox& out) {
  const Role role = links_.at(id).role;
  switch (message.kind) {
    case NeighbourKind::request:
      on_request(id, false, now, out);
      break;
    case NeighbourKind::urgent_request:
      on_request(id, true, now, out);
      break;
    case NeighbourKind::accept:
      if (role == Role::requested) become_neighbour(id, now, out);
      break;
    case NeighbourKind::reject:
      if (role == Role::requested) on_reject(id, now, out);
      break;
    case NeighbourKind::leave:
      if (role == Role::neighbour) {
        end_neighbour(id, LossReason::closed, now, out);
        dialer_.postpone(links_.at(id).peer, kRejectedPause, now);
      }
      break;
    case NeighbourKind::none:
      break;
  }
}

void Core::on_request(base::LinkId id, bool urgent, base::Time now, Outbox& out) {
  const Link& link = links_.at(id);
  const base::PeerId peer = link.peer;
  bool moved = link.role == Role::neighbour;
  for (auto other = links_.begin(); other != links_.end();) {
    const auto [other_id, relation] = *other++;
    if (other_id == id || relation.peer != peer) continue;
    if (stays(relation, now)) return;  // the other end is about to close the one it asked on
    moved = moved || relation.role == Role::neighbour;
    close(other_id, wire::ByeReason::duplicate, LossReason::duplicate, now, out);
  }
  const bool room =
      SIM_RARE(accept_without_room) || (has_room_for(link) && !SIM_RARE(reject_with_room));
  // Where each end hears nothing of the other's counter, the overlay is in two parts. If that of
  // one alone stands still, as its trainer may, there is no need for a link.
  const bool served = link.to_relay || is_relay();
  const bool wanted = moved || room || (!served && (urgent || seems_apart(peer, now)));
  const wire::MemberRecord* record = table_.find(peer);
  const bool fits = (record == nullptr || fits_overlay(*record)) && !no_room_.contains(peer);
  if (!wanted || !fits) {
    // Once a link: a few bytes that ask again and again are not worth kilobytes each.
    if (!std::exchange(links_.at(id).referred, true)) refer(id, peer, out);
    send(id, wire::Neighbour{NeighbourKind::reject}, out);
    return;
  }
  send(id, wire::Neighbour{NeighbourKind::accept}, out);
  if (links_.at(id).role != Role::neighbour) become_neighbour(id, now, out);
}

bool Core::has_room_for(const Link& link) const {
  if (link.to_relay) return relays() < kRelaysMax;
  const std::size_t neighbours = responsive_neighbours();
  if (is_relay()) {
    return neighbours < kServedMax || std::ranges::any_of(links_, [&](const auto& entry) {
             return needs_no_relay(entry.second);
           });
  }
  // Requests of ours that are under way may still be rejected: they count against the slack only,
  // or peers that all seek at once would all reject each other.
  return neighbours < config_.degree &&
         neighbours + count(Role::requested) < config_.degree + kDegreeSlack;
}

bool Core::needs_no_relay(const Link& link) const {
  if (link.role != Role::neighbour || link.held) return false;
  const wire::MemberRecord* record = table_.find(link.peer);
  return record != nullptr && record->reach == wire::Reachability::reachable;
}

void Core::on_reject(base::LinkId id, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  link.role = Role::contact;  // it no longer counts as on its way
  link.role_ends = now + kContactLife;
  dialer_.postpone(link.peer, link.to_relay ? kRevivalMin : kRejectedPause, now);
  had_no_place_.add(link.peer, now + kNoPlaceMemory);
  if (!link.to_relay) pace_.rejected(rng_, now);
  const auto& records = table_.records();
  const bool others = dialer_.dialing() > 0 || count(Role::requested) > 0 ||
                      std::any_of(records.begin(), records.end(),
                                  [&](const auto& entry) { return is_due(entry.second, now); });
  const bool lonely = count(Role::neighbour) == 0;
  const bool dials_only = table_.self().reach == wire::Reachability::dials_only;
  // Who has its slack left takes one more at no cost. Who has not gives another one away, who asks
  // the next in turn: that would go round and round. Moving counters show that nothing is amiss.
  const bool full = !lonely && is_full(link.peer);
  const bool in_vain = full && progress_.rate(now) > 0;
  // Nobody introduces a peer without links to those that it cannot dial, nor refutes for it.
  const bool helpless = lonely && dials_only;
  const bool tried =
      pace_.has_tried(full) || (!others && !full) || helpless || SIM_RARE(urgent_at_once);
  if (tried && !in_vain && !link.to_relay && wanted_neighbours() > 0 &&
      pace_.take_urgent(lonely, now)) {
    request(id, true, now, out);
    return;
  }
  // Over this link, while it is a contact, a peer that nobody can dial is introduced to others.
  if (dials_only) return;
  close(id, wire::ByeReason::none, LossReason::closed, now, out);
}

void Core::request(base::LinkId id, bool urgent, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  link.role = Role::requested;
  link.role_ends = now + (SIM_RARE(short_request) ? kRequestTimeout / 50 : kRequestTimeout);
  send(id, wire::Neighbour{urgent ? NeighbourKind::urgent_request : NeighbourKind::request}, out);
}

void Core::become_neighbour(base::LinkId id, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  ASSERT(link.role != Role::neighbour);
  link.role = Role::neighbour;
  link.detector.restart(now);
  if (!link.to_relay) pace_.accepted();
  reconnect_first_.erase(link.peer);
  if (exchanges(link)) out.push_back(NeighbourUp{link.peer, id});
  send_heartbeat(id, link, now, out);
  if (link.dialed) reconcile(id, out);  // one end is enough
  drop_surplus(link.peer, now, out);
}

// To a peer that finds no place here: some members that may have one. Joiners that all know the
// same peer are spread over the swarm by this, and by the rumour of their own records.
void Core::refer(base::LinkId id, const base::PeerId& to, Outbox& out) {
  if (SIM_RARE(no_referral)) return;
  std::vector<const wire::MemberRecord*> members;
  for (const auto& [peer, record] : table_.records()) {
    if (counts_as_alive(record.state) && peer != to && peer != table_.self_id()) {
      members.push_back(&record);
    }
  }
  std::vector<wire::MemberRecord> named;
  for (std::size_t i = 0; i < kReferrals && !members.empty(); ++i) {
    std::swap(members[rng_.below(members.size())], members.back());
    named.push_back(*members.back());
    members.pop_back();
  }
  for (wire::Gossip& gossip : to_gossip(std::move(named))) send(id, std::move(gossip), out);
}

void Core::end_neighbour(base::LinkId id, LossReason reason, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  ASSERT(link.role == Role::neighbour);
  link.role = Role::contact;
  link.role_ends = now + kContactLife;
  if (!SIM_BUG(told_kept)) progress_.forget(link.peer.prefix());
  if (exchanges(link)) out.push_back(NeighbourDown{link.peer, id, reason});
  notice(out, Severity::info,
         fmt::format("link to {} ended: {}", link.peer.brief(), to_string(reason)));
}

void Core::close(base::LinkId id, wire::ByeReason bye, LossReason reason, base::Time now,
                 Outbox& out) {
  if (links_.at(id).role == Role::neighbour) end_neighbour(id, reason, now, out);
  links_.erase(id);
  out.push_back(Close{id, bye});
}

// Above degree + slack one of the neighbours goes, at random: were it the one that has most links
// itself, the overlay would be a worse expander (32 peers: a spectral gap of 0.17 instead of 0.19).
void Core::drop_surplus(const base::PeerId& keep, base::Time now, Outbox& out) {
  while (count(Role::neighbour) > neighbours_max() && !SIM_BUG(surplus_kept)) {
    std::vector<base::LinkId> others;
    for (const auto& [id, link] : links_) {
      if (link.role == Role::neighbour && !link.to_relay && link.peer != keep) others.push_back(id);
    }
    ASSERT(!others.empty());
    const auto keep_only = [&](auto&& fits) {
      if (std::ranges::any_of(others, fits)) {
        std::erase_if(others, [&](base::LinkId id) { return !fits(id); });
      }
    };
    if (is_relay()) keep_only([&](base::LinkId id) { return needs_no_relay(links_.at(id)); });
    // Who has enough without this one seeks no other, and who has another one waits for it.
    for (const std::uint32_t enough : {config_.degree, 1U}) {
      keep_only([&](base::LinkId id) { return links_told(links_.at(id).peer) > enough; });
    }
    // Direct links are kept rather than those over a circuit, and those that carry a circuit
    // rather than others.
    keep_only([&](base::LinkId id) { return links_.at(id).relayed; });
    keep_only([&](base::LinkId id) { return !links_.at(id).held; });
    const base::LinkId victim = others[rng_.below(others.size())];
    dialer_.postpone(links_.at(victim).peer, kRejectedPause, now);
    send(victim, wire::Neighbour{NeighbourKind::leave}, out);
    // The circuits over it must not fall with it: who is linked by them would be the next to ask.
    if (links_.at(victim).held) {
      end_neighbour(victim, LossReason::replaced, now, out);
    } else {
      close(victim, wire::ByeReason::replaced, LossReason::replaced, now, out);
    }
  }
}

// Dials what is due: configured addresses and alive members until `degree` neighbours are found
// or under way, and beside that, slowly and for ever, members that are dead and configured
// addresses where nobody was found, so that a cut swarm grows together again.
void Core::seek(base::Time now, Outbox& out) {
  if (SIM_RARE(no_seek)) return;
  const bool lonely = count(Role::neighbour) == 0;
  if (lonely && dialer_.join_due(lonely, now)) dial_joins(now, out);
  const std::size_t wanted = now < pace_.dial_after() ? 0 : wanted_neighbours();
  if (wanted > dialer_.dialing()) seek_members(true, wanted - dialer_.dialing(), now, out);
  if (wants_relays()) seek_relays(now, out);
  // Of the addresses that were given or saved some may be of long ago, and each of those keeps a
  // dial for as long as it may take: members come first.
  if (!lonely && dialer_.join_due(lonely, now)) dial_joins(now, out);
  if (!table_.dead().empty() && dialer_.revivals() < kRevivalsMax && !SIM_BUG(dead_not_retried)) {
    seek_members(false, 1, now, out);
  }
  if (now >= probe_at_) probe(now, out);
}

// All of them, or of many the first in the order of ids: so any two peers that cannot reach each
// other have one in common.
void Core::seek_relays(base::Time now, Outbox& out) {
  const auto& all = table_.relays();
  std::size_t sought = relays() + static_cast<std::size_t>(std::ranges::count_if(
                                      all, [&](const auto& id) { return dialer_.is_dialing(id); }));
  for (const base::PeerId& id : all) {
    if (sought >= kRelaysSought) return;
    const wire::MemberRecord& record = *table_.find(id);
    if (dialer_.due(id) > now || !is_wanted(record, true)) continue;
    if (const auto address = dialer_.dial(record, now)) {
      dial(*address, out);
      ++sought;
    }
  }
}

bool Core::wants_relays() const {
  return !is_relay() && table_.self().reach != wire::Reachability::reachable &&
         !table_.relays().empty() && relays() < kRelaysSought;
}

std::size_t Core::relays() const {
  return static_cast<std::size_t>(std::ranges::count_if(links_, [](const auto& entry) {
    return entry.second.to_relay && entry.second.role != Role::contact;
  }));
}

void Core::dial_joins(base::Time now, Outbox& out) {
  const bool lonely = count(Role::neighbour) == 0;
  const auto is_known = [&](const std::string& address, std::optional<base::PeerId>& holder) {
    const auto has = [&](const wire::MemberRecord* record) {
      return record != nullptr && std::ranges::count(record->addresses, address) > 0;
    };
    for (const auto& [id, link] : links_) {
      if (link.address == address || (lonely && has(table_.find(link.peer)))) return true;
    }
    if (lonely) return false;
    const auto holds = [&](const wire::MemberRecord* record) {
      return has(record) && counts_as_alive(record->state);
    };
    if (holder && holds(table_.find(*holder))) return true;
    holder.reset();
    for (const auto& [id, record] : table_.records()) {
      if (holds(&record)) holder = id;
    }
    return holder.has_value();
  };
  while (dialer_.dialing() < std::max<std::size_t>(wanted_neighbours(), 1)) {
    const auto address = dialer_.dial_join(lonely, is_known, now);
    if (!address) break;
    dial(*address, out);
  }
}

// Neighbours watch each other, but a cut can leave members with no neighbour on this side; then
// a dial that fails is what tells. In a swarm that trains, moving counters make it unneeded.
void Core::probe(base::Time now, Outbox& out) {
  const bool first = probe_at_ == base::Time{};
  probe_at_ = now + base::from_seconds(base::seconds(kProbeEvery) * (0.5 + rng_.uniform()));
  if (first) return;
  std::vector<const wire::MemberRecord*> stale;
  for (const auto& [id, record] : table_.records()) {
    if (is_due(record, now) && (lacks_evidence(id, now) || SIM_RARE(probe_now)))
      stale.push_back(&record);
  }
  if (stale.empty()) return;
  if (const auto address = dialer_.dial(*stale[rng_.below(stale.size())], now)) {
    dial(*address, out);
  }
}

bool Core::lacks_evidence(const base::PeerId& peer, base::Time now) const {
  const auto age = progress_.age(peer.prefix(), now);
  return !age || *age > kEvidence + progress_.horizon();
}

bool Core::seems_apart(const base::PeerId& peer, base::Time now) const {
  return progress_.rate(now) > 0 && lacks_evidence(peer, now);
}

void Core::seek_members(bool alive, std::size_t wanted, base::Time now, Outbox& out) {
  std::vector<const wire::MemberRecord*> due;
  if (alive) {
    for (const auto& [id, record] : table_.records()) {
      if (is_due(record, now)) due.push_back(&record);
    }
  } else {
    for (const base::PeerId& id : table_.dead()) {
      const wire::MemberRecord& record = *table_.find(id);
      if (dialer_.due(id) <= now && is_wanted(record, false)) due.push_back(&record);
    }
  }
  base::shuffle(due, rng_);
  // Where neither can be dialed, a link takes a third member's help. Those that can are asked by
  // all the others, too: where they have no room, the rest has its turn.
  if (table_.self().reach == wire::Reachability::dials_only) {
    std::ranges::stable_partition(due, [&](const auto* record) {
      return record->reach != wire::Reachability::dials_only && !had_no_place_.contains(record->id);
    });
  }
  // Who seeks, too, comes first; who has no room left could only give another one away.
  std::ranges::stable_partition(due, [&](const auto* record) { return !is_full(record->id); });
  std::ranges::stable_partition(
      due, [&](const auto* record) { return links_told(record->id) < config_.degree; });
  // A neighbour that was lost is taken back within its grace: it costs no keyframe.
  std::stable_partition(due.begin(), due.end(), [&](const auto* record) {
    return reconnect_first_.left(record->id, now).has_value() && !SIM_RARE(no_lost_first);
  });
  for (const wire::MemberRecord* record : due) {
    if (wanted == 0) return;
    // The same machine with another key: its links would be taken for new ones of who lives there
    // now, and replace those.
    if (!alive && table_.anyone_alive_at(record->addresses) && !SIM_BUG(stranger_dialed_again)) {
      dialer_.postpone(record->id, kRevivalMax, now);
      continue;
    }
    if (const auto address = alive ? dialer_.dial(*record, now) : dialer_.revive(*record, now)) {
      dial(*address, out);
      --wanted;
    }
  }
}

void Core::ban(const base::PeerId& peer, base::Time now) {
  banned_.add(peer, now + kBanTime);
  dialer_.block_for(peer, kBanTime, now);
}

bool Core::is_there(const wire::MemberRecord& record) const {
  return counts_as_alive(record.state) || damper_.waits(record.id);
}

bool Core::fits_overlay(const wire::MemberRecord& record) const {
  if (is_relay() || !record.has_replica) return is_relay() == record.has_replica;
  return config_.hub.empty() || record.name == config_.hub || table_.self().name == config_.hub;
}

bool Core::may_be_neighbour(const wire::MemberRecord& record) const {
  return fits_overlay(record) && record.id != table_.self_id() && !banned_.contains(record.id) &&
         !no_room_.contains(record.id);
}

bool Core::may_find_neighbours() const {
  return std::ranges::any_of(table_.records(), [&](const auto& entry) {
    return counts_as_alive(entry.second.state) && entry.second.has_replica &&
           may_be_neighbour(entry.second);
  });
}

bool Core::is_wanted(const wire::MemberRecord& record, bool alive) const {
  const bool there = is_there(record);
  const bool fits = alive ? there : record.state == wire::MemberState::dead && !there;
  return fits && may_be_neighbour(record) && !is_linked(record.id) &&
         !dialer_.is_dialing(record.id);
}

bool Core::is_due(const wire::MemberRecord& record, base::Time now) const {
  return record.has_replica && dialer_.due(record.id) <= now && is_wanted(record, true);
}

void Core::on(const DialFailed& event, base::Time now, Outbox& out) {
  const std::string& address = event.address;
  const auto target = dialer_.target(address);
  const wire::MemberRecord* record = target ? table_.find(*target) : nullptr;
  bool slow = count(Role::neighbour) > 0;
  if (target) {
    slow = record != nullptr && record->state == wire::MemberState::dead;
  }
  const bool stood_still = dialer_.stood_still(address);
  if (!dialer_.failed(address, event.own, slow, now) || !target) return;
  // That tells something of this machine, and nothing of the target.
  if (event.own || event.no_route || stood_still) return;
  // That somebody cannot be dialed who says so is no news, unless it was a neighbour just now.
  if (record != nullptr && record->reach == wire::Reachability::dials_only &&
      !reconnect_first_.left(*target, now)) {
    return;
  }
  if (address == name_of(*target)) return;
  // That one address of several leads nowhere says nothing of who may be at another.
  if (record != nullptr && dialer_.may_be_elsewhere(*record, now)) return;
  if (!is_linked(*target) && lacks_evidence(*target, now)) {
    accuse(*target, wire::DeathReason::refused, now, out);
  }
}

void Core::dial(std::string address, Outbox& out) const {
  const auto peer = dialer_.target(address);
  out.push_back(Dial{std::move(address), peer});
}

base::Time Core::next_seek(base::Time now, base::Time latest) const {
  base::Time next = std::min(latest, probe_at_);
  if (const auto due = dialer_.next_due(count(Role::neighbour) == 0, now)) {
    next = std::min(next, *due);
  }
  const bool seeks = wanted_neighbours() > 0;
  const bool seeks_relays = wants_relays();
  if (seeks && pace_.dial_after() > now) next = std::min(next, pace_.dial_after());
  for (const auto& [due, id] : dialer_.waiting(now)) {
    if (due >= next) break;
    const wire::MemberRecord* record = table_.find(id);
    if (record == nullptr) continue;
    const bool sought = record->has_replica ? seeks : seeks_relays;
    if (is_wanted(*record, false) || (sought && is_wanted(*record, true))) next = due;
  }
  return next;
}

bool Core::is_relayed_neighbour(const base::PeerId& peer) const {
  return std::ranges::any_of(links_, [&](const auto& entry) {
    const Link& link = entry.second;
    return link.peer == peer && link.relayed && link.role == Role::neighbour;
  });
}

std::uint32_t Core::links_told(const base::PeerId& peer) const {
  const wire::Progress* told = progress_.find(peer.prefix());
  return told == nullptr ? 0 : told->links;
}

bool Core::is_full(const base::PeerId& peer) const {
  return links_told(peer) >= config_.degree + kDegreeSlack;
}

bool Core::is_linked(const base::PeerId& peer) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const auto& entry) { return entry.second.peer == peer; });
}

std::size_t Core::count(Role role) const {
  return static_cast<std::size_t>(std::ranges::count_if(links_, [&](const auto& entry) {
    return entry.second.role == role && !entry.second.to_relay;
  }));
}

std::size_t Core::responsive_neighbours() const {
  const std::size_t all = count(Role::neighbour);
  const auto silent =
      static_cast<std::size_t>(std::count_if(links_.begin(), links_.end(), [&](const auto& entry) {
        const Link& link = entry.second;
        return link.role == Role::neighbour && !link.to_relay && now_ >= suspect_at(link);
      }));
  return 2 * silent >= all ? all - silent : all;
}

std::size_t Core::wanted_neighbours() const {
  const std::size_t have = responsive_neighbours() + count(Role::requested);
  return have >= config_.degree ? 0 : config_.degree - have;
}

}  // namespace starling::membership
