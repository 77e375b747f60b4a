#include "peer/agreement.hpp"

#include <utility>

namespace starling::peer {
namespace {

using exchange::Mode;

bool is_over(const std::optional<base::Time>& deadline, base::Time now) {
  return deadline && *deadline <= now;
}

exchange::Options options_of(const Config& config, const Resume& resume) {
  return {.config = config.exchange,
          .elements = config.parameter_count,
          .buffers = config.buffer_count,
          .samples_target = config.target_samples,
          .has_state = resume.step.value > 0,
          .step = resume.step,
          .samples = resume.samples,
          .progress = resume.progress};
}

}  // namespace

Agreement::Agreement(const Config& config, const base::PeerId& self, const Resume& resume,
                     base::Rng& rng)
    : mode_(config.exchange.mode), exchange_(options_of(config, resume), rng.fork()) {
  const std::uint64_t life = rng();  // tells this process from an earlier one
  if (!exchange::uses_ring(mode_)) return;
  ring_.emplace(ring::Member::Options{.self = self,
                                      .peers = config.peers,
                                      .elements = config.parameter_count + config.buffer_count,
                                      .first = resume.step.next(),
                                      .life = life});
}

void Agreement::link_up(const base::PeerId& peer, base::Time now, Outbox& out) {
  if (ring_) handle(ring::Member::LinkUp{peer}, now, out);
  if (has_links()) handle(exchange::NeighbourUp{peer}, now, out);
}

void Agreement::link_down(const base::PeerId& peer, membership::LossReason reason, base::Time now,
                          Outbox& out) {
  if (has_links()) {
    handle(exchange::NeighbourDown{peer, membership::is_for_good(reason)}, now, out);
  }
  if (ring_) handle(ring::Member::LinkDown{peer, reason}, now, out);
}

void Agreement::handle(exchange::Event event, base::Time now, Outbox& out) {
  exchange_.handle(std::move(event), now, out.exchange);
}

void Agreement::handle(ring::Member::Event event, base::Time now, Outbox& out) {
  ring_->handle(std::move(event), now, out.ring);
}

std::optional<base::Time> Agreement::next_deadline() const {
  base::Earliest next;
  next.add(exchange_.next_deadline());
  if (ring_) next.add(ring_->next_deadline());
  return next.value();
}

void Agreement::expire(base::Time now, Outbox& out) {
  if (is_over(exchange_.next_deadline(), now)) exchange_.expire(now, out.exchange);
  if (ring_ && is_over(ring_->next_deadline(), now)) ring_->expire(now, out.ring);
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

std::vector<base::PeerId> Agreement::companions() const {
  return ring_ && ring_->is_made() ? ring_->others() : std::vector<base::PeerId>{};
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
