// What is looked at once a virtual second, of all peers, and what must hold once all faults have
// been over for long enough.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "membership/limits.hpp"
#include "sim/checks.hpp"
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
/// Of the replicas of a swarm that has recovered: relative to their mean, and to the optimum.
constexpr double kDistanceMax = 0.2;
/// Of their buffers, which each peer draws its own way at every step.
constexpr double kBufferDistanceMax = 0.25;
/// Where rare branches drop links all the time, they have fewer exchanges to come together in.
constexpr double kBufferDistanceRareMax = 0.35;
/// Of what two ends' commits add up to: rounding.
constexpr double kBalance = 1e-6;
/// Jobs of a peer and frames on its links that may wait when nothing disturbs it.
constexpr std::size_t kJobsWaitingMax = 16;
constexpr std::size_t kFramesWaitingMax = 64;
/// After the last start tables and links are still filled for so long; and over how long, at
/// least, what membership sends is measured then.
constexpr double kJoinSeconds = 30;
constexpr double kRateSeconds = 10;

}  // namespace

bool Checks::one_view() const {
  std::size_t running = 0;
  for (const auto& node : world_.nodes()) {
    running += world_.is_up(*node) && node->number == node->peer ? 1 : 0;
  }
  if (running == 0) return false;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->number != node->peer) continue;
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

bool Checks::views_full() const {
  if (!world_.task().config.membership.hub.empty()) return connected();
  const auto runs = [&](const auto& node) {
    return world_.is_up(*node) && node->number == node->peer;
  };
  const auto running = static_cast<std::size_t>(std::ranges::count_if(world_.nodes(), runs));
  if (running == 0) return false;
  const std::size_t wanted =
      std::min<std::size_t>(world_.task().config.membership.degree, running - 1);
  return std::ranges::all_of(world_.nodes(), [&](const auto& node) {
    return !runs(node) || node->core->membership().neighbours(world_.local(*node)).size() >= wanted;
  });
}

bool Checks::connected() const {
  std::map<base::PeerId, const Node*> running;
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node)) running.emplace(node->id, node.get());
  }
  if (running.empty()) return false;
  std::set<base::PeerId> seen{running.begin()->first};
  std::vector<const Node*> open{running.begin()->second};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const auto& neighbour : node->core->membership().neighbours(world_.local(*node))) {
      const auto other = running.find(neighbour.peer);
      if (other == running.end() || !seen.insert(neighbour.peer).second) continue;
      open.push_back(other->second);
    }
  }
  return seen.size() == running.size();
}

// Of links that both ends hold.
std::optional<double> Checks::gap() const {
  std::map<base::PeerId, std::uint32_t> running;
  for (const auto& node : world_.nodes()) {
    if (world_.is_up(*node) && node->number == node->peer) {
      running.emplace(node->id, static_cast<std::uint32_t>(running.size()));
    }
  }
  if (running.empty()) return std::nullopt;
  std::set<Edge> told;
  for (const auto& node : world_.nodes()) {
    const auto own = running.find(node->id);
    if (!world_.is_up(*node) || own == running.end()) continue;
    for (const auto& neighbour : node->core->membership().neighbours(world_.local(*node))) {
      const auto other = running.find(neighbour.peer);
      if (other != running.end()) told.emplace(own->second, other->second);
    }
  }
  std::vector<Edge> edges;
  for (const auto& [a, b] : told) {
    if (a < b && told.contains({b, a})) edges.emplace_back(a, b);
  }
  return spectral_gap(running.size(), edges);
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
    fail(fmt::format("peer-{} knows {} counters of {} peers", node.peer, table.size(),
                     subjects_.size()));
  }
  if (has_twins_) return;  // two count under one name
  for (const Subject& subject : subjects_) {
    const wire::Progress* known = table.find(subject.prefix);
    if (known == nullptr || known->samples <= subject.samples + kSamplesSlack) continue;
    fail(fmt::format("peer-{} knows of {} samples of peer-{}, which has {}", node.peer,
                     known->samples, subject.node, subject.samples));
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
    fail(fmt::format("of {} and {} exchanges of peer-{} and peer-{} {} is left over",
                     mine.committed.value, theirs.committed.value, node.peer, other.peer,
                     *here + *there));
  }
}

// Where a peer may end with an error, it may be because it diverged.
void Checks::check_finite(const Node& node) {
  if (failures_are_expected()) return;
  const exchange::Replica& replica = node.worker->replica();
  scratch_.resize(replica.size());
  replica.read(scratch_);
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(scratch_, finite)) {
    fail(fmt::format("the replica of peer-{} is not finite", node.peer));
  }
}

