#include "sim/checks.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "membership/limits.hpp"
#include "sim/checks/soundness.hpp"

namespace starling::sim {
namespace {

/// A peer that a fault has concerned is not called healthy for so long after it, in seconds.
constexpr double kConvalescence = 30;
/// Tables of more members are looked at this often, in seconds; smaller ones after each change.
constexpr std::size_t kLargeTable = 64;
constexpr double kLargeTablePause = 0.25;
/// A minute, less what a change may be seen late by.
constexpr double kVerdictWindow = 59;

bool lasts(Kind kind) {
  return kind == Kind::stop || kind == Kind::partition || kind == Kind::degrade ||
         kind == Kind::throttle || kind == Kind::skew || kind == Kind::twin;
}

bool counts_alive(const wire::MemberRecord& record) {
  return membership::counts_as_alive(record.state);
}

}  // namespace

Checks::Checks(World& world)
    : world_(world),
      alarm_(world),
      own_(world.nodes().size()),
      has_twins_(has_event(world.plan(), Kind::twin)),
      is_clear_(is_clear(world.plan())),
      verdicts_(world.plan()),
      disturbances_(world.nodes().size()) {
  views_.resize(own_.size());
  stages_.resize(own_.size());
  left_at_.assign(own_.size(), -1);
  const FaultTimes times = fault_times(world.plan());
  first_fault_ = times.first;
  last_fault_ = times.last;
  last_start_ = times.last_start;
  world.set_observer(this);
}

std::uint32_t Checks::subject_of(const base::PeerId& id) {
  const auto [at, is_new] =
      by_prefix_.try_emplace(id.prefix(), static_cast<std::uint32_t>(subjects_.size()));
  if (is_new) subjects_.push_back({.prefix = id.prefix()});
  return at->second;
}

void Checks::started(Node& node) {
  if (node.number >= own_.size()) own_.resize(node.number + 1);
  if (node.number >= views_.size()) views_.resize(node.number + 1);
  if (node.number >= stages_.size()) stages_.resize(node.number + 1);
  last_change_ = world_.seconds();
  const std::uint32_t subject = subject_of(node.id);
  own_[node.number] = subject;
  views_[node.number] = {};
  stages_[node.number] = {node.core->phase(), world_.seconds()};
  changes_.erase(changes_.lower_bound({node.number, 0}),
                 changes_.lower_bound({node.number + 1, 0}));
  Subject& self = subjects_[subject];
  if (!node.is_twin()) {
    self.node = node.number;
    verdicts_.runs(subject, node.peer, world_.seconds());
  }
  self.running = true;
  self.incarnation = std::max(self.incarnation, node.incarnation);
}

void Checks::ended(Node& node) {
  note_samples(node);
  close_gap(node);
  if (!node.is_twin()) subjects_[own_[node.number]].running = false;
}

void Checks::killed(Node& node) {
  ended(node);
  if (node.is_twin()) return;  // the twin
  const std::uint32_t subject = own_[node.number];
  // Whether one that stood still is alive was an open question before.
  if (node.state == NodeState::stopped) return verdicts_.leaves(subject);
  std::vector<std::uint32_t> observers;
  for (const auto& other : world_.nodes()) {
    const View& view = views_[other->number];
    if (other->state != NodeState::running || other->is_twin()) continue;
    if (subject < view.alive.size() && view.alive[subject]) {
      observers.push_back(own_[other->number]);
    }
  }
  verdicts_.dies(subject, observers, world_.seconds());
}

void Checks::finished(Node& node) {
  ended(node);
  if (node.is_twin()) return;
  verdicts_.leaves(own_[node.number]);
  note_end(node);
}

void Checks::fault(const PlannedEvent& event, bool begins) {
  verdicts_.fault(event, begins, world_.seconds());
  last_change_ = world_.seconds();
  if (!begins) --active_;
  if (begins && (event.until || lasts(event.kind))) ++active_;
  if (event.kind == Kind::leave && begins) {
    for (const std::uint32_t number : event.peers) left_at_[number] = world_.seconds();
  }
  if (!lasts(event.kind)) return;
  for (const std::uint32_t number : event.peers) {
    if (begins) {
      disturbances_.begin(number);
    } else {
      disturbances_.end(number, world_.seconds());
    }
    const bool of_network = event.kind == Kind::partition || event.kind == Kind::degrade;
    if (of_network) continue;
    // Whatever happens to its links, a peer goes on, unless it is held up itself.
    Node& node = *world_.nodes()[number];
    if (begins) close_gap(node);
    node.last_step.reset();
  }
}

double Checks::convalescent_until(std::uint32_t peer) const {
  const double started = world_.started(*world_.nodes()[peer]);
  return std::max(started, disturbances_.over_since(peer)) + kConvalescence;
}

bool Checks::disturbed(std::uint32_t peer) const {
  return disturbances_.any(peer) || convalescent_until(peer) > world_.seconds();
}

// Honest peers never find each other at fault; frames that were damaged do not get that far.
void Checks::noticed(const Node& node, const base::Notice& notice) {
  if (notice.accuses && !has_twins_) alarm_.raise("peer-{} says: {}", node.peer, notice.text);
}

void Checks::sent(const Node& from, const wire::Message& message) {
  const auto check = [&](const wire::MemberRecord& record) {
    const std::uint32_t index = subject_of(record.id);
    Subject& subject = subjects_[index];
    if (record.id == from.id)
      subject.incarnation = std::max(subject.incarnation, record.incarnation);
    if (record.incarnation > subject.incarnation) {
      alarm_.raise("peer-{} tells incarnation {} of peer-{}, which only told {}", from.peer,
                   record.incarnation, subject.node, subject.incarnation);
    }
  };
  if (const auto* gossip = std::get_if<wire::Gossip>(&message)) {
    for (const wire::MemberRecord& record : gossip->members) check(record);
  } else if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    check(hello->self);
  }
}

