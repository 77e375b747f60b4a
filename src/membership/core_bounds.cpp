// Core: what it keeps, beside the limit of each, and what it forgets to stay below.
#include <algorithm>

#include "membership/core.hpp"
#include "membership/limits.hpp"

namespace starling::membership {
namespace {

// Until a verdict: with one accuser and the worst health, or as long as a member rests.
base::Duration suspicion_max(base::Duration heartbeat) {
  return std::max<base::Duration>(kHoldMin, kSuspicionBeatsMax * (kHealthMax + 1) * heartbeat);
}

}  // namespace

// A full table lets members go that are not alive, and of those nothing else is kept either.
void Core::forget_gone() {
  const std::size_t alive = table_.alive_count();
  if (reconnect_first_.size() > alive) {
    reconnect_first_.erase_if([&](const base::PeerId& peer) {
      const wire::MemberRecord* record = table_.find(peer);
      return record == nullptr || !counts_as_alive(record->state);
    });
  }
  if (death_reasons_.size() > table_.records().size() - alive) {
    std::erase_if(death_reasons_,
                  [&](const auto& entry) { return table_.find(entry.first) == nullptr; });
  }
}

void Core::add_bounds(base::Bounds& out) const {
  const std::size_t members = table_.records().size();
  const std::size_t alive = table_.alive_count();
  const std::size_t neighbours = count(Role::neighbour);
  out.add("members", members, kMembersMax);
  out.add("members held dead", table_.dead().size(), members - alive);
  out.add("addresses of living members", table_.places(), alive);
  out.add("members under suspicion", suspicions_.size(), alive);
  out.add("members that died of late", damper_.size(), kMembersMax);
  out.add("reasons of deaths", death_reasons_.size(), members - alive);
  out.add("neighbours wanted back", reconnect_first_.size(), alive);
  out.add("peers that had no place", had_no_place_.size(), kMembersMax);
  out.add("banned peers", banned_.size(), kMembersMax);
  out.add("peers without room here", no_room_.size(), kMembersMax);
  out.add("ready links", links_.size(), ready_links_max());
  out.add("neighbours", neighbours, neighbours_max());
  out.add("relays", relays(), kRelaysMax);
  // They are told before an event's handling ends.
  out.add("rumours of records", queued_records_.size(), 0);
  out.add("rumours of claims", queued_claims_.size(), 0);
  progress_.add_bounds(neighbours + relays(), out);
  dialer_.add_bounds(out);
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  const auto add = [&](std::string_view what, base::Time at, base::Duration limit) {
    out.add_timer(what, at, now, limit);
  };
  add("the probe", probe_at_, 3 * kProbeEvery / 2);
  if (deadline_) add("the next deadline", *deadline_, 3 * kProbeEvery / 2);
  pace_.add_timers(now, out);
  for (const auto& [id, link] : links_) {
    if (link.role == Role::neighbour) {
      add("a heartbeat", link.next_beat, kBeatsApartMax * config_.heartbeat);
    } else {
      add("the end of a link's role", link.role_ends, kContactLifeMax);
    }
    add("the next comparison of tables", link.table_after, kTableEveryMax);
  }
  banned_.add_timers("the end of a ban", now, kBanTime, out);
  no_room_.add_timers("room for a peer", now, kNoRoomTime, out);
  had_no_place_.add_timers("a place for this peer", now, kNoPlaceMemory, out);
  if (const auto end = suspicions_.last_end()) {
    add("the end of a suspicion", *end, suspicion_max(config_.heartbeat));
  }
  if (const auto due = damper_.next_due()) add("a return", *due, kHoldMax);
  conflict_.add_timers(now, out);
  dialer_.add_timers(now, out);
}

}  // namespace starling::membership
