#include "membership/detector/detector.hpp"

#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

using wire::MemberRecord;
using wire::MemberState;

namespace {

MemberRecord signed_by(Signer& signer, MemberRecord record) {
  sign(record, signer);
  return record;
}

}  // namespace

const std::array<Detector::Timer, 3> Detector::kTimers{{
    {[](const Detector& detector) { return detector.watch_.next_beat(); },
     [](Detector& detector, base::Time now, DetectorOutbox& out) {
       detector.check_neighbours(now, out);
     }},
    {[](const Detector& detector) { return detector.verdicts_.next_due(); },
     [](Detector& detector, base::Time now, DetectorOutbox& out) {
       detector.verdicts_.expire(now, out);
     }},
    {[](const Detector& detector) { return detector.own_.next_due(); },
     [](Detector& detector, base::Time now, DetectorOutbox& out) {
       detector.own_.overrule_if_due(now, out);
     }},
}};

Detector::Detector(const Config& config, MemberRecord self, Signer& signer, base::Rng& rng)
    : signer_(signer),
      rng_(rng),
      table_(signed_by(signer, std::move(self))),
      progress_(table_.self_id().prefix(), config.heartbeat, signer),
      watch_(config.heartbeat),
      reconciler_(table_),
      own_(table_, signer, rumours_, rng),
      verdicts_(config.degree, table_, progress_, rumours_, watch_) {
  ASSERT(table_.self().state == MemberState::alive, "a peer starts alive");
  ASSERT(config.heartbeat > base::Duration{0});
}

void Detector::handle(const DetectorEvent& event, base::Time now, DetectorOutbox& out) {
  std::visit([&](const auto& value) { on(value, now, out); }, event);
}

void Detector::tell(DetectorOutbox& out) {
  rumours_.tell(table_, watch_, out);
  if (std::exchange(reported_version_, table_.alive_version()) != table_.alive_version()) {
    out.push_back(MembersChanged{});
  }
  for (const std::uint64_t prefix : progress_.take_new()) {
    // Of whom there is no record (yet), it is the counter of one that is long gone.
    const MemberRecord* record = table_.find(prefix);
    progress_.set_state(prefix, record == nullptr ? MemberState::dead : record->state);
  }
}

void Detector::expire(base::Time now, DetectorOutbox& out) {
  if (left_) return;
  for (const Timer& timer : kTimers) timer.run(*this, now, out);
}

std::optional<base::Time> Detector::next_deadline() const {
  base::Earliest next;
  for (const Timer& timer : kTimers) next.add(timer.due(*this));
  return next.value();
}

void Detector::on(const LinkMet& event, base::Time now, DetectorOutbox& out) {
  const base::PeerId peer = event.other.id;
  watch_.add(event.link, peer, now);
  if (!admit(event.other, event.link, now, out)) return;
  wire::Gossip suspicions = verdicts_.open_for(peer);
  if (!suspicions.claims.empty()) out.push_back(Send{event.link, std::move(suspicions)});
  out.push_back(Admitted{event.link});
}

void Detector::on(const RoleSet& event, base::Time now, DetectorOutbox& out) {
  Watched* link = watch_.find(event.link);
  if (link == nullptr) return;
  const Role before = std::exchange(link->role, event.role);
  if (event.role == Role::neighbour) {
    link->clock.restart(now);
    send_beat(event.link, *link, now, out);
    if (event.dialed) reconciler_.begin(event.link, out);  // one end is enough
  } else if (before == Role::neighbour && !SIM_BUG(told_kept)) {
    progress_.forget(link->peer.prefix());
  }
}

void Detector::on(const LinkEnded& event, base::Time, DetectorOutbox&) { watch_.erase(event.link); }

void Detector::on(const Accuse& event, base::Time now, DetectorOutbox& out) {
  verdicts_.accuse(event.peer, event.reason, now, out);
}

void Detector::on(const RanLate& event, base::Time now, DetectorOutbox&) {
  watch_.note_late(event.late, now);
}

// Messages that others sent meanwhile are still unread, so silence is not a sign of anything.
void Detector::on(const StoodStill& event, base::Time now, DetectorOutbox&) {
  watch_.restart(now);
  verdicts_.extend(event.pause);
}

