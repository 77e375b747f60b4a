#include "sim/checks/tables.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "membership/limits.hpp"
#include "sim/checks/survey.hpp"
#include "sim/judge/statistics.hpp"

namespace starling::sim {
namespace {

/// Tables with more members are looked at this often, in seconds; smaller ones after each change.
constexpr std::size_t kLargeTable = 64;
constexpr double kLargeTablePause = 0.25;
/// Time from a death until all have noticed it.
constexpr double kDetectionMax = 60;
/// Changes about one peer in one table in a minute, in addition to those that its starts and ends
/// cause.
constexpr std::uint64_t kVerdictsMax = 6;

/// How often one peer starts or ends within a minute, at most.
std::uint64_t turns_most(const Plan& plan) {
  std::vector<std::vector<double>> turns(plan.peers.size());
  std::size_t most = 0;
  for (const PlannedEvent& event : plan.events) {
    const bool is_turn = event.kind == Kind::join || event.kind == Kind::restart ||
                         event.kind == Kind::kill || event.kind == Kind::leave;
    if (!is_turn) continue;
    for (const std::uint32_t peer : event.peers) {
      std::erase_if(turns[peer], [&](double at) { return at <= event.at - kVerdictWindow; });
      turns[peer].push_back(event.at);
      most = std::max(most, turns[peer].size());
    }
  }
  return most;
}

}  // namespace

Tables::Tables(const World& world, Subjects& subjects, const Calm& calm, Alarm& alarm,
               Findings& findings)
    : world_(world),
      subjects_(subjects),
      calm_(calm),
      alarm_(alarm),
      findings_(findings),
      views_(world.nodes().size()),
      verdicts_(world.plan()) {}

void Tables::started(const Node& node) {
  if (node.number >= views_.size()) views_.resize(node.number + 1);
  views_[node.number] = {};
  changes_.forget(node.number);
  if (!node.is_twin()) verdicts_.runs(subjects_.own(node), node.peer, world_.seconds());
}

void Tables::killed(const Node& node) {
  if (node.is_twin()) return;
  const std::uint32_t subject = subjects_.own(node);
  // While it stood still, it was an open question whether it was alive.
  if (node.state == NodeState::stopped) return verdicts_.leaves(subject);
  std::vector<std::uint32_t> observers;
  for (const auto& other : world_.nodes()) {
    const View& view = views_[other->number];
    if (other->state != NodeState::running || other->is_twin()) continue;
    if (subject < view.alive.size() && view.alive[subject]) {
      observers.push_back(subjects_.own(*other));
    }
  }
  verdicts_.dies(subject, observers, world_.seconds());
}

void Tables::finished(const Node& node) {
  if (!node.is_twin()) verdicts_.leaves(subjects_.own(node));
}

void Tables::fault(const PlannedEvent& event, bool begins) {
  verdicts_.fault(event, begins, world_.seconds());
}

void Tables::look_at(const Node& node) {
  const membership::MemberTable& table = node.core->membership().table();
  View& view = views_[node.number];
  if (table.alive_version() == view.version && view.members == table.members().size()) return;
  // While a crowd joins, a large table changes with nearly every event.
  const bool large = table.members().size() > kLargeTable;
  if (large && world_.seconds() < view.looked_at + kLargeTablePause) return;
  view.looked_at = world_.seconds();
  view.version = table.alive_version();
  view.members = table.members().size();
  for (const auto& [id, member] : table.members()) {
    const std::uint32_t subject = subjects_.number_of(id);
    if (subject >= view.alive.size()) view.alive.resize(subjects_.size());
    const bool alive = membership::counts_as_alive(member.record.state);
    if (alive == view.alive[subject]) continue;
    view.alive[subject] = alive;
    changed(node, subject, alive);
  }
}

void Tables::changed(const Node& node, std::uint32_t subject, bool alive) {
  const double now = world_.seconds();
  if (world_.trace().is_read()) {
    world_.trace().line(fmt::format("peer-{}   holds peer-{} {}", node.number,
                                    subjects_[subject].node, alive ? "alive" : "dead"));
  }
  const bool first = changes_.meets(node.number, subject);
  // A peer's first appearance is not a change, and views of a peer in a fault do not count.
  if ((!first || !alive) && !calm_.disturbed(node.peer)) {
    changes_.change(node.number, subject, now);
  }
  if (!alive && !node.is_twin()) verdicts_.held_dead(subject, subjects_.own(node), now);
}

void Tables::inspect(const Node& node) {
  if (!calm_.now() || !calm_.clear()) return;
  for (const auto& [id, member] : node.core->membership().table().members()) {
    const Subject& subject = subjects_[subjects_.number_of(id)];
    if (member.record.state != wire::MemberState::suspect || !subject.running) continue;
    alarm_.raise("peer-{} suspects peer-{}, which nothing disturbs", node.peer, subject.node);
  }
}

void Tables::finish() {
  verdicts_.finish(world_.seconds());
  Measured& measured = findings_.measured;
  measured[Measure::detection_p50_s] = percentile(verdicts_.detections(), 0.5);
  measured[Measure::detection_p99_s] = percentile(verdicts_.detections(), 0.99);
  measured[Measure::false_deaths_max] = static_cast<double>(verdicts_.false_deaths());
  measured[Measure::faulty_held_max] = static_cast<double>(faulty_held());
  measured[Measure::verdicts_per_minute_max] = static_cast<double>(changes_.most());
  // A star without its center hears nothing.
  if (!calm_.clear() || lacks_hub(world_)) return;
  const auto slowest = percentile(verdicts_.detections(), 1);
  if (slowest && *slowest > kDetectionMax) {
    alarm_.raise("a death was noticed after {:.1f} s", *slowest);
  }
  if (verdicts_.false_verdicts() > 0) {
    alarm_.raise("{} times a peer was held dead that ran and could be reached",
                 verdicts_.false_verdicts());
  }
  // While a cut changes its shape, everything may change.
  if (has_event(world_.plan(), Kind::partition)) return;
  if (changes_.most() > kVerdictsMax + turns_most(world_.plan())) {
    alarm_.raise("a table changed its mind about one peer {} times in a minute", changes_.most());
  }
}

bool Tables::one_view() const {
  const std::size_t running = count_running(world_);
  if (running == 0) return false;
  for (const auto& node : world_.nodes()) {
    if (!node->is_up() || node->is_twin() || node->hostile) continue;
    const View& view = views_[node->number];
    std::size_t held = 0;
    for (std::uint32_t i = 0; i < view.alive.size(); ++i) {
      if (!view.alive[i] || world_.nodes()[subjects_[i].node]->hostile) continue;
      if (!subjects_[i].running) return false;
      ++held;
    }
    if (held != running) return false;
  }
  return true;
}

std::size_t Tables::faulty_held() const {
  std::size_t most = 0;
  for (const auto& node : world_.nodes()) {
    if (!node->is_up() || calm_.disturbed(node->peer)) continue;
    const View& view = views_[node->number];
    std::size_t held = 0;
    for (std::uint32_t i = 0; i < view.alive.size(); ++i) {
      const Subject& subject = subjects_[i];
      held += view.alive[i] && (!subject.running || calm_.disturbed(subject.node)) ? 1 : 0;
    }
    most = std::max(most, held);
  }
  return most;
}

}  // namespace starling::sim
