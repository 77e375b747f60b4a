#include "ring/ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "base/simulated.hpp"

namespace starling::ring {

using base::ErrorCode;
using base::PeerId;
using wire::Reduce;
using wire::ReducePhase;

Ring::Ring(std::vector<PeerId> peers, const PeerId& self, std::size_t elements,
           base::StepNumber first)
    : peers_(std::move(peers)), elements_(elements), first_(first), step_(first), known_{first, 0} {
  ASSERT(!peers_.empty() && peers_.size() <= kPeersMax && elements > 0);
  std::ranges::sort(peers_);
  ASSERT(std::ranges::adjacent_find(peers_) == peers_.end(), "each peer is in the ring once");
  const auto at = std::ranges::find(peers_, self);
  ASSERT(at != peers_.end(), "a peer is in its own ring");
  self_ = static_cast<std::size_t>(at - peers_.begin());
  incoming_ = order_of(&Ring::received_chunk);
  outgoing_ = order_of(&Ring::sent_chunk);
}

const PeerId& Ring::successor() const { return peers_[(self_ + 1) % peers_.size()]; }

const PeerId& Ring::predecessor() const {
  return peers_[(self_ + peers_.size() - 1) % peers_.size()];
}

bool Ring::contains(const PeerId& peer) const { return std::ranges::binary_search(peers_, peer); }

bool Ring::successor_has_all() const noexcept {
  return peers_.size() == 1 || known_ >= Position{step_, 0};
}

void Ring::handle(Event event, std::vector<Action>& out) {
  if (failed_) return;
  std::visit([&](auto& one) { on(one, out); }, event);
}

void Ring::on(GradientReady& event, std::vector<Action>& out) {
  ASSERT(!ready_ && event.step == step_ && event.gradient.size() == elements_);
  samples_ = event.samples;
  values_ = std::move(event.gradient);
  ready_ = true;
  if (peers_.size() == 1) return end_step(out);
  send_on(out);
  const std::vector<Reduce> waiting = std::exchange(waiting_, {});
  for (const Reduce& message : waiting) {
    take(message);
    send_on(out);
  }
  if (taken_ == incoming_.back()) end_step(out);
}

void Ring::on(Received& event, std::vector<Action>& out) {
  Reduce& message = event.message;
  if (auto status = check(message); !status) {
    return fail(status.error().in("peer " + predecessor().brief()), out);
  }
  if (!ready_) return waiting_.push_back(std::move(message));
  take(message);
  send_on(out);
  if (taken_ == incoming_.back()) end_step(out);
}

void Ring::on(const SuccessorHas& event, std::vector<Action>& out) {
  Position position = event.position;
  // They have different checkpoints; the first message will show it.
  if (step_ == first_ && sent_ == 0 && position.step != first_) position = known_;
  if (auto status = check(position); !status) {
    return fail(status.error().in("peer " + successor().brief()), out);
  }
  known_ = position;
  if (known_.step >= step_) last_means_.clear();
  if (is_open_) return;
  is_open_ = true;
  if (SIM_BUG(ring_resends_nothing)) return send_on(out);
  is_behind_ = position.step < step_;
  sent_ = position.step > step_ ? outgoing_.back() : position.pieces;
  send_on(out);
}

void Ring::fail(base::Error error, std::vector<Action>& out) {
  failed_ = true;
  waiting_.clear();
  out.emplace_back(Failed{std::move(error)});
}

base::Status Ring::check(const Reduce& message) const {
  constexpr auto kCode = ErrorCode::protocol;
  if (message.step != step_ && step_ == first_ && message.step.value > 0) {
    return base::fail(
        ErrorCode::data,
        "has a checkpoint of step {}, and this peer one of step {} (0: none): all peers of "
        "a ring go on from the same step, so move newer checkpoints away",
        message.step.value - 1, step_.value - 1);
  }
  if (message.step != step_) {
    return base::fail(kCode, "sent gradients of step {} where {} was due", message.step.value,
                      step_.value);
  }
  const auto [round, due] = place_of(incoming_, received().pieces);
  const bool gather = round >= hops();
  const std::size_t hop = gather ? round - hops() : round;
  if (gather && !ready_) {
    return base::fail(kCode, "sent more gradients than there are without this peer's part");
  }
  if (message.phase != (gather ? ReducePhase::gather : ReducePhase::scatter) ||
      message.hop != hop || message.chunk != received_chunk(round) || message.bucket != due) {
    return base::fail(kCode,
                      "sent piece {} of gradient chunk {} on hop {}, where piece {} of chunk {} "
                      "on hop {} was due",
                      message.bucket, message.chunk, message.hop, due, received_chunk(round), hop);
  }
  const std::size_t bytes = bucket(message.chunk, message.bucket).size() * sizeof(float);
  if (message.payload.size() != bytes) {
    return base::fail(kCode, "sent {} bytes of gradients where {} were due", message.payload.size(),
                      bytes);
  }
  // A message that has come all the way round came through the successor, which had all it needed
  // for it.
  const bool came_round = gather || hop + 1 == hops();
  if (came_round && is_behind_) {
    return base::fail(kCode, "sent gradients that this peer's successor can have no part in");
  }
  if (gather && sent_ <= outgoing_[hop] + message.bucket) {
    return base::fail(kCode, "sent a mean of gradients that this peer has no part in yet");
  }
  return {};
}

base::Status Ring::check(const Position& position) const {
  // If the link is open, what came round has already shown the state at the time of this message.
  const bool can_be = is_open_ || can_send_from(position);
  if (position < known_ || position > sent() || position.pieces > outgoing_.back() || !can_be) {
    return base::fail(ErrorCode::protocol,
                      "says that it has {} pieces of the gradients of step {}, of which it had {} "
                      "of step {} and was sent {} of step {}",
                      position.pieces, position.step.value, known_.pieces, known_.step.value,
                      sent().pieces, sent().step.value);
  }
  return {};
}

// A sum is overwritten by its mean, and by the next step. So a successor that had no part in the
// sum, or has not taken the mean, claims something impossible.
bool Ring::can_send_from(const Position& position) const {
  if (position.step > step_) return true;
  if (position.step == step_) {
    if (taken_ <= incoming_[hops()]) return true;
    const auto [round, bucket] = place_of(incoming_, taken_ - 1);
    return position.pieces > outgoing_[round - hops()] + bucket;
  }
  return position.step.next() == step_ && position.pieces >= outgoing_[hops()] &&
         position.pieces < outgoing_.back() && !last_means_.empty();
}

base::StepNumber Ring::sent_step() const noexcept {
  return is_behind_ ? base::StepNumber{step_.value - 1} : step_;
}

// Having all of a step is the same as being at the beginning of the next one.
Ring::Position Ring::sent() const noexcept {
  if (sent_ == outgoing_.back()) return {sent_step().next(), 0};
  return {sent_step(), sent_};
}

// Messages of step_ that are ready to be sent, in order: the own chunk, then everything taken
// except in the last round.
std::size_t Ring::to_send() const noexcept {
  return ready_ ? std::min(outgoing_[1] + taken_, outgoing_.back()) : 0;
}

void Ring::take(const Reduce& message) {
  const Range range = bucket(message.chunk, message.bucket);
  float* values = values_.data() + range.begin;
  if (message.phase == ReducePhase::gather) {
    std::memcpy(values, message.payload.data(), message.payload.size());
  } else {
    for (std::size_t i = 0; i < range.size(); ++i) {
      float part;
      std::memcpy(&part, message.payload.data() + i * sizeof part, sizeof part);
      values[i] = part + values[i];
    }
    if (message.hop + std::size_t{1} == hops()) {
      for (std::size_t i = 0; i < range.size(); ++i) values[i] /= static_cast<float>(peers_.size());
    }
  }
  ++taken_;
}

void Ring::end_step(std::vector<Action>& out) {
  const base::StepNumber done = step_;
  step_ = step_.next();
  if (!successor_has_all()) last_means_ = values_;
  ready_ = false;
  taken_ = 0;
  is_behind_ = sent_ < outgoing_.back();
  if (!is_behind_) sent_ = 0;
  if (peers_.size() > 1) out.emplace_back(TellPredecessor{received()});
  out.emplace_back(Reduced{done, std::move(values_)});
}

void Ring::send_on(std::vector<Action>& out) {
  if (!is_open_) return;
  if (is_behind_) {
    while (sent_ < outgoing_.back()) out.emplace_back(message(sent_++));
    is_behind_ = false;
    sent_ = 0;
  }
  while (sent_ < to_send()) out.emplace_back(message(sent_++));
}

Ring::SendToSuccessor Ring::message(std::size_t index) const {
  const auto [round, bucket_index] = place_of(outgoing_, index);
  const bool gather = round >= hops();
  const std::size_t chunk_index = sent_chunk(round);
  const Range range = bucket(chunk_index, bucket_index);
  const std::vector<float>& values = is_behind_ ? last_means_ : values_;
  const auto bytes = std::as_bytes(std::span(values).subspan(range.begin, range.size()));
  return {{.step = sent_step(),
           .samples = samples_,
           .phase = gather ? ReducePhase::gather : ReducePhase::scatter,
           .hop = static_cast<std::uint16_t>(gather ? round - hops() : round),
           .chunk = static_cast<std::uint16_t>(chunk_index),
           .bucket = static_cast<std::uint32_t>(bucket_index),
           .payload = {bytes.begin(), bytes.end()}}};
}

Ring::Range Ring::chunk(std::size_t index) const {
  return {elements_ * index / peers_.size(), elements_ * (index + 1) / peers_.size()};
}

Ring::Range Ring::bucket(std::size_t chunk_index, std::size_t index) const {
  const Range whole = chunk(chunk_index);
  const std::size_t begin = whole.begin + index * kBucketElements;
  return {begin, std::min(begin + kBucketElements, whole.end)};
}

// A chunk without elements (fewer elements than peers) has no bucket and never travels.
std::size_t Ring::buckets(std::size_t chunk_index) const {
  return base::ceil_div(chunk(chunk_index).size(), kBucketElements);
}

// The own chunk first, then those before it; from the first round of the gather on, the one after
// it.
std::size_t Ring::sent_chunk(std::size_t round) const {
  return (self_ + 2 * peers_.size() - round) % peers_.size();
}

std::size_t Ring::received_chunk(std::size_t round) const {
  return (self_ + 2 * peers_.size() - 1 - round) % peers_.size();
}

Ring::Order Ring::order_of(std::size_t (Ring::*chunk_of)(std::size_t round) const) const {
  Order order{0};
  for (std::size_t round = 0; round < 2 * hops(); ++round) {
    order.push_back(order.back() + buckets((this->*chunk_of)(round)));
  }
  return order;
}

Ring::Place Ring::place_of(const Order& order, std::size_t index) {
  const auto next = std::ranges::upper_bound(order, index);
  const auto round = static_cast<std::size_t>(next - order.begin()) - 1;
  return {round, index - order[round]};
}

}  // namespace starling::ring
