#include "membership/overlay/seeker.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

Seeker::Seeker(const Config& config, const MemberTable& table, const Links& links,
               const Candidates& candidates, const Standings& standings, const Places& places,
               base::Rng& rng)
    : degree_(config.degree),
      table_(table),
      links_(links),
      candidates_(candidates),
      standings_(standings),
      places_(places),
      rng_(rng),
      dialer_(config.join, rng.fork()) {}

// Dials what is due: configured addresses and alive members until `degree` neighbours are found
// or under way, and beside that, slowly and for ever, members that are dead and configured
// addresses where nobody was found, so that a cut swarm grows together again.
void Seeker::seek(base::Time now, OverlayOutbox& out) {
  if (rests_ || SIM_RARE(no_seek)) return;
  const bool lonely = is_lonely();
  if (lonely && dialer_.join_due(lonely, now)) dial_joins(now, out);
  const std::size_t wanted = now < pace_.dial_after() ? 0 : places_.wanted(now);
  const std::size_t dialing = dialer_.count(DialPurpose::wanted);
  if (wanted > dialing) seek_members(true, wanted - dialing, now, out);
  if (places_.wants_relays()) seek_relays(now, out);
  // Of the addresses that were given or saved some may be of long ago, and each of those keeps a
  // dial for as long as it may take: members come first.
  if (!lonely && dialer_.join_due(lonely, now)) dial_joins(now, out);
  if (!table_.dead().empty() && dialer_.count(DialPurpose::revival) < kRevivalsMax &&
      !SIM_BUG(dead_not_retried)) {
    seek_members(false, 1, now, out);
  }
  if (now >= probe_at_) probe(now, out);
}

// All of them, or of many the first in the order of ids: so any two peers that cannot reach each
// other have one in common.
void Seeker::seek_relays(base::Time now, OverlayOutbox& out) {
  const auto& all = table_.relays();
  std::size_t sought =
      links_.relays() + static_cast<std::size_t>(std::ranges::count_if(
                            all, [&](const auto& id) { return dialer_.is_dialing(id); }));
  for (const base::PeerId& id : all) {
    if (sought >= kRelaysSought) return;
    const wire::MemberRecord& record = *table_.find(id);
    if (dialer_.history().due(id) > now || !is_wanted(record, true)) continue;
    if (const auto address = dialer_.dial(record, now)) {
      dial(*address, out);
      ++sought;
    }
  }
}

void Seeker::dial_joins(base::Time now, OverlayOutbox& out) {
  const bool lonely = is_lonely();
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
    for (const auto& [id, member] : table_.members()) {
      if (holds(&member.record)) holder = id;
    }
    return holder.has_value();
  };
  while (dialer_.count(DialPurpose::wanted) < std::max<std::size_t>(places_.wanted(now), 1)) {
    const auto address = dialer_.dial_join(lonely, is_known, now);
    if (!address) break;
    dial(*address, out);
  }
}

// Neighbours watch each other, but a cut can leave members with no neighbour on this side; then
// a dial that fails is what tells. In a swarm that trains, moving counters make it unneeded.
void Seeker::probe(base::Time now, OverlayOutbox& out) {
  const bool first = probe_at_ == base::Time{};
  probe_at_ = now + base::from_seconds(base::seconds(kProbeEvery) * (0.5 + rng_.uniform()));
  if (first) return;
  std::vector<const wire::MemberRecord*> stale;
  for (const auto& [id, member] : table_.members()) {
    const wire::MemberRecord& record = member.record;
    if (is_due(record, now) && (candidates_.lacks_evidence(id, now) || SIM_RARE(probe_now)))
      stale.push_back(&record);
  }
  if (stale.empty()) return;
  // On the other side of a cut may be members that cannot be dialed: no probe tells of those.
  const auto unreachable = std::partition(stale.begin(), stale.end(), [&](const auto* record) {
    return !may_be_out_of_reach(*record, now);
  });
  if (unreachable != stale.begin()) stale.erase(unreachable, stale.end());
  if (const auto address = dialer_.dial(*stale[rng_.below(stale.size())], now)) {
    dial(*address, out);
  }
}

