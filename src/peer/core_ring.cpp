// What a peer does about its ring, and where that ends the peer.
#include <string>
#include <utility>

#include <fmt/core.h>

#include "peer/core.hpp"

namespace starling::peer {

using exchange::Mode;

void Core::perform(const ring::Member::Made&, base::Time, Outbox& out) {
  if (config_.exchange.mode != Mode::local) return;
  out.push_back(Run{AnchorJob{static_cast<float>(config_.exchange.outer_lr),
                              static_cast<float>(config_.exchange.outer_momentum)}});
}

void Core::perform(ring::Member::Send& send, base::Time, Outbox& out) {
  send_to(send.peer, std::move(send.message), out);
}

void Core::perform(ring::Member::Averaged& averaged, base::Time now, Outbox& out) {
  if (config_.exchange.mode == Mode::local) {
    out.push_back(Run{OuterStepJob{std::move(averaged.mean)}});
  } else {
    out.push_back(Run{ApplyJob{std::move(averaged.mean), learning_rate_}});
  }
  if (!averaged.save) return;
  if (checkpoint_at_) checkpoint_at_ = now + config_.checkpoint_every;
  save(out);
}

void Core::perform(const ring::Member::Misbehaved& who, base::Time now, Outbox& out) {
  misbehaved(link_of(who.peer), who.peer, who.text, now, out);
}

void Core::perform(const ring::Member::Served&, base::Time now, Outbox& out) {
  end_if_over(now, out);
}

void Core::perform(const ring::Member::Broken& broken, base::Time now, Outbox& out) {
  end_broken_ring(dead_companion().value_or(broken.text), now, out);
}

void Core::perform(ring::Member::Failed& failed, base::Time now, Outbox& out) {
  end({EndReason::failed, std::move(failed.error)}, now, out);
}

// Of those without a link the member table tells whether they come back. They may have been done.
void Core::look_for_companions(base::Time now, Outbox& out) {
  for (const base::PeerId& peer : agreement_.companions()) {
    const wire::MemberRecord* record = membership_.table().find(peer);
    if (record == nullptr || membership::counts_as_alive(record->state)) continue;
    to_ring(ring::Member::HeldLost{peer}, now, out);
    if (phase_ == Phase::done) return;
  }
}

// What the ring lacks is told by the member table where that knows more.
std::optional<std::string> Core::dead_companion() const {
  for (const base::PeerId& peer : agreement_.companions()) {
    const wire::MemberRecord* record = membership_.table().find(peer);
    if (record == nullptr || record->state != wire::MemberState::dead) continue;
    return fmt::format("peer {} is dead ({})", peer.brief(),
                       wire::to_string(membership_.death_reason_of(peer)));
  }
  return std::nullopt;
}

// Not while an evaluation may still find that the run has reached its target.
void Core::end_if_ring_has_stopped(base::Time now, Outbox& out) {
  if (!agreement_.stops()) return;
  if (phase_ != Phase::training || evaluations_outstanding_ > 0) return;
  end_broken_ring("another peer was asked to leave", now, out);
}

void Core::end_broken_ring(const std::string& what, base::Time now, Outbox& out) {
  end({leaving_ ? EndReason::left : EndReason::failed,
       {base::ErrorCode::network,
        fmt::format("{}: exchange.mode = \"{}\" cannot go on without it; start all again to go on "
                    "from their last common checkpoint, or use \"tracked\"",
                    what, base::name_of(config_.exchange.mode, exchange::kModeNames))}},
      now, out);
}

}  // namespace starling::peer
