#include "ring/gathering.hpp"

#include <utility>

namespace starling::ring {

void Gathering::link_up(const base::PeerId& peer, base::Time now) {
  arrivals_[peer] = {};
  await_quiet(now);
}

void Gathering::link_down(const base::PeerId& peer, base::Time now) {
  arrivals_.erase(peer);
  await_quiet(now);
}

// The predecessor, whichever peer that will be, knows all peers already. Without this peer it can
// send its part of one step and nothing more; a message without values is never part of one.
bool Gathering::take(const base::PeerId& peer, wire::Reduce message) {
  Arrival& from = arrivals_.at(peer);
  const bool is_empty = message.payload.empty();
  from.early_bytes += message.payload.size();
  from.early.push_back(std::move(message));
  if (!is_empty && from.early_bytes <= bytes_max() && from.early.size() <= messages_max()) {
    return true;
  }
  from.early = {};
  from.early_bytes = 0;
  return false;
}

void Gathering::take(const base::PeerId& peer, const wire::ReduceReceived& message) {
  const auto from = arrivals_.find(peer);
  if (from == arrivals_.end()) return;
  from->second.life = message.life;
  from->second.has = {message.step, message.pieces};
}

void Gathering::stop() noexcept {
  stopped_ = true;
  quiet_until_.reset();
}

/// Starts again with each link that comes or goes.
void Gathering::await_quiet(base::Time now) {
  quiet_until_.reset();
  if (arrivals_.size() + 1 >= peers_ && !stopped_) quiet_until_ = now + kQuiet;
}

void Gathering::add_bounds(base::Bounds& out) const {
  for (const auto& [peer, arrival] : arrivals_) {
    out.add("bytes of early gradients of a neighbour", arrival.early_bytes, bytes_max());
    out.add("early gradients of a neighbour", arrival.early.size(), messages_max());
  }
}

void Gathering::add_timers(base::Time now, base::Bounds& out) const {
  if (quiet_until_) out.add_timer("the making of a ring", *quiet_until_, now, kQuiet);
}

}  // namespace starling::ring
