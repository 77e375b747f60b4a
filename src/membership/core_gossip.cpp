// Core: records and rumours, heartbeats, suspicion.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/core.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

using base::Severity;
using wire::Claim;
using wire::MemberRecord;
using wire::MemberState;

namespace {

Claim claim_of(const MemberRecord& record, std::uint64_t by, MemberState state,
               wire::DeathReason reason) {
  return {.subject = record.id.prefix(),
          .by = by,
          .incarnation = record.incarnation,
          .state = state,
          .reason = reason};
}

}  // namespace

// Takes a record that came over a link. False where its signature is not its owner's: whoever
// passes that on does not check what it is told, or lies, and its link is gone.
bool Core::admit(const MemberRecord& record, base::LinkId from, base::Time now, Outbox& out) {
  if (record.incarnation >= kCounterMax) return true;
  MemberRecord believed = record;
  if (believed.state == MemberState::suspect) believed.state = MemberState::alive;
  const MemberRecord* known = table_.find(record.id);
  // Nothing is verified twice: what is not newer is not needed, and what has the signature that
  // was verified before is not different.
  if (known != nullptr && version_of(believed) <= version_of(*known)) return true;
  const bool verified = known != nullptr && known->signature == record.signature &&
                        signed_bytes(*known) == signed_bytes(believed);
  if (!verified && !is_genuine(believed, signer_)) {
    const base::PeerId peer = links_.at(from).peer;
    out.push_back(
        base::accusation(fmt::format("{} passed on a record of {} that its owner did not sign",
                                     peer.brief(), record.id.brief())));
    ban(peer, now);
    close(from, wire::ByeReason::misbehaved, LossReason::banned, now, out);
    return false;
  }
  if (record.id == table_.self_id()) {
    on_own_record(record, now, out);
    return true;
  }
  const bool was_alive = known != nullptr && counts_as_alive(known->state);
  // That a member is dead is believed only after a suspicion of one's own, which gives it the
  // time to refute: two halves that meet again hold each other for dead, and else all would move
  // their shards twice within a round trip.
  const bool doubted = was_alive && believed.state == MemberState::dead;
  if (doubted) believed.state = MemberState::alive;
  const bool returns =
      known != nullptr && known->state == MemberState::dead && counts_as_alive(believed.state);
  if (returns && damper_.hold_back(believed, now)) return true;
  if (table_.apply(believed)) changed(believed, was_alive, from, now);
  const auto link = links_.find(from);
  if (doubted && link != links_.end()) {
    accuse(*table_.find(record.id), link->second.peer.prefix(), wire::DeathReason::none, from, now,
           out);
  }
  return true;
}

void Core::on_message(base::LinkId id, const wire::Gossip& gossip, base::Time now, Outbox& out) {
  for (const MemberRecord& record : gossip.members) {
    if (!admit(record, id, now, out)) return;
  }
  const std::uint64_t own = table_.self_id().prefix();
  const std::uint64_t incarnation = table_.self().incarnation;
  for (const Claim& claim : gossip.claims) {
    // An answer is signed and told to all: a frame gets one, however many it foresees.
    if (claim.subject == own && table_.self().incarnation != incarnation) continue;
    on_claim(claim, id, now, out);
  }
}

void Core::on_claim(const Claim& claim, base::LinkId from, base::Time now, Outbox& out) {
  const MemberRecord* record = table_.find(claim.subject);
  if (record == nullptr || !counts_as_alive(record->state)) return;
  const bool own = record->id == table_.self_id();
  const bool of_other_process = own && conflict_.is_open(claim.incarnation);
  // Of another incarnation than the one known here: it is refuted already, or comes too early.
  if (record->incarnation != claim.incarnation && !of_other_process) return;
  if (own) {
    health_.worse();
    return refute(claim.incarnation, wire::to_string(claim.state), now, out);
  }
  accuse(*record, claim.by, claim.reason, from, now, out);
  // Whoever trusts itself less need not wait for itself.
  if (claim.state == MemberState::dead &&
      suspicions_.shorten_for_verdict(record->id, config_.heartbeat, now)) {
    queued_claims_.push_back({claim, from});
  }
}

