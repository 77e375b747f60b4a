#include "ring/member.hpp"

#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::ring {
namespace {

/// These follow the elements that a ring averages. With them a peer asks the others for something
/// at the end of this step. The mean is above 0 if at least one of them asks, so all find out at
/// the same step.
constexpr std::size_t kSaveWish = 0;   ///< a checkpoint, which all save
constexpr std::size_t kLeaveWish = 1;  ///< to leave, with a checkpoint
constexpr std::size_t kWishes = 2;

using base::ErrorCode;
using base::PeerId;
using membership::LossReason;

}  // namespace

Member::Member(const Options& options)
    : options_(options), gathering_(options.peers, options.elements + kWishes) {}

void Member::handle(Event event, base::Time now, Actions& out) {
  std::visit([&](auto& value) { on(value, now, out); }, event);
}

std::optional<base::Time> Member::next_deadline() const {
  base::Earliest next;
  next.add(gathering_.due());
  next.add(links_until_);
  return next.value();
}

void Member::expire(base::Time now, Actions& out) {
  if (gathering_.due() && *gathering_.due() <= now) make(out);
  if (!links_until_ || *links_until_ > now) return;
  links_until_.reset();
  for (const PeerId& peer : {ring_->predecessor(), ring_->successor()}) {
    if (companions_.at(peer).linked) continue;
    lose(peer, fmt::format("was not reached for {:.0f} s", base::seconds(kGrace)), out);
  }
}

void Member::finish() noexcept {
  finished_ = true;
  gathering_.stop();
}

bool Member::is_served() const {
  if (SIM_BUG(ring_left_early)) return true;
  return !ring_ || ring_->successor_has_all() || companions_.at(ring_->successor()).gone;
}

bool Member::admits(const PeerId& peer) const { return !ring_ || ring_->contains(peer); }

base::StepNumber Member::step() const {
  ASSERT(ring_);
  return ring_->step();
}

std::vector<PeerId> Member::others() const {
  std::vector<PeerId> others;
  for (const auto& [peer, arrival] : gathering_.arrivals()) others.push_back(peer);
  for (const auto& [peer, companion] : companions_) others.push_back(peer);
  return others;
}

void Member::on(const LinkUp& event, base::Time now, Actions& out) {
  const PeerId& peer = event.peer;
  if (!ring_) {
    gathering_.link_up(peer, now);
    return tell(peer, {options_.first, 0}, out);
  }
  if (const auto found = companions_.find(peer); found != companions_.end()) {
    found->second.linked = true;
    found->second.gone = false;  // it was only held dead; if it has a new life, it says so itself
  }
  if (peer == ring_->successor()) to_ring(Ring::SuccessorLost{}, out);
  tell(peer, ring_->received(), out);
  watch_links(now);
}

void Member::on(const LinkDown& event, base::Time now, Actions& out) {
  const auto& [peer, reason] = event;
  if (!ring_) {
    gathering_.link_down(peer, now);
    // A peer that waits has no ring with it, and never will.
    if (reason != LossReason::done || finished_) return;
    out.emplace_back(Failed{
        {ErrorCode::data, fmt::format("peer {} has ended this run, and this peer's checkpoint is "
                                      "of step {} (0: none): take the model of that peer",
                                      peer.brief(), options_.first.value - 1)}});
    return;
  }
  const auto found = companions_.find(peer);
  if (found == companions_.end()) return;
  found->second.linked = false;
  if (peer == ring_->successor()) to_ring(Ring::SuccessorLost{}, out);
  if (reason == LossReason::done) {
    part_with(found->second, out);
  } else if (membership::is_for_good(reason)) {
    lose(peer, fmt::format("is gone ({})", membership::to_string(reason)), out);
  }
  watch_links(now);
}

void Member::on(Received& event, base::Time, Actions& out) {
  std::visit([&](auto& message) { take(event.peer, message, out); }, event.message);
}

void Member::take(const PeerId& peer, wire::Reduce& message, Actions& out) {
  if (ring_) {
    if (peer == ring_->predecessor()) to_ring(Ring::Received{std::move(message)}, out);
    return;
  }
  if (!gathering_.take(peer, std::move(message))) out.emplace_back(Misbehaved{peer, kUnasked});
}

void Member::take(const PeerId& peer, const wire::ReduceReceived& message, Actions& out) {
  if (!ring_) return gathering_.take(peer, message);
  const auto found = companions_.find(peer);
  if (found == companions_.end()) return;
  Companion& companion = found->second;
  if (companion.life && *companion.life != message.life) {
    return lose(peer, "was started again", out);
  }
  companion.life = message.life;
  if (peer == ring_->successor()) {
    to_ring(Ring::SuccessorHas{{message.step, message.pieces}}, out);
    say_if_served(out);
  }
}

void Member::on(const HeldLost& event, base::Time, Actions& out) {
  const auto found = companions_.find(event.peer);
  if (!ring_ || found == companions_.end()) return;
  Companion& companion = found->second;
  if (!companion.linked && !companion.gone) part_with(companion, out);
}