// Beside the parameters, and not in the ledger: averages need not add up.
void Checks::check_buffers(const Node& node) {
  const exchange::BufferSpec& spec = world_.task().buffers;
  const auto values = node.worker->replica().buffers().values();
  if (values.size() != spec.initial.size()) {
    return fail(fmt::format("peer-{} has {} buffers", node.peer, values.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] >= spec.least[i]) continue;
    return fail(fmt::format("buffer {} of peer-{} is {}", i, node.peer, values[i]));
  }
}

// Once nothing disturbs any more, nothing waits for long.
void Checks::check_queues(const Node& node) {
  if (!node.held.empty() && node.state == NodeState::running) {
    fail(fmt::format("peer-{} has not taken {} events", node.peer, node.held.size()));
  }
  if (node.worker->waiting() > kJobsWaitingMax) {
    fail(fmt::format("{} jobs of peer-{} wait", node.worker->waiting(), node.peer));
  }
  const std::size_t unsent = world_.unsent(node);
  if (unsent > kFramesWaitingMax) fail(fmt::format("{} frames of peer-{} wait", unsent, node.peer));
}

void Checks::check_dials(const Node& node) {
  if (world_.plan().scenario.sim.buggify) return;  // drops links all the time
  const double up = world_.seconds() - base::seconds(node.started - World::kStart);
  if (static_cast<double>(node.dials) > kDialsAtOnce + kDialsEachSecond * up) {
    fail(fmt::format("peer-{} has dialed {} times in {:.0f} s", node.peer, node.dials, up));
  }
}

void Checks::measure() {
  const double now = world_.seconds();
  measure_drift();
  if (now >= last_fault_ && !one_view_at_ && one_view()) one_view_at_ = now;
  if (now >= last_start_ && !views_full_at_ && views_full()) views_full_at_ = now;
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
  const auto apart = mean_distance();
  if (!apart) return;
  if (before) {
    const double known = drift_before_.value_or(*apart);
    drift_before_ = known + 0.1 * (*apart - known);
  }
  if (after && drift_before_ && *apart <= 1.1 * *drift_before_ && connected() && all_linked()) {
    drift_back_at_ = now;
  }
}

bool Checks::all_linked() const {
  return std::ranges::all_of(world_.nodes(), [&](const auto& node) {
    return !world_.is_up(*node) || node->core->exchange().open_links() > 0;
  });
}

// Since its tables were filled, of each life that lasts long enough.
void Checks::measure_membership() {
  const double now = world_.seconds();
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->number != node->peer) continue;
    const double started = base::seconds(node->started - World::kStart);
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
    check_finite(*node);
    check_buffers(*node);
    look_at_table(*node);
    check_stage(*node);
  }
  for (std::size_t i = 0; i < std::min(kTablesEachSecond, nodes.size()); ++i) {
    const Node& node = *nodes[looked_at_++ % nodes.size()];
    if (!world_.is_up(node)) continue;
    check_counters(node);
    check_dials(node);
    check_timers(node);
    check_progress(node);
    check_suspicions(node);
  }
  const double now = world_.seconds();
  check_end();
  const Scenario& scenario = world_.plan().scenario;
  if (scenario.sim.buggify && now > scenario.duration - kMomentSeconds && connected()) {
    connected_at_ = now;
  }
  if (!gap_ && now >= last_start_ + kJoinSeconds) gap_ = gap();
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

// Each shard has one owner.
void Checks::check_shards() {
  std::map<std::uint32_t, std::size_t> owners;
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node)) continue;
    for (const std::uint32_t shard : node->worker->shards()) ++owners[shard];
  }
  const std::size_t shards = world_.task().shards->count();
  if (owners.size() != shards)
    fail(fmt::format("{} of {} shards are owned", owners.size(), shards));
  for (const auto& [shard, count] : owners) {
    if (count > 1) fail(fmt::format("shard {} has {} owners", shard, count));
  }
}

void Checks::check_agreement() {
  if (!exchange::uses_links(world_.task().config.exchange.mode)) return;
  const auto near = [&](const char* what, const std::optional<double>& value) {
    if (value && !(*value <= kDistanceMax))
      fail(fmt::format("replicas are {} from {}", *value, what));
  };
  near("their mean", distance(false));
  near("the optimum", optimum_distance());
  const auto buffers = buffer_distance();
  const bool rare = world_.plan().scenario.sim.buggify;
  if (buffers && !(*buffers <= (rare ? kBufferDistanceRareMax : kBufferDistanceMax))) {
    fail(fmt::format("buffers are {} from their mean", *buffers));
  }
}

}  // namespace starling::sim
