#include "exchange/exchanging.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "exchange/weight.hpp"

namespace starling::exchange {

using base::ExchangeNumber;
using base::PeerId;
using base::Time;

namespace {

/// Seconds that a link may take to carry a replica, or it is slow.
constexpr double kSlowTelling = 1.0;

// Whether the other end has sent its delta of the exchange whose own one comes next.
bool is_awaited(const Session& session) {
  return session.received && session.received->exchange == session.expected();
}

// Both ends come to the same, from the two deltas.
delta::EndParts parts_of(Effect effect, const wire::Delta& own, const wire::Delta& their) {
  if (effect == Effect::averages) {
    return end_parts(believed_weight(own, their), believed_weight(their, own));
  }
  const bool takes = effect == Effect::takes && !SIM_BUG(mean_not_taken);
  return {.own = takes ? 1.0F : 0.0F, .their = effect == Effect::spreads ? 1.0F : 0.0F};
}

}  // namespace

Exchanging::Exchanging(const Options& options, Links& links, const History& history,
                       const Settling& settling, Tree& tree)
    : options_(options),
      links_(links),
      history_(history),
      settling_(settling),
      tree_(tree),
      pace_(options.config),
      step_(options.step),
      weight_(options.weight) {
  ASSERT(options.elements > 0);
  ASSERT(options.config.every > 0 && options.config.hash_every > 0);
  ASSERT(options.config.buffers_every > 0);
}

bool Exchanging::check(Links::iterator at, const wire::Delta& delta, base::Duration took,
                       Outbox& out) {
  ASSERT(delta.degree >= 1 && delta.degree <= kLinksMax, "wire refuses any other");
  Link& link = at->second;
  if (link.rounds.is_stale()) return false;
  if (delta.payload.size() > payload_bytes_max(options_.elements)) {
    links_.misbehaved(at, "sent a delta that is too long", out);
    return false;
  }
  if (!delta.buffers.empty() && delta.buffers.size() != options_.buffers * sizeof(float)) {
    links_.misbehaved(at,
                      fmt::format("sent {} bytes of buffers where {} were due",
                                  delta.buffers.size(), options_.buffers * sizeof(float)),
                      out);
    return false;
  }
  link.bandwidth.add(delta.payload.size() + delta.buffers.size(), took);
  link.line.bandwidth = delta.bandwidth;
  link.weight = delta.weight;
  link.believed = delta.believed;
  link.exaggerates = link.exaggerates || delta.weight > believed(link);
  return true;
}

void Exchanging::begin(Links::iterator at, std::optional<wire::Delta> early, Time now,
                       Outbox& out) {
  auto& [peer, link] = *at;
  link.open()->session.due = step_;
  request_next(peer, link, now, out);
  if (early) receive(at, std::move(*early), now, out);
}

// Goes on where both ends stand: each sends again what the other has not committed.
void Exchanging::resume(Links::iterator at, ExchangeNumber theirs, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  Session& session = link.open()->session;
  std::erase_if(session.kept, [&session, theirs](const wire::Delta& delta) {
    // Those at or before a commit of the other end's are not asked for again.
    return delta.exchange <= theirs && delta.exchange <= session.committed;
  });
  for (const wire::Delta& delta : session.kept) {
    if ((delta.exchange <= theirs && !SIM_BUG(all_resent)) || SIM_BUG(nothing_resent)) continue;
    reserve_upload(link, delta.payload.size() + delta.buffers.size(), now);
    out.emplace_back(Send{peer, delta});
  }
  request_next(peer, link, now, out);
}

void Exchanging::receive(Links::iterator at, wire::Delta delta, Time now, Outbox& out) {
  Link& link = at->second;
  Session& session = link.open()->session;
  if (delta.exchange != session.expected() || session.received) {
    links_.misbehaved(
        at,
        fmt::format("sent a delta of exchange {} where {} was due", delta.exchange.value,
                    session.expected().value + (session.received ? 1 : 0)),
        out);
    return;
  }
  // The other end sends t+1 after it has committed t.
  std::erase_if(session.kept, [&](const wire::Delta& own) {
    return own.exchange < delta.exchange && !SIM_BUG(kept_for_ever);
  });
  session.received = std::move(delta);
  commit_when_ready(at->first, link, now, out);
  answer_if_awaited(session, now);
  request_next(at->first, link, now, out);
}

// The faster end sets the pace, as far as this one has the time: if the own delta was asked for, it
// waits for a step. An end that is nearly as fast soon makes the steps that are left.
void Exchanging::answer_if_awaited(Session& session, Time now) {
  if (settling_.has_begun() || session.answers) return;
  if (session.due.value <= step_.value + pace_.every(links_.open_count()) / 2) return;
  if (!is_awaited(session) || !pace_.take_answer(now)) return;
  session.answers = true;
  session.encode_job = 0;
}

void Exchanging::on(const Progressed& event, Time now) {
  ASSERT(event.step >= step_);
  pace_.on_steps(event.step, now);
  if (event.took > base::Duration{}) pace_.on_compute(event.took);
  step_ = event.step;
  weight_ = event.weight;
}

void Exchanging::expire(Time now, Outbox& out) {
  for (auto& [peer, link] : links_) {
    if (link.open() != nullptr) request_next(peer, link, now, out);
  }
}

DeltaBudget Exchanging::budget(const Link& link) const {
  const Config& config = options_.config;
  if (SIM_RARE(whole_density)) return {.density = 1.0};
  if (tree_.is_on()) return {.density = 1.0 / static_cast<double>(options_.elements)};
  double density = SIM_RARE(least_density) ? 0.0 : config.density;
  DeltaBudget budget{.density = config.settle_density};
  if (!settling_.has_begun()) {
    if (history_.progress() > 1.0 - config.finish_fraction) density *= config.finish_factor;
    if (config.mode != Mode::dense && link.weight) {
      const wire::Delta own{.weight = weight_, .believed = believed(link)};
      const wire::Delta their{.weight = *link.weight, .believed = link.believed};
      density *= density_part(believed_weight(own, their), believed_weight(their, own));
    }
    budget = pace_.budget(density, link.line, links_.open_count());
  }
  budget.density = std::clamp(budget.density, 1.0 / static_cast<double>(options_.elements), 1.0);
  return budget;
}

// A peer that counts nothing is moved by whoever counts something.
std::int8_t Exchanging::believed(const Link& link) const {
  if (weight() == wire::kNoWeight) return wire::kWeightMax;
  if (!options_.weighs_by_speed) return weight();
  return std::max(link.vouched.weight_max().value_or(wire::kWeightMax), weight());
}

bool Exchanging::with_buffers(ExchangeNumber t) const {
  if (options_.buffers == 0) return false;
  std::uint32_t every = options_.config.buffers_every;
  if (settling_.has_begun()) every = std::min(every, kSettleBuffersEvery);
  return t.value % every == 0;
}

void Exchanging::request_delta(const PeerId& peer, Link& link, ExchangeNumber t, Outbox& out) {
  const Config& config = options_.config;
  Session& session = link.open()->session;
  session.encode_job = links_.next_tag();
  const DeltaBudget budget = this->budget(link);
  const bool settles = settling_.has_begun() && config.mode != Mode::dense;
  const int bits = settles ? kSettleBits : config.bits;
  const Duty duty = session.duty = tree_.duty(peer);
  const bool tells = duty == Duty::tell_up || duty == Duty::tell_down;
  out.emplace_back(
      Run{EncodeJob{.peer = peer,
                    .tag = session.encode_job,
                    .exchange = t,
                    .not_before = {session.due.value + (SIM_RARE(delta_late) ? 1 : 0)},
                    .every = pace_.every(links_.open_count()),
                    .lag_factor_max = budget.lag_factor_max,
                    .at_once = settling_.has_begun() || session.answers || SIM_RARE(delta_at_once),
                    .with_hash = t.value % config.hash_every == 0 || SIM_RARE(hash_with_delta),
                    .with_buffers = tells ? options_.buffers > 0 : with_buffers(t),
                    .near_enough = near_enough(duty),
                    .tells_all = tells,
                    .may_skip = session.settled && !session.received && !tree_.is_on(),
                    .options = {.density = budget.density,
                                .bits = SIM_RARE(other_bits) ? 8 : bits,
                                .block = SIM_RARE(other_block) ? 64U : config.block}}});
}

// Of what was learned, the part that an end may keep from the other. What is gathered becomes a
// part of a mean, and may be coarser.
double Exchanging::near_enough(Duty duty) const {
  constexpr double kGathered = 4.0;
  if (!settling_.has_begun()) return 0;
  return duty == Duty::tell_up ? kGathered * options_.config.settle_drift
                               : options_.config.settle_drift;
}

// Along the tree, those tell that have something to tell, and the others answer: to what a child
// has gathered, once it can be taken.
bool Exchanging::tree_wants_delta(const PeerId& peer, const Session& session) const {
  const Duty duty = tree_.duty(peer);
  if (duty == Duty::tell_up || duty == Duty::tell_down) return true;
  if (!is_awaited(session)) return false;
  return session.received->turn != wire::Turn::up || duty == Duty::gather;
}

// Whether the next own delta is to be asked for: none is under way. A peer that has settled only
// answers, and a link that has rests until something moves.
bool Exchanging::wants_delta(const PeerId& peer, const Session& session) const {
  const ExchangeNumber t = session.expected();
  if (settling_.phase() == Phase::done) return false;
  if (session.encode_job != 0 || session.own(t) != nullptr) return false;
  if (tree_.is_on()) return tree_wants_delta(peer, session);
  const bool silent = settling_.is_over() || session.rests;
  if (silent && !is_awaited(session)) return false;
  return !(SIM_BUG(next_not_asked_for) && t.value > 3);
}

// Whatever is sent takes its part of the link's share of the upload.
void Exchanging::reserve_upload(Link& link, std::size_t bytes, Time now) {
  const Time from = std::max(link.next_send_at, now);
  link.next_send_at =
      std::min(from + pace_.upload_time(bytes, links_.open_count()), now + kUploadTimeMax);
  link.held_for = link.next_send_at - now;
}

void Exchanging::request_next(const PeerId& peer, Link& link, Time now, Outbox& out) {
  Session& session = link.open()->session;
  if (link.next_send_at > now || !wants_delta(peer, session)) return;
  request_delta(peer, link, session.expected(), out);
}

// In units of what is near enough.
double Exchanging::apart(const Encoded& event) const {
  const double replicas = std::max(event.drift, event.mirror_error) / event.learned;
  return std::max(replicas, event.buffer_drift) / options_.config.settle_drift;
}

wire::Delta Exchanging::delta_of(Encoded& event, const Link& link) const {
  const Duty duty = link.open()->session.duty;
  const bool told = event.mirror_error < kUntold * near_enough(duty) * event.learned &&
                    duty == tree_.duty(event.peer);
  const auto& theirs = link.open()->session.received;
  const wire::Turn turn =
      tree_.turn(event.peer, told, theirs ? std::optional(theirs->turn) : std::nullopt);
  return {.exchange = event.exchange,
          .samples = history_.samples(),
          .mirror_hash = event.mirror_hash,
          .degree = static_cast<std::uint16_t>(
              std::clamp<std::size_t>(links_.open_count(), 1, kLinksMax)),
          .weight = weight(),
          .believed = link.exaggerates ? believed(link) : wire::kWeightMax,
          .settled = settling_.phase() == Phase::settling && link.apart < 1.0,
          .payload = std::move(event.payload),
          .buffers = std::move(event.buffers),
          .bandwidth = static_cast<float>(std::min(link.bandwidth.value(), 1e30)),
          .radius = event.radius,
          .turn = turn,
          .gathered = tree_.weight()};
}

void Exchanging::on(Encoded& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end() || at->second.open() == nullptr) return;
  Link& link = at->second;
  Session& session = link.open()->session;
  if (session.encode_job != event.tag) return;
  session.encode_job = 0;
  session.answers = false;
  if (link.rounds.count() < kRoundsMax / 4 && SIM_RARE(opened_again)) {
    return links_.new_round(at, out);
  }
  if (!event.status) {
    const bool no_room = event.status.error().code == base::ErrorCode::no_room;
    if (no_room && links_.end_oldest_grace(out)) return request_next(event.peer, link, now, out);
    return links_.refuse_or_fail(at, event.status.error(), out);
  }
  link.drift = event.drift;
  if (event.skipped) {
    session.rests = session.settled;  // an exchange that was committed meanwhile may say otherwise
    return request_next(event.peer, link, now, out);
  }
  const std::size_t bytes = event.payload.size() + event.buffers.size();
  pace_.on_encoded(bytes, event.density, event.took);
  reserve_upload(link, bytes, now);
  session.due = {event.step.value + pace_.every(links_.open_count())};
  link.density = event.density;
  link.line.lag = event.lag;
  link.line.bytes = bytes;
  if (settling_.has_begun()) link.apart = apart(event);
  wire::Delta delta = delta_of(event, link);
  session.kept.push_back(delta);
  ASSERT(session.kept.size() <= kKeptMax);
  out.emplace_back(Send{event.peer, std::move(delta)});
  commit_when_ready(event.peer, link, now, out);
}

