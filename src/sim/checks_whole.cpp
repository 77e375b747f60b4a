// What is looked at once a virtual second, of all peers, and what must hold once all faults have
// been over for long enough.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "membership/limits.hpp"
#include "sim/checks.hpp"
#include "sim/checks/replicas.hpp"
#include "sim/checks/soundness.hpp"
#include "sim/checks/survey.hpp"
#include "sim/spectral_gap.hpp"

namespace starling::sim {
namespace {

/// Tables of so many peers are looked at in a second, each in turn.
constexpr std::size_t kTablesEachSecond = 32;
/// A counter is told before its owner publishes it; a step or a few of them.
constexpr std::uint64_t kSamplesSlack = 256;
/// Links that a peer may dial: at the start, and for each second it runs.
constexpr double kDialsAtOnce = 200;
constexpr double kDialsEachSecond = 2;
/// Of what two ends' commits add up to: rounding.
constexpr double kBalance = 1e-6;
/// Over how long, at least, what membership sends is measured.
constexpr double kRateSeconds = 10;

}  // namespace

bool Checks::one_view() const {
  std::size_t running = 0;
  for (const auto& node : world_.nodes()) {
    running += world_.is_up(*node) && !node->is_twin() ? 1 : 0;
  }
  if (running == 0) return false;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->is_twin()) continue;
    const View& view = views_[node->number];
    std::size_t held = 0;
    for (std::size_t i = 0; i < view.alive.size(); ++i) {
      if (!view.alive[i]) continue;
      if (!subjects_[i].running) return false;
      ++held;
    }
    if (held != running) return false;
  }
  return true;
}

// What a peer has trained, by its own word.
void Checks::note_samples(const Node& node) {
  if (!node.core) return;
  const wire::Progress* own = node.core->membership().progress().find(node.id.prefix());
  Subject& self = subjects_[own_[node.number]];
  if (own != nullptr) self.samples = std::max(self.samples, own->samples);
}

void Checks::check_counters(const Node& node) {
  const membership::ProgressTable& table = node.core->membership().progress();
  if (table.size() > subjects_.size()) {
    alarm_.raise("peer-{} knows {} counters of {} peers", node.peer, table.size(),
                 subjects_.size());
  }
  if (has_twins_) return;  // two count under one name
  for (const Subject& subject : subjects_) {
    const wire::Progress* known = table.find(subject.prefix);
    if (known == nullptr || known->samples <= subject.samples + kSamplesSlack) continue;
    alarm_.raise("peer-{} knows of {} samples of peer-{}, which has {}", node.peer, known->samples,
                 subject.node, subject.samples);
  }
}

// The ledger: what exchanges took from one replica they gave to another. Of each link whose ends
// have not lost each other since it was opened, the commits of both ends add up to nothing.
void Checks::check_balance(const Node& node) {
  if (has_twins_) return;
  for (const auto& [peer, mine] : node.worker->ledger()) {
    const Node& other = *world_.nodes()[subjects_[subject_of(peer)].node];
    if (!world_.is_up(other) || other.id != peer || other.number < node.number) continue;
    const auto found = other.worker->ledger().find(node.id);
    if (found == other.worker->ledger().end() || found->second.opening != mine.opening) continue;
    const LinkLedger& theirs = found->second;
    std::optional<double> here = mine.sum;
    std::optional<double> there = theirs.sum;
    if (mine.committed == theirs.committed.next()) here = mine.sum_before;
    if (theirs.committed == mine.committed.next()) there = theirs.sum_before;
    const bool looked_at = here && there;
    ++links_met_;
    links_balanced_ += looked_at ? 1 : 0;
    if (!looked_at) continue;
    if (std::abs(*here + *there) <= kBalance * (1 + std::abs(*here))) continue;
    alarm_.raise("of {} and {} exchanges of peer-{} and peer-{} {} is left over",
                 mine.committed.value, theirs.committed.value, node.peer, other.peer,
                 *here + *there);
  }
}