bool Core::announce(MemberRecord own) {
  sign(own, signer_);
  if (!table_.apply(own)) return false;
  queued_records_.insert_or_assign(own.id, base::LinkId{});
  return true;
}

// Only its owner raises an incarnation, so whatever else others hold of this peer is overruled.
bool Core::raise_above(std::uint64_t incarnation, base::Time now) {
  if (left_) return false;
  if (conflict_.open() != 0 && incarnation >= conflict_.open()) {
    conflict_.overruled(rng_.uniform(), now);
  }
  if (SIM_BUG(refute_never)) return false;
  MemberRecord raised = table_.self();
  raised.incarnation = std::min(incarnation + (SIM_RARE(refute_twice) ? 2 : 1), kCounterMax - 1);
  return announce(std::move(raised));
}

void Core::refute(std::uint64_t incarnation, const char* taken_for, base::Time now, Outbox& out) {
  if (!raise_above(incarnation, now)) return;
  notice(out, Severity::info, fmt::format("refuted: this peer was taken for {}", taken_for));
}

// What others concluded of this peer is refuted at once. That it is alive says a former life of it,
// or another process that has its key and will answer (KeyConflict).
void Core::on_own_record(const MemberRecord& record, base::Time now, Outbox& out) {
  if (left_) return;
  if (record.state != MemberState::alive) {
    return refute(record.incarnation, wire::to_string(record.state), now, out);
  }
  if (conflict_.note_other(record.incarnation, now)) {
    const auto& at = record.addresses;
    notice(out, Severity::warning,
           fmt::format("another process has this peer's key (key.pem in its folder) and is at {}: "
                       "stop one of the two, or start one in a folder of its own",
                       at.empty() ? "an address it does not tell" : at.front()));
  }
  overrule_if_due(now, out);
}

void Core::overrule_if_due(base::Time now, Outbox& out) {
  const auto due = conflict_.due();
  if (!due || *due > now || !raise_above(conflict_.open(), now)) return;
  notice(out, Severity::info, "overruled a newer record of this peer that it did not make");
}

void Core::changed(const MemberRecord& record, bool was_alive, base::LinkId from, base::Time now) {
  queued_records_.insert_or_assign(record.id, from);
  if (suspicions_.accused_by(record.id, table_.self_id().prefix()) &&
      record.state == MemberState::alive) {
    health_.worse();  // it was alive all the time
  }
  suspicions_.drop(record.id);
  progress_.set_state(record.id.prefix(), record.state);
  if (counts_as_alive(record.state)) {
    if (!SIM_BUG(death_reasons_kept)) death_reasons_.erase(record.id);
    if (was_alive) return;
    damper_.returned(record, now);
    dialer_.hurry(record.id, now);
    return;
  }
  damper_.gone(record);
  if (record.state == MemberState::left) {
    death_reasons_[record.id] = wire::DeathReason::left;
    dialer_.forget_found(record.id, now);
  }
  reconnect_first_.erase(record.id);
  dialer_.postpone(record.id, kRevivalMin, now);
}

void Core::accuse(const base::PeerId& peer, wire::DeathReason reason, base::Time now, Outbox& out) {
  const MemberRecord* known = table_.find(peer);
  if (known == nullptr || !counts_as_alive(known->state)) return;
  accuse(*known, table_.self_id().prefix(), reason, base::LinkId{}, now, out);
}

void Core::accuse(const MemberRecord& record, std::uint64_t by, wire::DeathReason reason,
                  base::LinkId from, base::Time now, Outbox& out) {
  ASSERT(counts_as_alive(record.state));
  const wire::Progress* progress = progress_.find(record.id.prefix());
  const std::size_t partners = progress == nullptr || progress->links == 0
                                   ? config_.degree
                                   : std::min(progress->links, config_.degree);
  if (!suspicions_.accuse(record.id, by, reason, partners, timeout_unit(), now,
                          damper_.immune_until(record.id))) {
    return;
  }
  queue_claim(record, by, MemberState::suspect, reason, from);
  if (record.state == MemberState::suspect) return;
  table_.mark_suspect(record.id);
  progress_.set_state(record.id.prefix(), MemberState::suspect);
  notice(out, Severity::info,
         fmt::format("{} ({}) is suspect: {}", record.name, record.id.brief(),
                     wire::to_string(reason)));
}