void Detector::on(const Received& event, base::Time now, DetectorOutbox& out) {
  Watched* link = watch_.find(event.link);
  if (link == nullptr) return;
  link->clock.heard(false, now);
  if (const auto* gossip = std::get_if<wire::Gossip>(&event.message)) {
    on_gossip(event.link, *gossip, now, out);
  } else if (const auto* beat = std::get_if<wire::Heartbeat>(&event.message)) {
    on_beat(event.link, *beat, now, out);
  } else if (const auto* tables = std::get_if<wire::Reconcile>(&event.message)) {
    reconciler_.take(event.link, link->comparison, *tables, now, out);
  }
}

void Detector::on(const Heard& event, base::Time now, DetectorOutbox&) {
  if (Watched* link = watch_.find(event.link)) link->clock.heard(event.part, now);
}

void Detector::on(const SpeedMeasured& event, base::Time, DetectorOutbox&) { own_.change(event); }

void Detector::on(const Moved& event, base::Time, DetectorOutbox&) { own_.change(event); }

void Detector::on(const Leave&, base::Time now, DetectorOutbox& out) {
  if (left_) return;
  left_ = true;
  progress_.end_own(now);
  for (auto& [id, link] : watch_) {
    if (link.role == Role::neighbour) send_beat(id, link, now, out);  // the last counter
  }
  own_.leave();
  rumours_.tell(table_, watch_, out);
}

// Takes a record that came over a link. False where its signature is not its owner's: whoever
// passes that on does not check what it is told, or lies, and its link is to end.
bool Detector::admit(const MemberRecord& record, base::LinkId from, base::Time now,
                     DetectorOutbox& out) {
  if (record.incarnation >= kCounterMax) return true;
  MemberRecord believed = record;
  if (believed.state == MemberState::suspect) believed.state = MemberState::alive;
  const MemberRecord* known = table_.find(record.id);
  // Nothing is verified twice: what is not newer is not needed, and what has the signature that
  // was verified before is not different.
  if (known != nullptr && version_of(believed) <= version_of(*known)) return true;
  const bool verified = known != nullptr && known->signature == record.signature &&
                        signed_bytes(*known) == signed_bytes(believed);
  const base::PeerId teller = watch_.find(from)->peer;
  if (!verified && !is_genuine(believed, signer_)) {
    out.push_back(
        base::accusation(fmt::format("{} passed on a record of {} that its owner did not sign",
                                     teller.brief(), record.id.brief())));
    out.push_back(EndLink{from, LossReason::banned});
    return false;
  }
  if (record.id == table_.self_id()) {
    own_.met(record, now, out);
  } else {
    verdicts_.believe(std::move(believed), teller, from, now, out);
  }
  return true;
}

void Detector::on_gossip(base::LinkId id, const wire::Gossip& gossip, base::Time now,
                         DetectorOutbox& out) {
  for (const MemberRecord& record : gossip.members) {
    if (!admit(record, id, now, out)) return;
  }
  const std::uint64_t own = table_.self_id().prefix();
  const std::uint64_t incarnation = table_.self().incarnation;
  for (const wire::Claim& claim : gossip.claims) {
    // An answer is signed and told to all: a frame gets one, however many it foresees.
    if (claim.subject == own && table_.self().incarnation != incarnation) continue;
    on_claim(claim, id, now, out);
  }
}

void Detector::on_claim(const wire::Claim& claim, base::LinkId from, base::Time now,
                        DetectorOutbox& out) {
  const MemberRecord* record = table_.find(claim.subject);
  if (record == nullptr || !counts_as_alive(record->state)) return;
  const bool own = record->id == table_.self_id();
  const bool of_other_process = own && own_.is_contested(claim.incarnation);
  // Of another incarnation than the one known here: it is refuted already, or comes too early.
  if (record->incarnation != claim.incarnation && !of_other_process) return;
  if (own) {
    watch_.doubt();
    own_.refute(claim.incarnation, wire::to_string(claim.state), now, out);
  } else {
    verdicts_.hear(claim, *record, from, now, out);
  }
}

