#include "peer/agreement.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

namespace starling::peer {
namespace {

using exchange::Mode;

bool is_over(const std::optional<base::Time>& deadline, base::Time now) {
  return deadline && *deadline <= now;
}

exchange::Options options_of(const Config& config, const Resume& resume) {
  return {
      .config = config.exchange,
      .elements = config.parameter_count,
      .buffers = config.buffer_count,
      .samples_target = config.target_samples,
      .weighs_by_speed = config.weighs_by_speed,
      .has_state = resume.step.value > 0,
      .step = resume.step,
      .weight = config.weighs_by_speed && resume.step.value > 0 ? resume.weight : std::int8_t{0},
      .samples = resume.samples,
      .progress = resume.progress};
}

/// Those without whom a peer that goes in step cannot go on.
std::vector<base::PeerId> companions(const std::optional<ring::Member>& ring) {
  return ring && ring->is_made() ? ring->others() : std::vector<base::PeerId>{};
}

/// Of those without a link the member table tells whether they come back. They may have been done.
std::vector<base::PeerId> lost_companions(const std::optional<ring::Member>& ring,
                                          const membership::Core& membership) {
  std::vector<base::PeerId> lost = companions(ring);
  std::erase_if(lost, [&](const base::PeerId& peer) {
    const wire::MemberRecord* record = membership.table().find(peer);
    return record == nullptr || membership::counts_as_alive(record->state);
  });
  return lost;
}

/// The member table may know more of who is missing than the ring does.
std::optional<std::string> dead_companion(const std::optional<ring::Member>& ring,
                                          const membership::Core& membership) {
  for (const base::PeerId& peer : companions(ring)) {
    const wire::MemberRecord* record = membership.table().find(peer);
    if (record == nullptr || record->state != wire::MemberState::dead) continue;
    return fmt::format("peer {} is dead ({})", peer.brief(),
                       wire::to_string(membership.death_reason_of(peer)));
  }
  return std::nullopt;
}

bool is_end(const Agreement::Action& action) {
  return std::holds_alternative<Agreement::Broken>(action);
}

}  // namespace

Agreement::Agreement(const Config& config, const membership::Core& membership, const Resume& resume,
                     base::Rng& rng)
    : config_(config),
      membership_(membership),
      mode_(config.exchange.mode),
      exchange_(options_of(config, resume), rng.fork()) {
  const std::uint64_t life = rng();  // tells this process from an earlier one
  if (!exchange::uses_ring(mode_)) return;
  ring_.emplace(ring::Member::Options{.self = membership.self().id,
                                      .peers = config.peers,
                                      .elements = config.parameter_count + config.buffer_count,
                                      .first = resume.step.next(),
                                      .life = life});
}

void Agreement::handle(Event event, base::Time now, Outbox& out) {
  std::visit(
      [&](auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, LinkUp>) {
          if (ring_) to_ring(ring::Member::LinkUp{value.peer}, now, out);
          if (has_links()) to_exchange(exchange::NeighbourUp{value.peer}, now, out);
        } else if constexpr (std::is_same_v<T, LinkDown>) {
          if (has_links()) {
            const bool done = value.reason == membership::LossReason::done;
            const bool for_good = membership::is_for_good(value.reason);
            to_exchange(exchange::NeighbourDown{value.peer, for_good, done}, now, out);
          }
          if (ring_) to_ring(ring::Member::LinkDown{value.peer, value.reason}, now, out);
        } else if constexpr (std::is_same_v<T, Received>) {
          std::visit(
              [&](auto& message) {
                using M = std::decay_t<decltype(message)>;
                if constexpr (std::is_same_v<M, wire::Reduce> ||
                              std::is_same_v<M, wire::ReduceReceived>) {
                  to_ring(ring::Member::Received{value.peer, std::move(message)}, now, out);
                } else {
                  to_exchange(exchange::Received{value.peer, std::move(message), value.took}, now,
                              out);
                }
              },
              value.message);
        } else if constexpr (std::is_same_v<T, Contribution>) {
          to_ring(ring::Member::Ready{value.step.value_or(ring_->step()), value.samples,
                                      std::move(value.values)},
                  now, out);
        } else if constexpr (std::is_same_v<T, MembersChanged>) {
          for (const base::PeerId& peer : lost_companions(ring_, membership_)) {
            to_ring(ring::Member::HeldLost{peer}, now, out);
            if (std::ranges::any_of(out, is_end)) return;
          }
        } else if constexpr (std::is_same_v<T, exchange::Outcome>) {
          to_exchange(exchange::event_of(std::move(value)), now, out);
        } else {
          to_exchange(value, now, out);
        }
      },
      event);
}

void Agreement::to_exchange(exchange::Event event, base::Time now, Outbox& out) {
  exchange::Outbox actions;
  exchange_.handle(std::move(event), now, actions);
  take(actions, out);
}

void Agreement::to_ring(ring::Member::Event event, base::Time now, Outbox& out) {
  std::vector<ring::Member::Action> actions;
  ring_->handle(std::move(event), now, actions);
  take(actions, out);
}

