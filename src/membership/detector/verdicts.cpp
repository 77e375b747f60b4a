#include "membership/detector/verdicts.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {
namespace {

using wire::MemberRecord;
using wire::MemberState;

base::Notice told_of(const MemberRecord& record, MemberState state, wire::DeathReason reason) {
  return {base::Severity::info, fmt::format("{} ({}) is {}: {}", record.name, record.id.brief(),
                                            wire::to_string(state), wire::to_string(reason))};
}

// Until a verdict: with one accuser and the worst health, or as long as a member rests.
base::Duration suspicion_max(base::Duration heartbeat) {
  return std::max<base::Duration>(kHoldMin, kSuspicionBeatsMax * (kHealthMax + 1) * heartbeat);
}

}  // namespace

void Verdicts::believe(MemberRecord record, const base::PeerId& teller, base::LinkId from,
                       base::Time now, DetectorOutbox& out) {
  const MemberRecord* known = table_.find(record.id);
  const bool was_alive = known != nullptr && counts_as_alive(known->state);
  // That a member is dead is believed only after a suspicion of one's own, which gives it the
  // time to refute: two halves that meet again hold each other for dead, and else all would move
  // their shards twice within a round trip.
  const bool doubted = was_alive && record.state == MemberState::dead;
  if (doubted) record.state = MemberState::alive;
  const bool returns =
      known != nullptr && known->state == MemberState::dead && counts_as_alive(record.state);
  if (returns && damper_.hold_back(record, now)) return;
  if (table_.apply(record)) changed(record, was_alive, from, now, out);
  if (doubted) {
    accuse(*table_.find(record.id), teller.prefix(), wire::DeathReason::none, from, now, out);
  }
}

void Verdicts::hear(const wire::Claim& claim, const MemberRecord& record, base::LinkId from,
                    base::Time now, DetectorOutbox& out) {
  accuse(record, claim.by, claim.reason, from, now, out);
  // Whoever trusts itself less need not wait for itself.
  if (claim.state == MemberState::dead &&
      suspicions_.shorten_for_verdict(record.id, watch_.heartbeat(), now)) {
    rumours_.add(claim, from);
  }
}

void Verdicts::accuse(const base::PeerId& peer, wire::DeathReason reason, base::Time now,
                      DetectorOutbox& out) {
  const MemberRecord* known = table_.find(peer);
  if (known == nullptr || !counts_as_alive(known->state)) return;
  accuse(*known, table_.self_id().prefix(), reason, base::LinkId{}, now, out);
}

void Verdicts::accuse(const MemberRecord& record, std::uint64_t by, wire::DeathReason reason,
                      base::LinkId from, base::Time now, DetectorOutbox& out) {
  ASSERT(counts_as_alive(record.state));
  const wire::Progress* progress = progress_.find(record.id.prefix());
  const std::size_t partners =
      progress == nullptr || progress->links == 0 ? degree_ : std::min(progress->links, degree_);
  if (!suspicions_.accuse(record.id, by, reason, partners, watch_.unit(), now,
                          damper_.immune_until(record.id))) {
    return;
  }
  rumours_.add(claim_of(record, by, MemberState::suspect, reason), from);
  if (record.state == MemberState::suspect) return;
  table_.mark_suspect(record.id);
  progress_.set_state(record.id.prefix(), MemberState::suspect);
  out.push_back(told_of(record, MemberState::suspect, reason));
}

void Verdicts::changed(const MemberRecord& record, bool was_alive, base::LinkId from,
                       base::Time now, DetectorOutbox& out) {
  rumours_.add(record.id, from);
  if (suspicions_.accused_by(record.id, table_.self_id().prefix()) &&
      record.state == MemberState::alive) {
    watch_.doubt();  // it was alive all the time
  }
  suspicions_.drop(record.id);
  progress_.set_state(record.id.prefix(), record.state);
  if (counts_as_alive(record.state)) {
    if (!SIM_BUG(death_reasons_kept)) death_reasons_.erase(record.id);
    if (was_alive) return;
    damper_.returned(record, now);
    out.push_back(MemberBack{record.id});
    return;
  }
  damper_.gone(record);
  const bool left = record.state == MemberState::left;
  if (left) death_reasons_[record.id] = wire::DeathReason::left;
  out.push_back(MemberGone{record.id, left});
}

// Claims go out once, over the links that there were then. After a cut a new link may be the first
// to the other side.
wire::Gossip Verdicts::open_for(const base::PeerId& peer) const {
  wire::Gossip gossip;
  for (const Suspicions::Accusation& open : suspicions_.open_from(peer, wire::kClaimsPerGossip)) {
    const MemberRecord* record = table_.find(open.peer);
    if (record == nullptr) continue;
    gossip.claims.push_back(claim_of(*record, open.by, MemberState::suspect, open.reason));
  }
  return gossip;
}

void Verdicts::expire(base::Time now, DetectorOutbox& out) {
  end_suspicions(now, out);
  for (const MemberRecord& record : damper_.take_due(now)) {
    if (table_.apply(record)) changed(record, false, base::LinkId{}, now, out);
  }
}

void Verdicts::end_suspicions(base::Time now, DetectorOutbox& out) {
  if (SIM_BUG(suspicion_for_ever)) return;
  for (const Suspicions::Verdict& verdict : suspicions_.take_ended(now)) {
    const MemberRecord* known = table_.find(verdict.peer);
    if (known == nullptr || !counts_as_alive(known->state)) continue;
    MemberRecord record = *known;
    record.state = MemberState::dead;
    if (SIM_BUG(refute_others)) ++record.incarnation;
    if (!table_.apply(record)) continue;
    progress_.set_state(record.id.prefix(), MemberState::dead);
    rumours_.add(claim_of(record, table_.self_id().prefix(), MemberState::dead, verdict.reason),
                 base::LinkId{});
    death_reasons_[record.id] = verdict.reason;
    damper_.died(record, table_.alive_count(), now);
    out.push_back(MemberGone{record.id, false});
    out.push_back(told_of(record, MemberState::dead, verdict.reason));
  }
}

std::optional<base::Time> Verdicts::next_due() const {
  base::Earliest next;
  next.add(suspicions_.next_end());
  next.add(damper_.next_due());
  return next.value();
}

void Verdicts::forget_gone() {
  if (death_reasons_.size() <= table_.records().size() - table_.alive_count()) return;
  std::erase_if(death_reasons_,
                [&](const auto& entry) { return table_.find(entry.first) == nullptr; });
}

wire::DeathReason Verdicts::death_reason_of(const base::PeerId& peer) const {
  const auto found = death_reasons_.find(peer);
  return found == death_reasons_.end() ? wire::DeathReason::none : found->second;
}

void Verdicts::add_bounds(base::Bounds& out) const {
  const std::size_t alive = table_.alive_count();
  out.add("members under suspicion", suspicions_.size(), alive);
  out.add("members that died of late", damper_.size(), kMembersMax);
  out.add("reasons of deaths", death_reasons_.size(), table_.records().size() - alive);
}

void Verdicts::add_timers(base::Time now, base::Bounds& out) const {
  if (const auto end = suspicions_.last_end()) {
    out.add_timer("the end of a suspicion", *end, now, suspicion_max(watch_.heartbeat()));
  }
  if (const auto due = damper_.next_due()) out.add_timer("a return", *due, now, kHoldMax);
}

}  // namespace starling::membership