void Detector::on_beat(base::LinkId id, const wire::Heartbeat& beat, base::Time now,
                       DetectorOutbox& out) {
  Watched& link = *watch_.find(id);
  link.clock.take(beat, now);
  const base::PeerId teller = link.peer;
  const Merged merged = progress_.merge(beat.progress, teller.prefix(), now);
  if (merged.forged) {
    out.push_back(
        base::accusation(fmt::format("{} passed on a voucher that nobody signed", teller.brief())));
    out.push_back(EndLink{id, LossReason::banned});
    return;
  }
  if (merged.ended) watch_.hurry(now);
  const bool watches = link.role == Role::neighbour && table_.self().has_replica;
  if (watches && progress_.vouch_for(teller.prefix(), now)) {
    out.push_back(base::LogEntry{
        base::Severity::warning,
        fmt::format("{} counts more samples than it can have trained: they do not count here",
                    teller.brief())});
  }
  if (progress_.has_overflowed() && !std::exchange(told_overflow_, true)) {
    out.push_back(base::LogEntry{
        base::Severity::warning,
        fmt::format("this run has met more than {} peers, those that are gone included: what later "
                    "ones train is counted by themselves alone, so their schedules and the end "
                    "of the run differ; peers that keep their folders keep their places",
                    kProgressMax)});
  }
  reconciler_.note_hash(id, link.comparison, beat.table_hash, now, out);
}

void Detector::send_beat(base::LinkId id, Watched& link, base::Time now, DetectorOutbox& out) {
  const base::Duration heartbeat = watch_.heartbeat();
  base::Duration pause =
      base::from_seconds(base::seconds(heartbeat) * (0.9 + 0.2 * rng_.uniform()));
  if (SIM_RARE(beat_late)) pause += heartbeat;
  if (SIM_RARE(beat_early)) pause = heartbeat / 4;
  if (SIM_RARE(health_worse)) watch_.doubt();
  wire::Heartbeat beat = link.clock.make(pause, now);
  beat.table_hash = table_.hash();
  beat.progress = progress_.entries_for_heartbeat(link.peer.prefix(), now);
  out.push_back(Send{id, std::move(beat)});
  watch_.note_beat(now);
}

// Silence makes a neighbour suspect; when it lasts as long as a suspicion more, the link ends, even
// if the member refuted by another way: this link is of no use.
void Detector::check_neighbours(base::Time now, DetectorOutbox& out) {
  for (auto& [id, link] : watch_) {
    if (link.role != Role::neighbour) continue;
    if (SIM_RARE(neighbour_dropped)) {
      out.push_back(EndLink{id, LossReason::closed});
      continue;
    }
    const auto accuse = [&, peer = link.peer] {
      verdicts_.accuse(peer, wire::DeathReason::silent, now, out);
    };
    if (SIM_RARE(accuse_healthy)) accuse();
    const base::Time suspect_at = watch_.suspect_at(link);
    if (now >= suspect_at) accuse();
    if (now >= suspect_at + kSuspicionBeatsMax * watch_.unit()) {
      out.push_back(EndLink{id, LossReason::silent});
    } else if (now >= link.clock.next_beat()) {
      send_beat(id, link, now, out);
    }
  }
}

bool Detector::set_own_progress(const wire::Progress& own, bool trains, base::Time now) {
  const bool hurries = progress_.set_own(own, trains, now);
  if (hurries) watch_.hurry(now);
  return hurries;
}

void Detector::set_heartbeat(base::Duration heartbeat) {
  watch_.set_heartbeat(heartbeat);
  progress_.set_heartbeat(heartbeat);
}

void Detector::add_bounds(base::Bounds& out) const {
  const std::size_t members = table_.members().size();
  const std::size_t alive = table_.alive_count();
  out.add("members", members, kMembersMax);
  out.add("members held dead", table_.dead().size(), members - alive);
  out.add("reasons of deaths", table_.lost(), members - alive);
  out.add("members whose judgement waits", table_.waiting().size(), members);
  out.add("addresses of living members", table_.places(), alive);
  std::size_t neighbours = 0;
  for (const auto& [id, link] : watch_) neighbours += link.role == Role::neighbour ? 1 : 0;
  progress_.add_bounds(neighbours, out);
  rumours_.add_bounds(out);
}

void Detector::add_timers(base::Time now, base::Bounds& out) const {
  for (const auto& [id, link] : watch_) {
    if (link.role == Role::neighbour) {
      out.add_timer("a heartbeat", link.clock.next_beat(), now,
                    kBeatsApartMax * watch_.heartbeat());
    }
    out.add_timer("the next comparison of tables", link.comparison.next_at, now, kTableEveryMax);
  }
  verdicts_.add_timers(now, out);
  own_.add_timers(now, out);
}

}  // namespace starling::membership