void Core::queue_claim(const MemberRecord& record, std::uint64_t by, MemberState state,
                       wire::DeathReason reason, base::LinkId from) {
  queued_claims_.push_back({claim_of(record, by, state, reason), from});
}

// Whom this peer suspects may never have heard of it: claims go out once, over the links that there
// were then. After a cut a new link may be the first to the other side.
void Core::tell_suspicions(base::LinkId link, Outbox& out) {
  wire::Gossip gossip;
  for (const Suspicions::Accusation& open :
       suspicions_.open_from(links_.at(link).peer, wire::kClaimsPerGossip)) {
    const MemberRecord* record = table_.find(open.peer);
    if (record == nullptr) continue;
    gossip.claims.push_back(claim_of(*record, open.by, MemberState::suspect, open.reason));
  }
  if (!gossip.claims.empty()) send(link, std::move(gossip), out);
}

void Core::end_suspicions(base::Time now, Outbox& out) {
  if (SIM_BUG(suspicion_for_ever)) return;
  for (const Suspicions::Verdict& verdict : suspicions_.take_ended(now)) {
    const MemberRecord* known = table_.find(verdict.peer);
    if (known == nullptr || !counts_as_alive(known->state)) continue;
    MemberRecord record = *known;
    record.state = MemberState::dead;
    if (SIM_BUG(refute_others)) ++record.incarnation;
    if (!table_.apply(record)) continue;
    progress_.set_state(record.id.prefix(), MemberState::dead);
    queue_claim(record, table_.self_id().prefix(), MemberState::dead, verdict.reason,
                base::LinkId{});
    death_reasons_[record.id] = verdict.reason;
    damper_.died(record, table_.alive_count(), now);
    reconnect_first_.erase(record.id);
    dialer_.postpone(record.id, kRevivalMin, now);
    notice(out, Severity::info,
           fmt::format("{} ({}) is dead: {}", record.name, record.id.brief(),
                       wire::to_string(verdict.reason)));
  }
}

void Core::send_rumours(Outbox& out) {
  if (queued_records_.empty() && queued_claims_.empty()) return;
  for (const auto& [id, link] : links_) {
    if (!speaks(link)) continue;
    std::vector<MemberRecord> records;
    for (const auto& [peer, from] : queued_records_) {
      const MemberRecord* record = table_.find(peer);
      if (from != id && record != nullptr) records.push_back(*record);
    }
    std::vector<wire::Gossip> messages = to_gossip(std::move(records));
    for (const QueuedClaim& queued : queued_claims_) {
      if (queued.from == id) continue;
      if (messages.empty() || messages.back().claims.size() >= wire::kClaimsPerGossip) {
        messages.emplace_back();
      }
      messages.back().claims.push_back(queued.claim);
    }
    for (wire::Gossip& gossip : messages) send(id, std::move(gossip), out);
  }
  queued_records_.clear();
  if (!SIM_BUG(claims_kept)) queued_claims_.clear();
}

void Core::on_message(base::LinkId id, const wire::Heartbeat& beat, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  const bool in_time = link.detector.heartbeat(now);
  link.beat_heard = beat.sequence;
  link.beat_heard_at = now;
  if (in_time && beat.echo > 0 && beat.echo <= link.beats && beat.echo + kBeatsKept > link.beats) {
    const base::Duration age = std::chrono::microseconds(beat.echo_age_us);
    const base::Duration trip = now - link.beat_sent[beat.echo % kBeatsKept] - age;
    if (trip >= base::Duration{0}) {
      link.round_trip = link.round_trip ? *link.round_trip + (trip - *link.round_trip) / 8 : trip;
    }
  }
  if (progress_.merge(beat.progress, link.peer.prefix(), now)) hurry_beats(now);
  if (progress_.has_overflowed() && !std::exchange(told_overflow_, true)) {
    notice(
        out, base::Severity::warning,
        fmt::format("this run has met more than {} peers, those that are gone included: what later "
                    "ones train is counted by themselves alone, so their schedules and the end "
                    "of the run differ; peers that keep their folders keep their places",
                    kProgressMax));
  }

  if (beat.table_hash == table_.hash()) {
    link.mismatches = 0;
    link.table_pause = base::Duration{0};
  } else if (++link.mismatches >= (SIM_RARE(reconcile_early) ? 1 : kMismatchBeats) &&
             now >= link.table_after && !SIM_RARE(reconcile_late)) {
    link.mismatches = 0;
    // Tables at their bound may never agree: ever more rarely.
    link.table_pause = std::clamp(2 * link.table_pause, kTableEveryMin, kTableEveryMax);
    link.table_after = now + link.table_pause;
    reconcile(id, out);
  }
}

