// Core: records and rumours, heartbeats, suspicion.
#include <algorithm>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "membership/core.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

using wire::MemberRecord;
using wire::MemberState;

void Core::apply(const MemberRecord& record, base::LinkId from, base::Time now, Outbox& out) {
  if (record.incarnation >= kCounterMax) return;
  if (record.id == table_.self().id) {
    refute(record, out);
    return;
  }
  MemberRecord believed = record;
  const MemberRecord* known = table_.find(record.id);
  const bool was_alive = known != nullptr && counts_as_alive(known->state);
  // That a member is dead is believed only after a suspicion of one's own, which gives it the
  // time to refute: two halves that meet again hold each other for dead, and else all would move
  // their shards twice within a round trip.
  if (was_alive && record.state == MemberState::dead) believed.state = MemberState::suspect;
  if (table_.apply(believed)) changed(believed, was_alive, from, now);
}

// Only its owner raises an incarnation, so whatever else others hold of this peer is overruled.
void Core::refute(const MemberRecord& record, Outbox& out) {
  const MemberRecord& self = table_.self();
  if (!table_.is_newer(record) && record.incarnation != self.incarnation) return;
  if (record == self) return;
  MemberRecord raised = self;
  raised.incarnation = std::min(record.incarnation + 1, kCounterMax - 1);
  if (!table_.apply(raised)) return;
  rumours_.insert_or_assign(raised.id, base::LinkId{});
  notice(out, NoticeLevel::info,
         fmt::format("refuted: this peer was taken for {}", wire::to_string(record.state)));
}

void Core::changed(const MemberRecord& record, bool was_alive, base::LinkId from, base::Time now) {
  rumours_.insert_or_assign(record.id, from);
  if (record.state == MemberState::suspect) {
    suspicions_.emplace(record.id, now + suspicion());
    return;
  }
  suspicions_.erase(record.id);
  if (counts_as_alive(record.state)) {
    if (!was_alive) dialer_.hurry(record.id, now);
    return;
  }
  lost_.erase(record.id);
  dialer_.postpone(record.id, kRevivalMin, now);
}

void Core::claim(const base::PeerId& peer, MemberState state, base::Time now, Outbox& out) {
  const MemberRecord* known = table_.find(peer);
  if (known == nullptr) return;
  MemberRecord record = *known;
  record.state = state;
  if (!table_.apply(record)) return;
  changed(record, true, base::LinkId{}, now);
  notice(out, NoticeLevel::info,
         fmt::format("{} ({}) is {}", record.name, peer.brief(), wire::to_string(state)));
}

void Core::send_table(base::LinkId id, Outbox& out) const {
  for (wire::Gossip& gossip : to_gossip(members())) send(id, std::move(gossip), out);
}

void Core::send_rumours(Outbox& out) {
  if (rumours_.empty()) return;
  for (const auto& [id, link] : links_) {
    std::vector<MemberRecord> records;
    for (const auto& [peer, from] : rumours_) {
      const MemberRecord* record = table_.find(peer);
      if (from != id && record != nullptr) records.push_back(*record);
    }
    for (wire::Gossip& gossip : to_gossip(std::move(records))) {
      send(id, std::move(gossip), out);
    }
  }
  rumours_.clear();
}

void Core::on_heartbeat(base::LinkId id, const wire::Heartbeat& beat, base::Time now, Outbox& out) {
  Link& link = links_.at(id);
  link.detector.heartbeat(now);
  link.beat_heard = beat.sequence;
  link.beat_heard_at = now;
  if (beat.echo > 0 && beat.echo <= link.beats && beat.echo + kBeatsKept > link.beats) {
    const base::Duration age = std::chrono::microseconds(beat.echo_age_us);
    const base::Duration trip = now - link.beat_sent[beat.echo % kBeatsKept] - age;
    if (trip >= base::Duration{0}) {
      link.round_trip = link.round_trip ? *link.round_trip + (trip - *link.round_trip) / 8 : trip;
    }
  }
  progress_.merge(beat.progress, link.peer.prefix(), now);

  if (beat.table_hash == table_.hash()) {
    link.mismatches = 0;
    link.table_pause = base::Duration{0};
  } else if (++link.mismatches >= kMismatchBeats && now >= link.table_after) {
    link.mismatches = 0;
    // Tables at their bound may never agree: ever more rarely.
    link.table_pause = std::clamp(2 * link.table_pause, kTableEveryMin, kTableEveryMax);
    link.table_after = now + link.table_pause;
    send_table(id, out);
  }
}

void Core::beat(base::LinkId id, Link& link, base::Time now, Outbox& out) {
  ++link.beats;
  link.beat_sent[link.beats % kBeatsKept] = now;
  link.next_beat =
      now + base::from_seconds(base::seconds(config_.heartbeat) * (0.9 + 0.2 * rng_.uniform()));
  wire::Heartbeat message{.sequence = link.beats,
                          .echo = link.beat_heard,
                          .echo_age_us = 0,
                          .table_hash = table_.hash(),
                          .progress = progress_.entries_for_heartbeat(link.peer.prefix())};
  if (link.beat_heard > 0) {
    const auto age =
        std::chrono::duration_cast<std::chrono::microseconds>(now - link.beat_heard_at).count();
    message.echo_age_us = static_cast<std::uint32_t>(std::min<std::int64_t>(age, 0xffffffff));
  }
  send(id, std::move(message), out);
}

// A link's timers. Silence makes a neighbour suspect; when it lasts for a suspicion more, the link
// is closed, even if the member refuted by another way: this link is of no use.
void Core::watch(base::LinkId id, base::Time now, Outbox& out) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.role != Role::neighbour) {
    if (now < link.role_ends) return;
    dialer_.postpone(link.peer, kRejectedPause, now);
    close(id, wire::ByeReason::none, LossReason::closed, now, out);
    return;
  }
  const base::Time suspect_at = link.detector.deadline();
  if (now >= suspect_at + suspicion()) {
    claim(link.peer, MemberState::suspect, now, out);
    lost_.insert(link.peer);
    close(id, wire::ByeReason::silent, LossReason::silent, now, out);
    return;
  }
  if (now >= suspect_at) claim(link.peer, MemberState::suspect, now, out);
  if (now >= link.next_beat) beat(id, link, now, out);
}

void Core::end_suspicions(base::Time now, Outbox& out) {
  std::vector<base::PeerId> ended;
  for (const auto& [peer, ends] : suspicions_) {
    if (ends <= now) ended.push_back(peer);
  }
  for (const base::PeerId& peer : ended) claim(peer, MemberState::dead, now, out);
}

base::Duration Core::suspicion() const { return kSuspicionBeats * config_.heartbeat; }

}  // namespace starling::membership
