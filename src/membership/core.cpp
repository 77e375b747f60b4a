#include "membership/core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

using base::Severity;

const char* to_string(LossReason reason) noexcept {
  switch (reason) {
    case LossReason::reset:
      return "reset";
    case LossReason::silent:
      return "silent";
    case LossReason::left:
      return "left";
    case LossReason::done:
      return "done";
    case LossReason::banned:
      return "banned";
    case LossReason::closed:
      return "closed";
    case LossReason::duplicate:
      return "duplicate";
    case LossReason::replaced:
      return "replaced";
    case LossReason::no_room:
      return "no room for it";
    case LossReason::relay:
      return "its relay is gone";
  }
  return "unknown";
}

namespace {

wire::MemberRecord signed_by(Signer& signer, wire::MemberRecord record) {
  sign(record, signer);
  return record;
}

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

Core::Core(Config config, wire::MemberRecord self, Signer& signer, base::Rng rng)
    : config_(std::move(config)),
      rng_(rng),
      signer_(signer),
      table_(signed_by(signer, std::move(self))),
      dialer_(config_.join, rng_.fork()),
      progress_(table_.self_id().prefix(), config_.heartbeat) {
  ASSERT(table_.self().state == wire::MemberState::alive, "a peer starts alive");
  ASSERT(config_.heartbeat > base::Duration{0});
  if (!config_.hub.empty()) config_.degree = table_.self().name == config_.hub ? kDegreeMax : 1;
  config_.degree = std::clamp<std::uint32_t>(config_.degree, 1, kDegreeMax);
}

void Core::handle(const Event& event, base::Time now, Outbox& out) {
  if (const auto* heard = std::get_if<Heard>(&event)) {
    // On the path of every data frame: it moves no deadline forward, so nothing else is done.
    on(*heard, now, out);
    return;
  }
  begin(now, out);
  std::visit([&](const auto& value) { on(value, now, out); }, event);
  finish(now, out);
}

void Core::expire(base::Time now, Outbox& out) {
  begin(now, out);
  banned_.drop_over(now);
  no_room_.drop_over(now);
  had_no_place_.drop_over(now);
  reconnect_first_.drop_over(now);
  if (!left_) {
    std::vector<base::LinkId> ids;
    for (const auto& [id, link] : links_) ids.push_back(id);
    for (const base::LinkId id : ids) check_link_timers(id, now, out);
    end_suspicions(now, out);
    for (const wire::MemberRecord& record : damper_.take_due(now)) {
      if (table_.apply(record)) changed(record, false, base::LinkId{}, now);
    }
    for (const std::string& address : dialer_.overdue(now)) on(DialFailed{address, {}}, now, out);
    overrule_if_due(now, out);
  }
  finish(now, out);
}

// A peer that was stopped finds all its timers late when it goes on, and what others sent
// meanwhile still unread: that it heard nothing is no sign of anything.
void Core::begin(base::Time now, Outbox& out) {
  ASSERT(now >= now_, "time never decreases");
  const base::Time before = std::exchange(now_, now);
  if (!deadline_) return;
  // Once, however many events have waited meanwhile: they come before the timers.
  const base::Duration late = now - std::max(*deadline_, late_until_);
  if (late < kLateMin) return;
  late_until_ = now;
  const auto beats = std::min<std::int64_t>(late / config_.heartbeat, kHealthMax);
  for (std::int64_t i = 0; i <= beats; ++i) health_.worse();
  health_at_ = now + config_.heartbeat;
  const base::Duration pause = now - std::max(*deadline_, before);
  if (pause < kPauseMin) return;
  for (auto& [id, link] : links_) {
    link.detector.restart(now);
    link.role_ends += pause;
  }
  suspicions_.extend(pause);
  dialer_.extend(pause);
  deadline_ = now;
  notice(out, Severity::warning,
         fmt::format("this peer stood still for {:.1f} s", base::seconds(pause)));
}

void Core::finish(base::Time now, Outbox& out) {
  if (!left_) seek(now, out);
  send_rumours(out);
  forget_gone();
  if (reported_version_ != table_.alive_version()) {
    reported_version_ = table_.alive_version();
    out.push_back(MembersChanged{});
  }
  for (const std::uint64_t prefix : progress_.take_new()) {
    // Of whom there is no record (yet), it is the counter of one that is long gone.
    const auto* record = table_.find(prefix);
    progress_.set_state(prefix, record == nullptr ? wire::MemberState::dead : record->state);
  }
  deadline_ = std::nullopt;
  if (left_) return;
  base::Earliest next;
  for (const auto& [id, link] : links_) {
    // Silence is looked at with the heartbeat, too.
    next.add(link.role == Role::neighbour ? link.next_beat : link.role_ends);
  }
  next.add(suspicions_.next_end());
  next.add(damper_.next_due());
  next.add(conflict_.due());
  deadline_ = next_seek(now, next.value().value_or(base::Time::max()));
}

std::optional<base::Time> Core::next_deadline() const {
  if (!deadline_ && now_ == base::Time{} && !left_) return now_;  // the first expire() starts it
  return deadline_;
}

void Core::on(const LinkReady& event, base::Time now, Outbox& out) {
  ASSERT(event.link.valid() && !links_.contains(event.link), "a link becomes ready once");
  const wire::MemberRecord* known = table_.find(event.other.id);
  const bool was_there = known != nullptr && is_there(*known);
  if (event.other.id == table_.self_id()) {
    if (event.dialed) static_cast<void>(dialer_.failed(event.address, true, false, now));
    out.push_back(Close{event.link, wire::ByeReason::duplicate});
    return;
  }
  if (event.dialed) note_dial_answer(event, now, out);
  if (refuse_link(event, now, out)) return;
  const Link link{.peer = event.other.id,
                  .dialed = event.dialed,
                  .address = event.address,
                  .ready = now,
                  .role_ends = now + (SIM_RARE(short_contact) ? kContactLife / 40
                                      : event.dialed          ? kContactLife
                                                              : kContactLifeMax),
                  .detector = FailureDetector(config_.heartbeat, now),
                  .relayed = event.relayed,
                  .to_relay = !event.other.has_replica};
  const bool moves = !event.relayed && is_relayed_neighbour(event.other.id);
  if (resolve_duplicates(event.link, link, now, out)) {
    out.push_back(Close{event.link, wire::ByeReason::duplicate});
    return;
  }
  links_.emplace(event.link, link);
  if (!admit(event.other, event.link, now, out)) return;
  tell_suspicions(event.link, out);
  if (event.dialed) request_if_useful(event, was_there, moves, now, out);
}

void Core::note_dial_answer(const LinkReady& event, base::Time now, Outbox& out) {
  // Who answers in another's place shows that the other is gone from there. It may be at another of
  // its addresses: one may be that of several machines, such as that of a bridge for containers.
  // Of whom something was heard just now, that is to be asked again.
  const auto target = dialer_.target(event.address);
  const bool heard = target && !lacks_evidence(*target, now);
  dialer_.answered(event.address, event.other.id, now, heard ? kEvidence : kTakenMemory);
  if (!target || *target == event.other.id) return;
  const wire::MemberRecord* record = table_.find(*target);
  if (record != nullptr && dialer_.may_be_elsewhere(*record, now)) return;
  if (!is_linked(*target) && lacks_evidence(*target, now)) {
    accuse(*target, wire::DeathReason::refused, now, out);
  }
}

// Closes a link that this peer does not take; false: it takes it.
bool Core::refuse_link(const LinkReady& event, base::Time now, Outbox& out) {
  const base::PeerId peer = event.other.id;
  if (const auto ban = banned_.left(peer, now)) {
    // Also where it lives at a configured address, which nothing else keeps from being dialed.
    dialer_.block_for(peer, *ban, now);
    out.push_back(Close{event.link, wire::ByeReason::misbehaved});
    return true;
  }
  // A crowd of joiners that all know this peer: those it has no time for start with others.
  const bool turned_away =
      !event.dialed && table_.find(peer) == nullptr && !take_stranger_token(now);
  if (!left_ && !turned_away && links_.size() < ready_links_max()) return false;
  if (!left_) refer(event.link, peer, out);
  out.push_back(Close{event.link, left_ ? wire::ByeReason::left : wire::ByeReason::none});
  return true;
}

// A dead member that answers is the way to the other half of a swarm that was cut, and one that
// nobody here knew may be: that link is worth one neighbour more on either side.
// So may one that is held alive while its counter alone stands still: an overlay can fall in two
// parts in which nobody misses a neighbour.
void Core::request_if_useful(const LinkReady& event, bool was_there, bool moves, base::Time now,
                             Outbox& out) {
  const base::PeerId peer = event.other.id;
  if (!fits_overlay(event.other) || no_room_.contains(peer)) return;
  if (!event.other.has_replica) {
    if (moves || wants_relays()) request(event.link, false, now, out);
    return;
  }
  if (moves || wanted_neighbours() > 0 || !was_there || seems_apart(peer, now)) {
    request(event.link, !was_there && count(Role::neighbour) > 0, now, out);
  }
}

bool Core::take_stranger_token(base::Time now) {
  const double earned = base::seconds(now - strangers_at_) * kStrangersPerSecond;
  strangers_left_ = std::min(strangers_left_ + earned, kStrangersPerSecond);
  strangers_at_ = now;
  if (strangers_left_ < 1) return false;
  strangers_left_ -= 1;
  return true;
}

void Core::on(const LinkLost& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  const base::PeerId peer = found->second.peer;
  const bool neighbour = found->second.role == Role::neighbour;
  if (neighbour) end_neighbour(event.link, event.reason, now, out);
  links_.erase(event.link);
  if (event.reason == LossReason::banned) ban(peer, now);
  if (event.reason == LossReason::no_room) {
    no_room_.add(peer, now + kNoRoomTime);
    dialer_.block_for(peer, kNoRoomTime, now);
  }
  const bool broke = event.reason == LossReason::reset || event.reason == LossReason::relay;
  if (neighbour && broke && !SIM_RARE(reset_unnoticed)) {
    reconnect_first_.add(peer, now + kReconnectFirst);
    if (!SIM_RARE(wait_before_redial)) dialer_.hurry(peer, now);
    // Both ends want it back: one of them waits a little, so that they do not meet half-way.
    if (table_.self_id() > peer) dialer_.postpone(peer, 3 * kBackoffMin, now);
    // Where the relay went, the other end may be as well as before.
    if (event.reason == LossReason::reset) {
      accuse(peer, wire::DeathReason::reset, now, out);
    }
  } else {
    dialer_.postpone(peer, kRejectedPause, now);
  }
}

// Of a crowd that hears a newcomer only some dial it; it is heard again. Two swarms on one network
// become one in the same way.
void Core::on(const Found& event, base::Time now, Outbox& out) {
  const wire::MemberRecord* known = table_.find(event.peer);
  if (left_ || (known != nullptr && counts_as_alive(known->state))) return;
  if (rng_.uniform() * static_cast<double>(table_.alive_count()) >= kFoundDials) return;
  if (!dialer_.dial_found(event.address, now)) return;
  dial(event.address, out);
}

void Core::on(const Received& event, base::Time now, Outbox& out) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  found->second.detector.heard(now);
  std::visit([&](const auto& message) { on_message(event.link, message, now, out); },
             event.message);
}

