#include "sim/checks.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/checks/stages.hpp"
#include "sim/checks/steps.hpp"
#include "sim/checks/survey.hpp"
#include "sim/checks/tables.hpp"

namespace starling::sim {
namespace {

/// The slow inspections look at this many peers a second, each in turn.
constexpr std::size_t kTurnsEachSecond = 32;

/// In the order in which they are told, before the checks that others ask. If several break at
/// once, the first is reported.
constexpr MakeCheck* kChecks[] = {make_recovery,     make_membership_cost, make_pairs,
                                  make_incarnations, make_reaches,         make_counters,
                                  make_dials,        make_exchanges,       make_soundness,
                                  make_advances,     make_calm_minutes,    make_results};

}  // namespace

Checks::Checks(World& world)
    : world_(world), alarm_(world), subjects_(world.nodes().size()), calm_(world) {
  auto steps = std::make_unique<Steps>(world, findings_);
  auto stages = std::make_unique<Stages>(world, calm_, *steps, alarm_, findings_);
  auto tables = std::make_unique<Tables>(world, subjects_, calm_, alarm_, findings_);
  const Scene scene{world, alarm_, subjects_, calm_, findings_, *stages, *tables};
  for (MakeCheck* const make : kChecks) checks_.push_back(make(scene));
  checks_.push_back(std::move(tables));
  checks_.push_back(std::move(stages));
  checks_.push_back(std::move(steps));
  world.set_observer(this);
}

void Checks::started(Node& node) {
  subjects_.started(node);
  calm_.started();
  for (const auto& check : checks_) check->started(node);
}

void Checks::ended(const Node& node) {
  for (const auto& check : checks_) check->ended(node);
  subjects_.ended(node);
}

void Checks::killed(Node& node) {
  ended(node);
  for (const auto& check : checks_) check->killed(node);
}

void Checks::finished(Node& node) {
  ended(node);
  for (const auto& check : checks_) check->finished(node);
}

void Checks::fault(const PlannedEvent& event, bool begins) {
  calm_.fault(event, begins);
  for (const auto& check : checks_) check->fault(event, begins);
}

// Honest peers never find each other at fault; a damaged frame never gets far enough to cause that.
void Checks::noticed(const Node& node, const base::LogEntry& notice) {
  if (!notice.accuses || node.hostile || calm_.twins()) return;
  const bool of_hostile = std::ranges::any_of(world_.nodes(), [&](const auto& other) {
    return other->hostile && notice.text.find(other->id.brief()) != std::string::npos;
  });
  if (!of_hostile) alarm_.raise("peer-{} says: {}", node.peer, notice.text);
}

void Checks::sent(const Node& from, const wire::Message& message) {
  for (const auto& check : checks_) check->sent(from, message);
}

void Checks::dialed(const Node& node, const peer::Dial& dial, bool answers) {
  for (const auto& check : checks_) check->dialed(node, dial, answers);
}

void Checks::relays(const Node& relay) {
  for (const auto& check : checks_) check->relays(relay);
}

void Checks::stepped(Node& node, std::uint32_t samples) {
  for (const auto& check : checks_) check->stepped(node, samples);
}

void Checks::touched(Node& node) {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  if (!node.hostile && !node.worker->ledger().breach().empty()) {
    alarm_.raise("peer-{} {}", node.peer, node.worker->ledger().breach());
  }
  for (const auto& check : checks_) check->touched(node);
}

void Checks::second() {
  for (const auto& check : checks_) check->second();
  const auto& nodes = world_.nodes();
  for (const auto& node : nodes) {
    if (!node->is_up()) continue;
    for (const auto& check : checks_) check->look_at(*node);
  }
  for (std::size_t i = 0; i < std::min(kTurnsEachSecond, nodes.size()); ++i) {
    const Node& node = *nodes[turn_++ % nodes.size()];
    if (!node.is_up()) continue;
    for (const auto& check : checks_) check->inspect(node);
  }
  for (const auto& check : checks_) check->second_ends();
  const auto& times = calm_.times();
  const double now = world_.seconds();
  if (!any_up(world_) && now > times.last_start && now > times.last) world_.stop();
}

void Checks::finish() {
  if (!world_.breach().empty()) alarm_.raise("{}", world_.breach());
  for (const auto& check : checks_) check->finish();
}

}  // namespace starling::sim