void Seeker::seek_members(bool alive, std::size_t wanted, base::Time now, OverlayOutbox& out) {
  std::vector<const wire::MemberRecord*> due;
  if (alive) {
    for (const auto& [id, member] : table_.members()) {
      if (is_due(member.record, now)) due.push_back(&member.record);
    }
  } else {
    for (const base::PeerId& id : table_.dead()) {
      const wire::MemberRecord& record = *table_.find(id);
      if (dialer_.history().due(id) <= now && is_wanted(record, false)) due.push_back(&record);
    }
  }
  base::shuffle(due, rng_);
  // Where neither can be dialed, a link takes a third member's help. Those that can are asked by
  // all the others, too: where they have no room, the rest has its turn.
  if (candidates_.self().reach == wire::Reachability::dials_only) {
    std::stable_partition(due.begin(), due.end(), [&](const auto* record) {
      return record->reach != wire::Reachability::dials_only &&
             !standings_.has(Standing::had_no_place, record->id);
    });
  }
  // Members that seek, too, come first; one without room could only give another away.
  std::stable_partition(due.begin(), due.end(),
                        [&](const auto* record) { return !candidates_.is_full(record->id); });
  std::stable_partition(due.begin(), due.end(), [&](const auto* record) {
    return candidates_.links_told(record->id) < degree_;
  });
  // Peers of which none can be dialed may be an island with no way off: one of the others, be it
  // full, introduces them. Where all can be dialed, they would crowd at those that know it first.
  const auto only_dials = [](const auto* record) {
    return record->reach == wire::Reachability::dials_only;
  };
  if (std::ranges::any_of(due, only_dials) && is_out_of_the_way()) {
    std::stable_partition(due.begin(), due.end(), [&](const auto* record) {
      return record->reach == wire::Reachability::reachable &&
             !standings_.has(Standing::had_no_place, record->id);
    });
  }
  // A neighbour that was lost is taken back within its grace: it costs no keyframe.
  std::stable_partition(due.begin(), due.end(), [&](const auto* record) {
    return standings_.left(Standing::wanted_back, record->id, now).has_value() &&
           !SIM_RARE(no_lost_first);
  });
  for (const wire::MemberRecord* record : due) {
    if (wanted == 0) return;
    // The same machine with another key: its links would be taken for new ones of who lives there
    // now, and replace those.
    if (!alive && table_.anyone_alive_at(record->addresses) && !SIM_BUG(stranger_dialed_again)) {
      dialer_.postpone(record->id, kRevivalMax, now);
      continue;
    }
    const DialPurpose purpose = alive ? DialPurpose::wanted : DialPurpose::revival;
    if (const auto address = dialer_.dial(*record, now, purpose)) {
      dial(*address, out);
      --wanted;
    }
  }
}

bool Seeker::is_out_of_the_way() const {
  if (candidates_.self().reach == wire::Reachability::reachable) return false;
  return std::ranges::none_of(links_, [&](const auto& entry) {
    const wire::MemberRecord* record = table_.find(entry.second.peer);
    return entry.second.role == Role::neighbour && record != nullptr &&
           record->reach == wire::Reachability::reachable;
  });
}

bool Seeker::is_wanted(const wire::MemberRecord& record, bool alive) const {
  const bool there = candidates_.is_there(record);
  const bool fits = alive ? there : record.state == wire::MemberState::dead && !there;
  return fits && candidates_.may_be_neighbour(record) && !links_.is_linked(record.id) &&
         !dialer_.is_dialing(record.id);
}

bool Seeker::is_due(const wire::MemberRecord& record, base::Time now) const {
  return record.has_replica && dialer_.history().due(record.id) <= now && is_wanted(record, true);
}

void Seeker::dial(std::string address, OverlayOutbox& out) const {
  const auto peer = dialer_.target(address);
  out.push_back(Dial{std::move(address), peer});
}