// News that cannot wait for the next beat.
void Core::hurry_beats(base::Time now) {
  if (SIM_RARE(no_hurry)) return;
  for (auto& [id, link] : links_) {
    if (link.role != Role::neighbour) continue;
    link.next_beat = std::min(link.next_beat, std::max(now, link.last_beat + kBeatPauseMin));
    if (deadline_) deadline_ = std::min(*deadline_, link.next_beat);
  }
}

void Core::send_heartbeat(base::LinkId id, Link& link, base::Time now, Outbox& out) {
  ++link.beats;
  link.beat_sent[link.beats % kBeatsKept] = now;
  link.last_beat = now;
  link.next_beat =
      now + base::from_seconds(base::seconds(config_.heartbeat) * (0.9 + 0.2 * rng_.uniform()));
  if (SIM_RARE(beat_late)) link.next_beat += config_.heartbeat;
  if (SIM_RARE(beat_early)) link.next_beat = now + config_.heartbeat / 4;
  if (SIM_RARE(health_worse)) health_.worse();
  wire::Heartbeat message{.sequence = link.beats,
                          .echo = link.beat_heard,
                          .echo_age_us = 0,
                          .table_hash = table_.hash(),
                          .progress = progress_.entries_for_heartbeat(link.peer.prefix(), now)};
  if (link.beat_heard > 0) {
    const auto age =
        std::chrono::duration_cast<std::chrono::microseconds>(now - link.beat_heard_at).count();
    message.echo_age_us = static_cast<std::uint32_t>(std::min<std::int64_t>(age, 0xffffffff));
  }
  send(id, std::move(message), out);
  if (now >= health_at_) {
    health_.better();
    health_at_ = now + config_.heartbeat;
  }
}

// A link's timers. Silence makes a neighbour suspect; when it lasts as long as a suspicion more,
// the link is closed, even if the member refuted by another way: this link is of no use.
void Core::check_link_timers(base::LinkId id, base::Time now, Outbox& out) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.role != Role::neighbour) {
    if (now < link.role_ends) return;
    if (link.held) {
      link.role = Role::contact;
      link.role_ends = now + kContactLifeMax;
      return;
    }
    dialer_.postpone(link.peer, kRejectedPause, now);
    close(id, wire::ByeReason::none, LossReason::closed, now, out);
    return;
  }
  if (SIM_RARE(neighbour_dropped)) {
    return close(id, wire::ByeReason::none, LossReason::closed, now, out);
  }
  if (SIM_RARE(accuse_healthy)) accuse(link.peer, wire::DeathReason::silent, now, out);
  const base::Time suspect_at = this->suspect_at(link);
  if (now >= suspect_at + kSuspicionBeatsMax * timeout_unit()) {
    accuse(link.peer, wire::DeathReason::silent, now, out);
    reconnect_first_.add(link.peer, now + kReconnectFirst);
    close(id, wire::ByeReason::silent, LossReason::silent, now, out);
    return;
  }
  if (now >= suspect_at) accuse(link.peer, wire::DeathReason::silent, now, out);
  if (now >= link.next_beat) send_heartbeat(id, link, now, out);
}

// When a neighbour has been silent for so long that it is suspect.
base::Time Core::suspect_at(const Link& link) const {
  const int overload = health_.factor() - 1 + (SIM_BUG(silence_unnoticed) ? 1'000'000 : 0);
  return link.detector.deadline() + overload * config_.heartbeat;
}

// The unit of this peer's timeouts.
base::Duration Core::timeout_unit() const { return health_.factor() * config_.heartbeat; }

}  // namespace starling::membership