// Commits t with both deltas of it, and asks for the next own delta behind the commit, so that the
// trainer can do both at one step boundary.
void Exchanging::commit_when_ready(const PeerId& peer, Link& link, Time now, Outbox& out) {
  Session& session = link.open()->session;
  const ExchangeNumber t = session.committed.next();
  const wire::Delta* own = session.own(t);
  if (session.commit_job != 0 || own == nullptr || !session.received) return;
  ASSERT(session.received->exchange == t);
  const std::uint16_t other_degree = SIM_BUG(weight_of_own_degree) ? 1 : session.received->degree;
  const auto degree = static_cast<float>(std::max(own->degree, other_degree));
  session.both_settling = own->settled && session.received->settled;
  const Effect effect = session.effect = effect_of(own->turn, session.received->turn);
  const bool averages = effect == Effect::averages;
  session.commit_job = links_.next_tag();
  out.emplace_back(Run{CommitJob{
      .peer = peer,
      .tag = session.commit_job,
      .exchange = t,
      .own = own->payload,
      .their = std::move(session.received->payload),
      .w = averages ? 1.0F / (1.0F + degree) : 1.0F,
      .parts = parts_of(effect, *own, *session.received),
      .degree_inverse = 1.0F / static_cast<float>(own->degree),
      .goes_on = averages,
      .judged = settling_.has_begun(),
      .takes = effect == Effect::takes,
      .gathers = effect == Effect::gathers ? tree_.gather(peer, session.received->gathered) : 0.0F,
      .own_radius = averages ? own->radius.value_or(kNoRadius) : kNoRadius,
      .their_radius = averages ? session.received->radius.value_or(kNoRadius) : kNoRadius,
      .expected_hash = session.received->mirror_hash,
      .own_buffers = own->buffers,
      .their_buffers = std::move(session.received->buffers)}});
  session.received.reset();
  request_next(peer, link, now, out);
}