base::Time Seeker::next_due(base::Time now, base::Time latest) const {
  if (rests_) return std::min<base::Time>(latest, now + kProbeEvery);
  base::Time next = std::min(latest, probe_at_);
  if (const auto due = dialer_.next_due(is_lonely(), now)) {
    next = std::min(next, *due);
  }
  const bool seeks = places_.wanted(now) > 0;
  const bool seeks_relays = places_.wants_relays();
  if (seeks && pace_.dial_after() > now) next = std::min(next, pace_.dial_after());
  for (const auto& [due, id] : dialer_.history().waiting(now)) {
    if (due >= next) break;
    const wire::MemberRecord* record = table_.find(id);
    if (record == nullptr) continue;
    const bool sought = record->has_replica ? seeks : seeks_relays;
    if (is_wanted(*record, false) || (sought && is_wanted(*record, true))) next = due;
  }
  return next;
}

// Of a crowd that hears a newcomer only some dial it; it is heard again. Two swarms on one network
// become one in the same way.
void Seeker::found(const Found& event, base::Time now, OverlayOutbox& out) {
  if (rests_) return;
  const wire::MemberRecord* known = table_.find(event.peer);
  if ((known != nullptr && counts_as_alive(known->state))) return;
  if (rng_.uniform() * static_cast<double>(table_.alive_count()) >= kFoundDials) return;
  if (!dialer_.dial_found(event.address, now)) return;
  dial(event.address, out);
}

void Seeker::answered(const LinkReady& event, base::Time now, OverlayOutbox& out) {
  // A peer that answers in another's place shows that the other is gone from there. It may be at
  // another of its addresses: one may be that of several machines, such as that of a bridge for
  // containers. Of whom something was heard just now, that is to be asked again.
  const auto target = dialer_.target(event.address);
  const bool heard = target && !candidates_.lacks_evidence(*target, now);
  dialer_.answered(event.address, event.other.id, now, heard ? kEvidence : kTakenMemory);
  if (!target || *target == event.other.id) return;
  const wire::MemberRecord* record = table_.find(*target);
  if (record != nullptr && dialer_.may_be_elsewhere(*record, now)) return;
  if (!links_.is_linked(*target) && candidates_.lacks_evidence(*target, now)) {
    out.push_back(Accuse{*target, wire::DeathReason::refused});
  }
}

void Seeker::failed(const DialFailed& event, base::Time now, OverlayOutbox& out) {
  const std::string& address = event.address;
  const auto target = dialer_.target(address);
  const wire::MemberRecord* record = target ? table_.find(*target) : nullptr;
  bool slow = !is_lonely();
  if (target) {
    slow = record != nullptr && record->state == wire::MemberState::dead;
  }
  const bool stood_still = dialer_.stood_still(address);
  if (!dialer_.failed(address, event.own, slow, now) || !target) return;
  // That tells something of this machine, and nothing of the target.
  if (event.own || event.no_route || stood_still) return;
  if (record != nullptr && may_be_out_of_reach(*record, now)) return;
  if (address == name_of(*target)) return;
  // That one address of several leads nowhere says nothing of who may be at another.
  if (record != nullptr && dialer_.may_be_elsewhere(*record, now)) return;
  if (!links_.is_linked(*target) && candidates_.lacks_evidence(*target, now)) {
    out.push_back(Accuse{*target, wire::DeathReason::refused});
  }
}

// That somebody cannot be dialed who says so is no news, unless it was a neighbour just now. Where
// there are such members, one that does not know yet may be another.
bool Seeker::may_be_out_of_reach(const wire::MemberRecord& record, base::Time now) const {
  using wire::Reachability;
  if (standings_.left(Standing::wanted_back, record.id, now)) return false;
  if (record.reach != Reachability::unknown) return record.reach == Reachability::dials_only;
  return table_.anyone_only_dials();
}

void Seeker::end_overdue(base::Time now, OverlayOutbox& out) {
  for (const std::string& address : dialer_.overdue(now)) {
    failed(DialFailed{address, {}}, now, out);
  }
}

bool Seeker::has_others(base::Time now) const {
  return dialer_.count(DialPurpose::wanted) > 0 || links_.count(Role::requested) > 0 ||
         std::ranges::any_of(table_.members(),
                             [&](const auto& entry) { return is_due(entry.second.record, now); });
}

void Seeker::add_timers(base::Time now, base::Bounds& out) const {
  if (!rests_) out.add_timer("the probe", probe_at_, now, 3 * kProbeEvery / 2);
  pace_.add_timers(now, out);
  dialer_.add_timers(now, out);
}

}  // namespace starling::membership