void Core::on_message(base::LinkId id, const wire::Bye& bye, base::Time now, Outbox& out) {
  const base::PeerId peer = links_.at(id).peer;
  on(LinkLost{id, reason_of(bye.reason), bye.text}, now, out);
  // It takes no link for so long, whatever it has against this peer.
  if (bye.reason == wire::ByeReason::misbehaved) dialer_.block_for(peer, kBanTime, now);
}

void Core::on(const Heard& event, base::Time now, Outbox&) {
  const auto found = links_.find(event.link);
  if (found == links_.end()) return;
  FailureDetector& detector = found->second.detector;
  if (event.part) {
    detector.part(now);
  } else {
    detector.heard(now);
  }
}

void Core::on(const SpeedMeasured& event, base::Time, Outbox&) {
  wire::MemberRecord record = table_.self();
  if (record.speed == event.speed) return;
  record.speed = event.speed;
  announce_change(std::move(record));
}

void Core::on(const Moved& event, base::Time, Outbox&) {
  ASSERT(!event.addresses.empty() && event.addresses.size() <= wire::kAddressesMax);
  wire::MemberRecord record = table_.self();
  if (record.addresses == event.addresses && record.reach == event.reach) return;
  record.addresses = event.addresses;
  record.reach = event.reach;
  announce_change(std::move(record));
}