void Exchanging::on(Committed& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  Session* session = link.session();
  if (session == nullptr || session->commit_job != event.tag) return;
  session->commit_job = 0;
  pace_.on_committed(event.took);
  if (event.result == CommitResult::invalid) {
    links_.misbehaved(at, event.error.text, out);
    return;
  }
  if (event.result == CommitResult::refused) {
    return links_.misbehaved(at, "its replica is far from this peer's, or far worse", out, true);
  }
  if (event.again && links_.end_oldest_grace(out)) {
    return commit_again(std::move(*event.again), now, out);
  }
  if (event.result == CommitResult::failed) return links_.refuse_or_fail(at, event.error, out);
  if (event.result == CommitResult::mismatch) return reopen_differing(at, event.exchange, out);
  session->committed = event.exchange;
  session->settled = session->both_settling;
  tree_.committed(event.peer, session->effect, now, out);
  link.commit(now);
  wake_links(now, out);
  if (link.open() == nullptr) return;
  commit_when_ready(event.peer, link, now, out);
  request_next(event.peer, link, now, out);
}

// Once there is more room. The delta of t+1 that was asked for builds on mirrors that are as they
// were, so it is asked for anew.
void Exchanging::commit_again(CommitJob job, Time now, Outbox& out) {
  const auto at = links_.find(job.peer);
  if (at == links_.end()) return;  // it was in grace itself, and the oldest
  Session& session = *at->second.session();
  const PeerId peer = job.peer;
  session.commit_job = job.tag = links_.next_tag();
  session.encode_job = 0;
  out.emplace_back(Run{std::move(job)});
  if (at->second.open() != nullptr) request_next(peer, at->second, now, out);
}

