#include "membership/detector/verdicts.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {
namespace {

using wire::MemberRecord;
using wire::MemberState;

base::LogEntry told_of(const MemberRecord& record, MemberState state, wire::DeathReason reason) {
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
  if (returns && holds_back(record, now)) return;
  if (apply(record)) changed(record, was_alive, from, now, out);
  if (doubted) {
    accuse(*table_.find(record.id), teller.prefix(), wire::DeathReason::none, from, now, out);
  }
}

void Verdicts::hear(const wire::Claim& claim, const MemberRecord& record, base::LinkId from,
                    base::Time now, DetectorOutbox& out) {
  accuse(record, claim.by, claim.reason, from, now, out);
  // A peer that trusts itself less need not wait for itself.
  if (claim.state != MemberState::dead) return;
  table_.judge(record.id, [&](Judgement& judgement) {
    if (judgement.suspicion->shorten_for_verdict(watch_.heartbeat(), now)) {
      rumours_.add(claim, from);
    }
  });
}

bool Verdicts::apply(const MemberRecord& record) {
  if (!table_.apply(record)) return false;
  progress_.set_state(record.id.prefix(), record.state);
  return true;
}

// Keeps the newest record of a return that is not to be believed yet, and says so.
bool Verdicts::holds_back(const MemberRecord& record, base::Time now) {
  if (!table_.judgement(record.id).flaps.holds_back(record, now)) return false;
  table_.judge(record.id, [&](Judgement& judgement) {
    const bool newer = !judgement.returned || record.incarnation > judgement.returned->incarnation;
    if (newer) judgement.returned = record;
  });
  return true;
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
  bool is_new = false;
  table_.judge(record.id, [&](Judgement& judgement) {
    if (!judgement.suspicion) judgement.suspicion.emplace(now, judgement.flaps.immune_until());
    is_new = judgement.suspicion->accuse(by, reason, partners, watch_.unit(), now);
  });
  if (!is_new) return;
  rumours_.add(claim_of(record, by, MemberState::suspect, reason), from);
  if (record.state == MemberState::suspect) return;
  table_.mark_suspect(record.id);
  progress_.set_state(record.id.prefix(), MemberState::suspect);
  out.push_back(told_of(record, MemberState::suspect, reason));
}

void Verdicts::changed(const MemberRecord& record, bool was_alive, base::LinkId from,
                       base::Time now, DetectorOutbox& out) {
  rumours_.add(record.id, from);
  const bool alive = counts_as_alive(record.state);
  const bool left = record.state == MemberState::left;
  table_.judge(record.id, [&](Judgement& judgement) {
    const bool accused =
        judgement.suspicion && judgement.suspicion->accused_by(table_.self_id().prefix());
    if (accused && record.state == MemberState::alive) watch_.doubt();  // it was so all the time
    judgement.suspicion.reset();
    if (left) judgement.lost = wire::DeathReason::left;
    if (alive && !SIM_BUG(death_reasons_kept)) judgement.lost = wire::DeathReason::none;
    if (alive && was_alive) return;
    if (alive) judgement.flaps.returned(record, now);
    const bool waits = judgement.returned && version_of(*judgement.returned) > version_of(record);
    if (alive || !waits) judgement.returned.reset();
  });
  if (!alive) {
    out.push_back(MemberGone{record.id, left});
  } else if (!was_alive) {
    out.push_back(MemberBack{record.id});
  }
}

// Claims go out once, over the links that there were then. After a cut a new link may be the first
// to the other side.
wire::Gossip Verdicts::open_for(const base::PeerId& peer) const {
  wire::Gossip gossip;
  const std::set<base::PeerId>& waiting = table_.waiting();
  auto at = waiting.lower_bound(peer);
  for (std::size_t i = 0; i < waiting.size(); ++i, ++at) {
    if (at == waiting.end()) at = waiting.begin();
    const Member& member = table_.members().at(*at);
    const auto& suspicion = member.judgement.suspicion;
    if (!suspicion || gossip.claims.size() == wire::kClaimsPerGossip) continue;
    gossip.claims.push_back(claim_of(member.record, suspicion->first_accuser(),
                                     MemberState::suspect, suspicion->reason()));
  }
  return gossip;
}

std::vector<base::PeerId> Verdicts::due(base::Time now) const {
  std::vector<base::PeerId> due;
  for (const base::PeerId& id : table_.waiting()) {
    if (*table_.judgement(id).due() <= now) due.push_back(id);
  }
  return due;
}

void Verdicts::expire(base::Time now, DetectorOutbox& out) {
  for (const base::PeerId& id : due(now)) {
    if (table_.judgement(id).suspicion && !SIM_BUG(suspicion_for_ever)) condemn(id, now, out);
  }
  for (const base::PeerId& id : due(now)) {
    if (!table_.judgement(id).returned) continue;
    const MemberRecord record = *table_.judgement(id).returned;
    table_.judge(id, [](Judgement& judgement) { judgement.returned.reset(); });
    if (apply(record)) changed(record, false, base::LinkId{}, now, out);
  }
}

void Verdicts::condemn(const base::PeerId& id, base::Time now, DetectorOutbox& out) {
  const wire::DeathReason reason = table_.judgement(id).suspicion->reason();
  MemberRecord record = *table_.find(id);
  record.state = MemberState::dead;
  if (SIM_BUG(refute_others)) ++record.incarnation;
  const bool applied = apply(record);
  table_.judge(id, [&](Judgement& judgement) {
    judgement.suspicion.reset();
    if (applied) judgement.lost = reason;
  });
  if (!applied) return;
  rumours_.add(claim_of(record, table_.self_id().prefix(), MemberState::dead, reason),
               base::LinkId{});
  note_death(record, now);
  out.push_back(MemberGone{id, false});
  out.push_back(told_of(record, MemberState::dead, reason));
}

// Where a large part dies at once the line between is cut: none of those deaths counts.
void Verdicts::note_death(const MemberRecord& record, base::Time now) {
  const std::size_t alive = table_.alive_count();
  table_.judge(record.id, [&](Judgement& judgement) {
    judgement.flaps.died(record, alive >= kLargeSwarm, now);
  });
  std::vector<base::PeerId> recent;
  for (const auto& [id, member] : table_.members()) {
    if (member.judgement.flaps.has_died_within(kCutMemory, now)) recent.push_back(id);
  }
  if (2 * recent.size() < alive) return;
  for (const base::PeerId& id : recent) {
    table_.judge(id, [](Judgement& judgement) { judgement.flaps.discount(); });
  }
}

std::optional<base::Time> Verdicts::next_due() const {
  base::Earliest next;
  for (const base::PeerId& id : table_.waiting()) next.add(table_.judgement(id).due());
  return next.value();
}

void Verdicts::extend(base::Duration pause) {
  for (const base::PeerId& id : table_.waiting()) {
    table_.judge(id, [&](Judgement& judgement) {
      if (judgement.suspicion) judgement.suspicion->extend(pause);
    });
  }
}

void Verdicts::add_timers(base::Time now, base::Bounds& out) const {
  for (const base::PeerId& id : table_.waiting()) {
    const Judgement& judgement = table_.judgement(id);
    out.add_timer("a verdict or a return", *judgement.due(), now,
                  judgement.suspicion ? suspicion_max(watch_.heartbeat()) : kHoldMax);
  }
}

}  // namespace starling::membership
