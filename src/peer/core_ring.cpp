// A peer's part in a ring: from its neighbours to the ring, what is told on its links, and how it
// ends. A link may be replaced or break at any time: the ring goes on over the next one.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/simulated.hpp"
#include "peer/core.hpp"
#include "peer/run_file_keys.hpp"

namespace starling::peer {
namespace {

/// The neighbours of a ring must have been the same for this long before it is made: so a peer too
/// many is found out before the first step.
constexpr base::Duration kRingQuiet = std::chrono::milliseconds(500);
/// Behind the gradients and buffers that a ring averages: elements with which a peer asks the
/// others for something at the end of this step. The mean is above 0 where at least one of them
/// does, so all find out at the same step.
constexpr std::size_t kSaveWish = 0;   ///< a checkpoint, which all save
constexpr std::size_t kLeaveWish = 1;  ///< to leave, with a checkpoint
constexpr std::size_t kWishes = 2;

using exchange::Mode;
using membership::LossReason;

/// Whether who was lost for this reason comes back within a ban or not at all.
bool is_for_good(LossReason reason) {
  using enum LossReason;
  return reason == left || reason == done || reason == banned || reason == no_room;
}

}  // namespace

/// Makes the ring when all are here; false: not yet, or this peer has ended.
bool Core::ring_is_made(base::Time now, Outbox& out) {
  const std::size_t here = neighbours_.size() + 1;
  if (here < config_.peers) return false;
  if (!ring_at_) ring_at_ = now + kRingQuiet;
  if (now < *ring_at_) return false;
  if (here > config_.peers) {
    // Each might leave out another one.
    end({EndReason::failed,
         {base::ErrorCode::run_file,
          std::to_string(here) + " peers are here, and swarm.peers says " +
              std::to_string(config_.peers) + ": start so many, or set it to " +
              std::to_string(here) + " at all of them"}},
        now, out);
    return false;
  }
  make_ring(now, out);
  return phase_ != Phase::done;  // what came early was wrong
}

void Core::make_ring(base::Time now, Outbox& out) {
  std::vector<base::PeerId> peers{self_.id};
  for (const auto& [peer, link] : neighbours_) peers.push_back(peer);
  std::ranges::sort(peers);
  ring_.emplace(std::move(peers), self_.id,
                config_.parameter_count + config_.buffer_count + kWishes, step_.next());
  if (config_.exchange.mode == Mode::local) {
    out.push_back(Run{AnchorJob{static_cast<float>(config_.exchange.outer_lr),
                                static_cast<float>(config_.exchange.outer_momentum)}});
  }
  for (const auto& [peer, link] : neighbours_) (void)companions_[peer];
  Companion& successor = companions_.at(ring_->successor());
  if (successor.has) to_ring(exchange::Ring::SuccessorHas{*successor.has}, now, out);
  std::vector<wire::Reduce> early = std::move(companions_.at(ring_->predecessor()).early);
  for (auto& [peer, companion] : companions_) {
    companion.early = {};
    companion.early_bytes = 0;
  }
  for (wire::Reduce& message : early) {
    if (phase_ == Phase::done) return;
    to_ring(exchange::Ring::Received{std::move(message)}, now, out);
  }
}

std::size_t Core::early_bytes_max() const noexcept {
  return sizeof(float) * (config_.parameter_count + config_.buffer_count + kWishes);
}

std::size_t Core::early_messages_max() const noexcept {
  return early_bytes_max() / (sizeof(float) * exchange::kBucketElements) + config_.peers;
}

/// From then on both ends take and send on this link alone.
void Core::begin_ring_link(const base::PeerId& peer, base::Time now, Outbox& out) {
  if (!exchange::uses_ring(config_.exchange.mode)) return;
  if (ring_ && peer == ring_->successor()) to_ring(exchange::Ring::SuccessorLost{}, now, out);
  tell_received(peer, ring_ ? ring_->received() : exchange::Ring::Position{step_.next(), 0}, out);
  watch_ring_links(now);
}

void Core::tell_received(const base::PeerId& peer, const exchange::Ring::Position& position,
                         Outbox& out) {
  send_to(peer, wire::ReduceReceived{life_, position.step, position.pieces}, out);
}

void Core::perform(exchange::Ring::SendToSuccessor& send, base::Time, Outbox& out) {
  send_to(ring_->successor(), std::move(send.message), out);
}

void Core::perform(const exchange::Ring::TellPredecessor& tell, base::Time, Outbox& out) {
  tell_received(ring_->predecessor(), tell.position, out);
}

void Core::perform(exchange::Ring::Failed& failed, base::Time now, Outbox& out) {
  end({EndReason::failed, std::move(failed.error)}, now, out);
}

void Core::on_reduce(base::LinkId link, const base::PeerId& peer, wire::Reduce& message,
                     base::Time now, Outbox& out) {
  membership_.progress().observe(peer.prefix(), message.samples, now);
  if (ring_) {
    if (peer == ring_->predecessor()) {
      to_ring(exchange::Ring::Received{std::move(message)}, now, out);
    }
    return;
  }
  // The predecessor, whoever that will be, knows all peers already. Without this peer it can send
  // its part of one step and no more; a message without values never is part of one.
  Companion& companion = companions_[peer];
  companion.early_bytes += message.payload.size();
  companion.early.push_back(std::move(message));
  if (companion.early.back().payload.empty() || companion.early_bytes > early_bytes_max() ||
      companion.early.size() > early_messages_max()) {
    companions_.erase(peer);
    misbehaved(link, peer, kUnasked, now, out);
  }
}

void Core::on_reduce(base::LinkId, const base::PeerId& peer, const wire::ReduceReceived& message,
                     base::Time now, Outbox& out) {
  if (ring_ && !ring_->contains(peer)) return;
  Companion& companion = companions_[peer];
  if (ring_ && companion.life && *companion.life != message.life) {
    return lose_companion(peer, "was started again", now, out);
  }
  companion.life = message.life;
  companion.has = {message.step, message.pieces};
  if (!ring_ || peer != ring_->successor()) return;
  to_ring(exchange::Ring::SuccessorHas{*companion.has}, now, out);
  end_if_over(now, out);
}

/// The ring is over, unless it is already, for this peer.
void Core::lose_companion(const base::PeerId& peer, const std::string& what, base::Time now,
                          Outbox& out) {
  companions_[peer].gone = true;
  if (ring_goes_on()) {
    const auto dead = dead_companion();
    const std::string lost = fmt::format("peer {} {}", peer.brief(), what);
    return end_broken_ring(dead.value_or(lost), now, out);
  }
  end_if_over(now, out);
}

void Core::end_ring_link(const base::PeerId& peer, LossReason reason, base::Time now, Outbox& out) {
  if (!exchange::uses_ring(config_.exchange.mode)) return;
  if (!ring_) companions_.erase(peer);  // it may come back, in another life
  // Who waits has no ring with it, and never will.
  if (reason == LossReason::done && phase_ == Phase::waiting) {
    return end({EndReason::failed,
                {base::ErrorCode::data,
                 fmt::format("peer {} has ended this run, and this peer's checkpoint is of step "
                             "{} (0: none): take the model of that peer",
                             peer.brief(), step_.value)}},
               now, out);
  }
  if (!ring_ || !ring_->contains(peer)) return;
  if (peer == ring_->successor()) to_ring(exchange::Ring::SuccessorLost{}, now, out);
  if (reason == LossReason::done) {
    part_with(peer, now, out);
  } else if (is_for_good(reason)) {
    lose_companion(peer, fmt::format("is gone ({})", membership::to_string(reason)), now, out);
  }
  watch_ring_links(now);
}

/// What it has not sent by now never comes, and what it lacks it no longer needs. Who is done has
/// sent all that others need for the same last step.
void Core::part_with(const base::PeerId& peer, base::Time now, Outbox& out) {
  companions_[peer].gone = true;
  end_if_predecessor_is_gone(now, out);
  if (phase_ != Phase::done) end_if_over(now, out);
}

/// A link with the ring's neighbours may be missing for so long.
void Core::watch_ring_links(base::Time now) {
  if (!ring_) return;
  if (neighbours_.contains(ring_->predecessor()) && neighbours_.contains(ring_->successor())) {
    ring_until_.reset();
  } else if (!ring_until_) {
    ring_until_ = now + kRingGrace;
  }
}

void Core::expire_ring(base::Time now, Outbox& out) {
  if (!ring_until_ || *ring_until_ > now) return;
  ring_until_.reset();
  for (const base::PeerId& peer : {ring_->predecessor(), ring_->successor()}) {
    if (phase_ == Phase::done) return;
    if (neighbours_.contains(peer)) continue;
    lose_companion(peer, fmt::format("was not reached for {:.0f} s", base::seconds(kRingGrace)),
                   now, out);
  }
}

/// Of those without a link the member table tells whether they come back. They may have been done.
void Core::look_for_companions(base::Time now, Outbox& out) {
  if (!ring_) return;
  for (const auto& [peer, companion] : companions_) {
    const wire::MemberRecord* record = membership_.table().find(peer);
    if (companion.gone || record == nullptr || neighbours_.contains(peer)) continue;
    if (membership::counts_as_alive(record->state)) continue;
    part_with(peer, now, out);
    if (phase_ == Phase::done) return;
  }
}

std::optional<std::string> Core::dead_companion() const {
  for (const auto& [peer, companion] : companions_) {
    const wire::MemberRecord* record = membership_.table().find(peer);
    if (record == nullptr || record->state != wire::MemberState::dead) continue;
    return fmt::format("peer {} is dead ({})", peer.brief(),
                       wire::to_string(membership_.death_reason_of(peer)));
  }
  return std::nullopt;
}

/// Whether the successor needs nothing of this peer any more.
bool Core::ring_is_served() const {
  if (SIM_BUG(ring_left_early)) return true;
  return !ring_ || ring_->successor_has_all() || companions_.at(ring_->successor()).gone;
}

void Core::reduce(base::StepNumber step, std::vector<float> values, base::Time now, Outbox& out) {
  std::array<float, kWishes> wishes{};
  if (save_wanted_) wishes[kSaveWish] = 1;
  if (leaving_) wishes[kLeaveWish] = 1;
  values.insert(values.end(), wishes.begin(), wishes.end());
  to_ring(exchange::Ring::GradientReady{step, samples_, std::move(values)}, now, out);
  end_if_predecessor_is_gone(now, out);
}

void Core::perform(exchange::Ring::Reduced& reduced, base::Time now, Outbox& out) {
  std::vector<float>& mean = reduced.mean;
  const float* const wishes = &*(mean.end() - kWishes);
  ring_stops_ = wishes[kLeaveWish] > 0;
  const bool save_now = ring_stops_ || wishes[kSaveWish] > 0;
  mean.resize(mean.size() - kWishes);
  if (config_.exchange.mode == Mode::local) {
    out.push_back(Run{OuterStepJob{std::move(mean)}});
  } else {
    out.push_back(Run{ApplyJob{std::move(mean), learning_rate_}});
  }
  if (!save_now) return;
  save_wanted_ = false;
  if (checkpoint_at_) checkpoint_at_ = now + config_.checkpoint_every;
  save(out);
}

/// Whether it still needs all of its peers.
bool Core::ring_goes_on() const noexcept {
  return ring_ && phase_ == Phase::training && !ring_stops_;
}

/// Peers need not all find the same accuracy: with another device, or another number of threads, a
/// sum is rounded otherwise.
void Core::end_if_predecessor_is_gone(base::Time now, Outbox& out) {
  if (!ring_goes_on() || !ring_->is_waiting()) return;
  if (!companions_.at(ring_->predecessor()).gone) return;
  end_broken_ring(dead_companion().value_or("another peer has ended its run"), now, out);
}

/// Not while an evaluation may still find that the run has reached its target.
void Core::end_if_ring_has_stopped(base::Time now, Outbox& out) {
  if (!ring_stops_ || phase_ != Phase::training || evaluations_outstanding_ > 0) return;
  end_broken_ring("another peer was asked to leave", now, out);
}

void Core::end_broken_ring(const std::string& what, base::Time now, Outbox& out) {
  end({leaving_ ? EndReason::left : EndReason::failed,
       {base::ErrorCode::network,
        fmt::format("{}: exchange.mode = \"{}\" cannot go on without it; start all again to go on "
                    "from their last common checkpoint, or use \"tracked\"",
                    what, base::name_of(config_.exchange.mode, kModeNames))}},
      now, out);
}

}  // namespace starling::peer