// The two ends' mirrors of one session differ: it must not go on.
void Exchanging::reopen_differing(Links::iterator at, ExchangeNumber t, Outbox& out) {
  auto& [peer, link] = *at;
  ++link.counters.mismatches;
  out.emplace_back(base::accusation(
      fmt::format("mirrors of the link with {} differ at exchange {}; it is opened again",
                  peer.brief(), t.value)));
  if (link.open() != nullptr && link.rounds.count() >= kRoundsMax) {
    links_.misbehaved(at, "has mirrors that differ again and again", out);
  } else if (link.open() != nullptr) {
    links_.new_round(at, out);
  } else if (link.broken() == nullptr) {
    links_.drop_before(at, out);
  } else {
    links_.forget(at, out);
  }
}

// The replica has moved.
void Exchanging::wake_links(Time now, Outbox& out) {
  for (auto& [peer, link] : links_) {
    auto* open = link.open();
    if (open == nullptr || !open->session.rests) continue;
    open->session.rests = false;
    request_next(peer, link, now, out);
  }
}

// Seconds that a link takes to tell a replica, if anything is known of it.
double Exchanging::telling(const Link& link) const {
  // Some 8 bits for each element.
  const auto [there, back] = link.seconds_for(static_cast<double>(options_.elements));
  return std::min(std::max(there, back), base::seconds(kUploadTimeMax));
}