void Agreement::take(exchange::Outbox& actions, Outbox& out) {
  if (!has_links()) return;  // whoever sends deltas to this peer gets no answer
  if (exchange_.open_links() > 0) drift_ = exchange_.drift();
  const auto is_last = [](const exchange::Action& action) {
    if (std::holds_alternative<NoRoom>(action)) return 2;
    return std::holds_alternative<Misbehaved>(action) ? 1 : 0;
  };
  std::ranges::stable_sort(actions, {}, is_last);
  for (exchange::Action& action : actions) {
    std::visit(
        [&](auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, exchange::Run>) {
            out.emplace_back(Run{std::move(value.job)});
          } else {
            out.emplace_back(std::move(value));
          }
        },
        action);
  }
}

void Agreement::take(std::vector<ring::Member::Action>& actions, Outbox& out) {
  using ring::Member;
  for (Member::Action& action : actions) {
    std::visit(
        [&](auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, Member::Made>) {
            if (!has_rounds()) return;
            out.emplace_back(Run{AnchorJob{static_cast<float>(config_.exchange.outer_lr),
                                           static_cast<float>(config_.exchange.outer_momentum)}});
          } else if constexpr (std::is_same_v<T, Member::Send>) {
            out.emplace_back(Send{value.peer, std::move(value.message)});
          } else if constexpr (std::is_same_v<T, Member::Averaged>) {
            if (has_rounds()) {
              out.emplace_back(Run{OuterStepJob{std::move(value.mean)}});
            } else {
              out.emplace_back(Run{ApplyJob{std::move(value.mean), learning_rate_}});
            }
            if (value.save) out.emplace_back(SaveTogether{});
          } else if constexpr (std::is_same_v<T, Member::Misbehaved>) {
            out.emplace_back(Misbehaved{value.peer, std::move(value.text)});
          } else if constexpr (std::is_same_v<T, Member::Served>) {
            out.emplace_back(Served{});
          } else if constexpr (std::is_same_v<T, Member::Broken>) {
            out.emplace_back(
                Broken{end_by(dead_companion(ring_, membership_).value_or(value.text))});
          } else {
            out.emplace_back(Failed{std::move(value.error)});
          }
        },
        action);
  }
}

std::optional<base::Time> Agreement::next_deadline() const {
  base::Earliest next;
  next.add(exchange_.next_deadline());
  if (ring_) next.add(ring_->next_deadline());
  return next.value();
}

void Agreement::expire(base::Time now, Outbox& out) {
  if (is_over(exchange_.next_deadline(), now)) {
    exchange::Outbox actions;
    exchange_.expire(now, actions);
    take(actions, out);
  }
  if (ring_ && is_over(ring_->next_deadline(), now)) {
    std::vector<ring::Member::Action> actions;
    ring_->expire(now, actions);
    take(actions, out);
  }
}

void Agreement::finish() noexcept {
  if (ring_) ring_->finish();
}

void Agreement::wish_to_leave() noexcept {
  if (ring_) ring_->wish_to_leave();
}

bool Agreement::saves_together() noexcept {
  if (is_needed()) ring_->wish_to_save();
  return is_needed();
}

Job Agreement::begin_step(float learning_rate, double part) {
  learning_rate_ = learning_rate;
  if (mode_ == Mode::allreduce) return GradientJob{};
  return StepJob{static_cast<float>(learning_rate * part)};
}

std::optional<Job> Agreement::begin_average(bool over) {
  const bool complete = round_steps_ >= config_.exchange.every || (over && round_steps_ > 0);
  if (!has_rounds() || averaging_ || !complete) return std::nullopt;
  averaging_ = true;
  round_steps_ = 0;
  return OuterGradientJob{};
}

bool Agreement::may_start(std::size_t neighbours, std::size_t enough, bool waits, bool over) const {
  // In a run that is over nobody waits for another: each may be gone already.
  if (ring_) return over || ring_->is_made();
  const std::size_t links = mode_ == Mode::none ? neighbours : exchange_.open_links();
  if (links < enough && waits) return false;
  // A peer that takes over another's replica must not train before it has it.
  return !exchange_.adopting();
}

// An evaluation may end the run, and all that go in step must find so before the same step. Who
// leaves them does so at a step that all agree on.
bool Agreement::may_step(bool leaves, bool under_way) const {
  if (ring_) return !under_way;
  // Steps made while another's replica is being taken over would be lost.
  return !leaves && !exchange_.adopting();
}

base::Error Agreement::end_by(const std::string& what) const {
  return {
      base::ErrorCode::network,
      fmt::format("{}: exchange.mode = \"{}\" cannot go on without it; start all again to go on "
                  "from their last common checkpoint, or use \"tracked\"",
                  what, base::name_of(mode_, exchange::kModeNames))};
}

void Agreement::add_bounds(std::size_t neighbours, base::Bounds& out) const {
  if (ring_) ring_->add_bounds(out);
  exchange_.add_bounds(neighbours, out);
}

void Agreement::add_timers(base::Time now, base::Bounds& out) const {
  if (ring_) ring_->add_timers(now, out);
  exchange_.add_timers(now, out);
}

}  // namespace starling::peer