void Member::on(Ready& event, base::Time, Actions& out) {
  ASSERT(goes_on() && event.gradient.size() == options_.elements);
  std::array<float, kWishes> wishes{};
  if (wishes_to_save_) wishes[kSaveWish] = 1;
  if (wishes_to_leave_) wishes[kLeaveWish] = 1;
  event.gradient.insert(event.gradient.end(), wishes.begin(), wishes.end());
  to_ring(std::move(event), out);
  break_if_predecessor_is_gone(out);
}

Member::Averaged Member::averaged(std::vector<float> mean) {
  stops_ = mean[options_.elements + kLeaveWish] > 0;
  const bool save = stops_ || mean[options_.elements + kSaveWish] > 0;
  mean.resize(options_.elements);
  if (save) wishes_to_save_ = false;
  return {std::move(mean), save};
}

void Member::to_ring(Ring::Event event, Actions& out) {
  std::vector<Ring::Action> actions;
  ring_->handle(std::move(event), actions);
  const base::Overloaded perform{
      [&](Ring::SendToSuccessor& send) {
        out.emplace_back(Send{ring_->successor(), std::move(send.message)});
      },
      [&](Ring::Reduced& reduced) { out.emplace_back(averaged(std::move(reduced.mean))); },
      [&](const Ring::TellPredecessor& told) { tell(ring_->predecessor(), told.position, out); },
      [&](Ring::Failed& failed) { out.emplace_back(Failed{std::move(failed.error)}); }};
  for (Ring::Action& action : actions) std::visit(perform, action);
}

void Member::tell(const PeerId& peer, const Ring::Position& position, Actions& out) const {
  out.emplace_back(Send{peer, wire::ReduceReceived{options_.life, position.step, position.pieces}});
}

/// A link with a neighbour in the ring may be missing for kGrace.
void Member::watch_links(base::Time now) {
  const auto is_linked = [&](const PeerId& peer) { return companions_.at(peer).linked; };
  if (is_linked(ring_->predecessor()) && is_linked(ring_->successor())) {
    links_until_.reset();
  } else if (!links_until_) {
    links_until_ = now + kGrace;
  }
}

void Member::make(Actions& out) {
  gathering_.stop();
  const std::size_t here = gathering_.arrivals().size() + 1;
  if (here > options_.peers) {  // each might leave out a different one
    out.emplace_back(Failed{
        {ErrorCode::run_file,
         fmt::format("{0} peers are here, and swarm.peers says {1}: start that many, or set it "
                     "to {0} at all of them",
                     here, options_.peers)}});
    return;
  }
  std::vector<PeerId> peers = others();
  peers.push_back(options_.self);
  ring_.emplace(std::move(peers), options_.self, options_.elements + kWishes, options_.first);
  Gathering::Arrivals arrivals = gathering_.end();
  for (const auto& [peer, arrival] : arrivals) companions_[peer] = {.life = arrival.life};
  out.emplace_back(Made{});
  if (const auto& has = arrivals.at(ring_->successor()).has) {
    to_ring(Ring::SuccessorHas{*has}, out);
  }
  for (wire::Reduce& message : arrivals.at(ring_->predecessor()).early) {
    to_ring(Ring::Received{std::move(message)}, out);
  }
}

/// The ring is over for this peer, unless it already was.
void Member::lose(const PeerId& peer, const std::string& what, Actions& out) {
  companions_.at(peer).gone = true;
  if (goes_on()) {
    out.emplace_back(Broken{fmt::format("peer {} {}", peer.brief(), what)});
  } else {
    say_if_served(out);
  }
}

/// Anything it has not sent by now never comes, and it no longer needs anything it lacks. A peer
/// that is done has sent everything that others need for the same last step.
void Member::part_with(Companion& companion, Actions& out) {
  companion.gone = true;
  break_if_predecessor_is_gone(out);
  say_if_served(out);
}

/// Peers may find different accuracies: another device, or another number of threads, rounds a sum
/// differently.
void Member::break_if_predecessor_is_gone(Actions& out) const {
  if (!goes_on() || !ring_->is_waiting()) return;
  if (companions_.at(ring_->predecessor()).gone) {
    out.emplace_back(Broken{"another peer has ended its run"});
  }
}

void Member::say_if_served(Actions& out) const {
  if (is_served()) out.emplace_back(Served{});
}

void Member::add_bounds(base::Bounds& out) const {
  out.add("companions in a ring", companions_.size() + gathering_.arrivals().size(),
          membership::kReadyLinksMax);
  gathering_.add_bounds(out);
}

void Member::add_timers(base::Time now, base::Bounds& out) const {
  gathering_.add_timers(now, out);
  if (links_until_) out.add_timer("the wait for a link of the ring", *links_until_, now, kGrace);
}

}  // namespace starling::ring