void Checks::check_dials(const Node& node) {
  if (world_.plan().scenario.sim.buggify) return;  // drops links all the time
  const double up = world_.seconds() - world_.started(node);
  if (static_cast<double>(node.dials) > kDialsAtOnce + kDialsEachSecond * up) {
    alarm_.raise("peer-{} has dialed {} times in {:.0f} s", node.peer, node.dials, up);
  }
}

void Checks::measure() {
  const double now = world_.seconds();
  measure_drift();
  if (now >= last_fault_ && !one_view_at_ && one_view()) one_view_at_ = now;
  if (now >= last_start_ && !views_full_at_ && views_full(world_)) views_full_at_ = now;
  measure_membership();
}

// Of the replicas themselves: what peers know of their drift is of their links, and of two halves
// neither knows how far away the other is. Where replicas come nearer all the time, two halves may
// be as near as all were before; they are back when they exchange.
void Checks::measure_drift() {
  if (!expects(world_.plan().scenario, Measure::drift_back_within_s)) return;
  if (!exchange::uses_links(world_.task().config.exchange.mode)) return;
  const double now = world_.seconds();
  const bool before = first_fault_ < 0 || now < first_fault_;
  const bool after = now >= last_fault_ && !drift_back_at_;
  if (!before && !after) return;
  const auto apart = mean_distance(world_);
  if (!apart) return;
  if (before) {
    const double known = drift_before_.value_or(*apart);
    drift_before_ = known + 0.1 * (*apart - known);
  }
  if (after && drift_before_ && *apart <= 1.1 * *drift_before_ && connected(world_) &&
      all_linked(world_)) {
    drift_back_at_ = now;
  }
}

// Since its tables were filled, of each life that lasts long enough.
void Checks::measure_membership() {
  const double now = world_.seconds();
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->is_twin()) continue;
    const double started = world_.started(*node);
    if (now < std::max(last_start_, started) + kJoinSeconds) continue;
    const auto at = quiet_.find(node->number);
    if (at == quiet_.end() || at->second.life != node->life) {
      quiet_[node->number] = {node->life, now, node->membership_bytes};
      continue;
    }
    const double passed = now - at->second.since;
    if (passed < kRateSeconds) continue;
    const auto sent = static_cast<double>(node->membership_bytes - at->second.bytes);
    membership_rates_[node->number] = sent / passed;
  }
}

void Checks::second() {
  measure();
  const auto& nodes = world_.nodes();
  for (const auto& node : nodes) {
    if (!world_.is_up(*node)) continue;
    note_samples(*node);
    check_balance(*node);
    check_finite(world_, *node, alarm_);
    check_buffers(world_, *node, alarm_);
    look_at_table(*node);
    check_stage(*node);
  }
  for (std::size_t i = 0; i < std::min(kTablesEachSecond, nodes.size()); ++i) {
    const Node& node = *nodes[looked_at_++ % nodes.size()];
    if (!world_.is_up(node)) continue;
    check_counters(node);
    check_dials(node);
    check_timers(world_, node, alarm_);
    check_progress(node);
    check_suspicions(node);
  }
  const double now = world_.seconds();
  check_end();
  const Scenario& scenario = world_.plan().scenario;
  if (scenario.sim.buggify && now > scenario.duration - kMomentSeconds && connected(world_)) {
    connected_at_ = now;
  }
  if (!gap_ && now >= last_start_ + kJoinSeconds) gap_ = sim::overlay_gap(world_);
  look_at_window();
  const bool ended =
      std::ranges::all_of(nodes, [&](const auto& node) { return !world_.is_up(*node); });
  if (ended && now > last_start_ && now > last_fault_) world_.stop();
}

// The most that a peer sent a second.
std::optional<double> Checks::membership_rate() const {
  std::optional<double> most;
  for (const auto& [node, rate] : membership_rates_) most = std::max(most.value_or(0), rate);
  return most;
}

}  // namespace starling::sim
