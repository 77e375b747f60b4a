#include "exchange/ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"

namespace starling::exchange {

using base::ErrorCode;
using base::fail;
using base::PeerId;
using wire::Reduce;
using wire::ReducePhase;

Ring::Ring(std::vector<PeerId> peers, const PeerId& self, std::size_t elements,
           base::StepNumber first)
    : peers_(std::move(peers)), elements_(elements), first_(first), step_(first) {
  ASSERT(!peers_.empty() && peers_.size() <= kRingPeersMax && elements > 0);
  std::ranges::sort(peers_);
  ASSERT(std::ranges::adjacent_find(peers_) == peers_.end(), "each peer stands in the ring once");
  const auto at = std::ranges::find(peers_, self);
  ASSERT(at != peers_.end(), "a peer reduces in its own ring");
  self_ = static_cast<std::size_t>(at - peers_.begin());
  buckets_max_ = 0;
  for (std::size_t c = 0; c < peers_.size(); ++c) buckets_max_ = std::max(buckets_max_, buckets(c));
  start_step();
}

const PeerId& Ring::successor() const { return peers_[(self_ + 1) % peers_.size()]; }

const PeerId& Ring::predecessor() const {
  return peers_[(self_ + peers_.size() - 1) % peers_.size()];
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
  if (peers_.size() == 1) {
    out.emplace_back(Reduced{step_, std::move(values_)});
    ++step_;
    start_step();
    return;
  }
  for (std::size_t b = 0; b < buckets(self_); ++b) send(ReducePhase::scatter, 0, self_, b, out);
  const std::vector<Reduce> waiting = std::exchange(waiting_, {});
  for (const Reduce& message : waiting) take(message, out);
}

void Ring::on(Received& event, std::vector<Action>& out) {
  Reduce& message = event.message;
  if (auto status = check(message); !status) {
    failed_ = true;
    waiting_.clear();
    out.emplace_back(Failed{status.error().in("peer " + predecessor().brief())});
    return;
  }
  seen_[place(message)] = true;
  if (ready_) {
    take(message, out);
  } else {
    waiting_.push_back(std::move(message));
  }
}

base::Status Ring::check(const Reduce& message) const {
  constexpr auto kCode = ErrorCode::protocol;
  const std::size_t hops = peers_.size() - 1;
  if (message.step != step_ && step_ == first_ && message.step.value > 0) {
    return fail(ErrorCode::data,
                "has a checkpoint of step {}, and this peer one of step {} (0: none): all peers of "
                "a ring go on from the same step, so move newer checkpoints away",
                message.step.value - 1, step_.value - 1);
  }
  if (message.step != step_) {
    return fail(kCode, "sent gradients of step {} where {} was due", message.step.value,
                step_.value);
  }
  if (message.phase == ReducePhase::none || message.hop >= hops ||
      message.chunk != received_chunk(message.phase, message.hop)) {
    return fail(kCode, "sent chunk {} of the gradients on hop {}, where it never is", message.chunk,
                message.hop);
  }
  if (message.bucket >= buckets(message.chunk)) {
    return fail(kCode, "sent a piece {} of gradient chunk {}, which has {}", message.bucket,
                message.chunk, buckets(message.chunk));
  }
  const std::size_t bytes = bucket(message.chunk, message.bucket).size() * sizeof(float);
  if (message.payload.size() != bytes) {
    return fail(kCode, "sent {} bytes of gradients where {} were due", message.payload.size(),
                bytes);
  }
  if (message.phase == ReducePhase::gather && !ready_) {
    return fail(kCode, "sent a mean of gradients that this peer has no part in yet");
  }
  if (seen_[place(message)]) return fail(kCode, "sent the same gradients twice");
  return {};
}

void Ring::take(const Reduce& message, std::vector<Action>& out) {
  const std::size_t count = peers_.size();
  const Range range = bucket(message.chunk, message.bucket);
  const std::size_t next_hop = message.hop + std::size_t{1};
  float* values = values_.data() + range.begin;
  if (message.phase == ReducePhase::gather) {
    std::memcpy(values, message.payload.data(), message.payload.size());
    if (next_hop < count - 1) {
      send(ReducePhase::gather, next_hop, message.chunk, message.bucket, out);
    }
  } else {
    for (std::size_t i = 0; i < range.size(); ++i) {
      float part;
      std::memcpy(&part, message.payload.data() + i * sizeof part, sizeof part);
      values[i] = part + values[i];
    }
    if (next_hop < count - 1) {
      send(ReducePhase::scatter, next_hop, message.chunk, message.bucket, out);
    } else {
      for (std::size_t i = 0; i < range.size(); ++i) values[i] /= static_cast<float>(count);
      send(ReducePhase::gather, 0, message.chunk, message.bucket, out);
    }
  }
  if (--to_come_ > 0) return;
  out.emplace_back(Reduced{step_, std::move(values_)});
  ++step_;
  start_step();
}

void Ring::send(ReducePhase phase, std::size_t hop, std::size_t chunk_index, std::size_t index,
                std::vector<Action>& out) const {
  const Range range = bucket(chunk_index, index);
  const auto bytes = std::as_bytes(std::span(values_).subspan(range.begin, range.size()));
  out.emplace_back(SendToSuccessor{{.step = step_,
                                    .samples = samples_,
                                    .phase = phase,
                                    .hop = static_cast<std::uint16_t>(hop),
                                    .chunk = static_cast<std::uint16_t>(chunk_index),
                                    .bucket = static_cast<std::uint32_t>(index),
                                    .payload = {bytes.begin(), bytes.end()}}});
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

// Which chunk the predecessor sends on a hop.
std::size_t Ring::received_chunk(ReducePhase phase, std::size_t hop) const {
  const std::size_t count = peers_.size();
  const std::size_t start = phase == ReducePhase::scatter ? self_ + count - 1 : self_ + count;
  return (start - hop) % count;
}

std::size_t Ring::place(const Reduce& message) const {
  const std::size_t half = message.phase == ReducePhase::scatter ? 0 : peers_.size() - 1;
  return (half + message.hop) * buckets_max_ + message.bucket;
}

void Ring::start_step() {
  const std::size_t hops = peers_.size() - 1;
  ready_ = false;
  values_.clear();
  seen_.assign(2 * hops * buckets_max_, false);
  to_come_ = 0;
  for (std::size_t hop = 0; hop < hops; ++hop) {
    to_come_ += buckets(received_chunk(ReducePhase::scatter, hop));
    to_come_ += buckets(received_chunk(ReducePhase::gather, hop));
  }
}

}  // namespace starling::exchange