void Core::on(const Hold& event, base::Time, Outbox&) {
  const auto found = links_.find(event.link);
  if (found != links_.end()) found->second.held = event.on;
}

void Core::announce_change(wire::MemberRecord own) {
  if (left_ || own.incarnation + 1 >= kCounterMax) return;
  ++own.incarnation;
  static_cast<void>(announce(std::move(own)));
}

void Core::on(const Leave& event, base::Time now, Outbox& out) {
  if (left_) return;
  left_ = true;
  progress_.end_own(now);
  for (auto& [id, link] : links_) {
    if (link.role == Role::neighbour) send_heartbeat(id, link, now, out);  // the last counter
  }
  wire::MemberRecord record = table_.self();
  record.incarnation = std::max(record.incarnation, conflict_.open()) + 1;
  record.state = wire::MemberState::left;
  if (!SIM_BUG(leave_unsigned)) sign(record, signer_);
  static_cast<void>(table_.apply(record));
  queued_records_.insert_or_assign(record.id, base::LinkId{});
  send_rumours(out);
  const wire::ByeReason bye = event.done ? wire::ByeReason::done : wire::ByeReason::left;
  while (!links_.empty()) close(links_.begin()->first, bye, LossReason::left, now, out);
  suspicions_.clear();
}

void Core::send(base::LinkId id, wire::Message message, Outbox& out) {
  out.push_back(Send{id, std::move(message)});
}