void Exchanging::begin_tree(Time now, Outbox& out) {
  std::vector<Branch> branches;
  base::Duration usual{};
  if (options_.config.mode == Mode::tracked) {
    for (const auto& [peer, link] : links_) {
      const bool is_trusted = link.trust != Trust::doubted && link.trust != Trust::none;
      if (link.open() == nullptr || !is_trusted || SIM_RARE(left_out_of_tree)) continue;
      const double telling = this->telling(link);
      branches.push_back({.peer = peer, .slow = telling > kSlowTelling || SIM_RARE(slow_in_tree)});
      usual = std::max(usual, patience_with(link) + base::from_seconds(2 * telling));
    }
  }
  tree_.begin(weight_of(weight()), branches, usual, now, out);
}

void Exchanging::on_settling(Outbox& out) {
  for (auto& [peer, link] : links_) {
    auto* open = link.open();
    if (open == nullptr || open->session.encode_job == 0) continue;
    // It may wait for a step that is not made any more.
    request_delta(peer, link, open->session.expected(), out);
  }
}

void Exchanging::visit_timers(const TimerVisitor& visit) const {
  for (const auto& [peer, link] : std::as_const(links_)) {
    const auto* open = link.open();
    if (open != nullptr && wants_delta(peer, open->session)) {
      visit("the upload limit of a link", link.next_send_at, kUploadTimeMax);
    }
  }
}

}  // namespace starling::exchange