void Checks::touched(Node& node) {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  if (!node.worker->breach().empty()) {
    alarm_.raise("peer-{} {}", node.peer, node.worker->breach());
  }
  look_at_table(node);
  look_at_stage(node);
  check_bounds(node, alarm_);
  for (const base::PeerId& peer : node.worker->take_committed()) {
    ++commits_;
    if (node.worker->replica().size() <= kSmallReplica || commits_ % kLargeEvery == 0) {
      check_mirrors(node, peer);
    }
  }
}

void Checks::look_at_table(Node& node) {
  const membership::MemberTable& table = node.core->membership().table();
  View& view = views_[node.number];
  if (table.alive_version() == view.version && view.members == table.records().size()) return;
  // While a crowd joins, a large table changes with nearly every event.
  const bool large = table.records().size() > kLargeTable;
  if (large && world_.seconds() < view.looked_at + kLargeTablePause) return;
  view.looked_at = world_.seconds();
  view.version = table.alive_version();
  view.members = table.records().size();
  for (const auto& [id, record] : table.records()) {
    const std::uint32_t subject = subject_of(id);
    if (subject >= view.alive.size()) view.alive.resize(subjects_.size());
    const bool alive = counts_alive(record);
    if (alive == view.alive[subject]) continue;
    view.alive[subject] = alive;
    verdict(node, subject, alive);
  }
}

void Checks::verdict(Node& node, std::uint32_t index, bool alive) {
  const double now = world_.seconds();
  if (world_.tracing()) {
    world_.trace(fmt::format("peer-{}   holds peer-{} {}", node.number, subjects_[index].node,
                             alive ? "alive" : "dead"));
  }
  const auto [changes, first] = changes_.try_emplace({node.number, index});
  // That it is there at all is no change, and what a peer in a fault holds of others is right.
  if ((!first || !alive) && !disturbed(node.peer)) {
    std::vector<double>& times = changes->second;
    std::erase_if(times, [&](double at) { return at <= now - kVerdictWindow; });
    times.push_back(now);
    changes_most_ = std::max(changes_most_, std::uint64_t{times.size()});
  }
  if (!alive && !node.is_twin()) verdicts_.held_dead(index, own_[node.number], now);
}

void Checks::check_mirrors(Node& node, const base::PeerId& peer) {
  if (has_twins_) return;  // of two with one name nobody knows who holds the mirrors
  const std::uint32_t index = subject_of(peer);
  Node& other = *world_.nodes()[subjects_[index].node];
  if (!world_.is_up(other) || other.id != peer) return;
  const auto mine = node.worker->ledger().find(peer);
  const auto theirs = other.worker->ledger().find(node.id);
  if (mine == node.worker->ledger().end() || theirs == other.worker->ledger().end()) return;
  const LinkLedger& a = mine->second;
  const LinkLedger& b = theirs->second;
  if (a.opening != b.opening || a.committed != b.committed) return;
  const exchange::Replica& x = node.worker->replica();
  const exchange::Replica& y = other.worker->replica();
  if (!x.has(peer) || !y.has(node.id)) return;
  using exchange::MirrorOf;
  if (x.mirror_hash(peer, MirrorOf::mine) != y.mirror_hash(node.id, MirrorOf::theirs) ||
      x.mirror_hash(peer, MirrorOf::theirs) != y.mirror_hash(node.id, MirrorOf::mine)) {
    alarm_.raise("the mirrors of peer-{} and peer-{} differ after exchange {}", node.peer,
                 other.peer, a.committed.value);
  }
  if (!a.moved || !b.moved) return;
  const double tolerance = static_cast<double>(x.size()) * 1e-6 * (1 + std::abs(*a.moved));
  if (!(std::abs(*a.moved + *b.moved) <= tolerance)) {
    alarm_.raise("exchange {} of peer-{} and peer-{} is not in balance: {} and {}",
                 a.committed.value, node.peer, other.peer, *a.moved, *b.moved);
  }
}

void Checks::stepped(Node& node) {
  if (close_gap(node)) ++steps_made_;
  // Those that were handed out may come when training is over.
  if (node.core->phase() == peer::Phase::training) node.last_step = world_.now();
}

// The time since the last step is over, by another step or by what ends its steps. What a peer
// takes until its first step is no gap; returns whether it was one.
bool Checks::close_gap(Node& node) {
  const double speed = world_.plan().peers[node.peer].speed;
  if (!node.last_step || node.speed != speed || node.rate != 1) return false;
  const double gap = base::seconds(world_.now() - *node.last_step);
  node.last_step.reset();
  step_gap_ = std::max(step_gap_, gap);
  steps_possible_ += gap * speed * 1000 / world_.plan().scenario.sim.step_ms;
  return true;
}

}  // namespace starling::sim