void Core::notice(Outbox& out, base::Severity severity, std::string text) {
  out.push_back(base::Notice{severity, std::move(text)});
}

void Core::set_heartbeat(base::Duration heartbeat) {
  ASSERT(links_.empty() && heartbeat > base::Duration{0});
  config_.heartbeat = heartbeat;
  progress_.set_heartbeat(heartbeat);
}

void Core::set_own_progress(const wire::Progress& own, bool trains, base::Time now) {
  wire::Progress entry = own;
  entry.links = static_cast<std::uint32_t>(count(Role::neighbour));
  if (progress_.set_own(entry, trains, now)) hurry_beats(now);
}

// The first address of each before the second of any: they come by their use.
std::vector<std::string> Core::addresses_of_others() const {
  std::vector<std::string> addresses;
  const auto& records = table_.records();
  for (const bool alive : {true, false}) {
    bool more = true;
    for (std::size_t rank = 0; more; ++rank) {
      more = false;
      // In the order of ids from the own one on, as on a ring.
      auto at = records.upper_bound(self().id);
      for (std::size_t i = 0; i < records.size(); ++i, ++at) {
        if (at == records.end()) at = records.begin();
        const wire::MemberRecord& record = at->second;
        if (record.id == self().id || counts_as_alive(record.state) != alive) continue;
        if (rank >= record.addresses.size()) continue;
        if (addresses.size() == kRememberedMax) return addresses;
        addresses.push_back(record.addresses[rank]);
        more = true;
      }
    }
  }
  return addresses;
}

wire::DeathReason Core::death_reason_of(const base::PeerId& peer) const {
  const auto found = death_reasons_.find(peer);
  return found == death_reasons_.end() ? wire::DeathReason::none : found->second;
}

std::vector<wire::MemberRecord> Core::members() const {
  std::vector<wire::MemberRecord> members;
  for (const auto& [id, record] : table_.records()) members.push_back(record);
  return members;
}

std::vector<NeighbourInfo> Core::neighbours(base::Time now) const {
  std::vector<NeighbourInfo> neighbours;
  for (const auto& [id, link] : links_) {
    if (link.role != Role::neighbour) continue;
    neighbours.push_back({.peer = link.peer,
                          .link = id,
                          .round_trip = link.round_trip,
                          .silence = now - link.detector.last_heard()});
  }
  std::sort(neighbours.begin(), neighbours.end(),
            [](const auto& a, const auto& b) { return a.peer < b.peer; });
  return neighbours;
}

}  // namespace starling::membership
