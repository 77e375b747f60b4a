#include "sim/checks/dials.hpp"

#include "membership/limits.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Links that a peer may dial: at the start, and for each second it runs, of which some because
/// others ask for it.
constexpr double kDialsAtOnce = 200;
constexpr double kDialsEachSecond = 3;
/// Dials of one peer in a minute to an address where nobody is.
constexpr std::size_t kDeadDialsMax = 6;
constexpr double kDialWindow = 60;
/// A peer without links goes on trying, with pauses of half of kBackoffMax at least.
const auto kLonelyDialsMax =
    1 + static_cast<std::size_t>(kDialWindow / (base::seconds(membership::kBackoffMax) / 2));

}  // namespace

// Whom nobody answers for is left alone, but for the rest of a ring that has ended.
void Dials::dialed(const Node& node, const std::string& address, bool answers) {
  if (answers || !calm_.now() || world_.plan().scenario.sim.buggify) return;
  if (waits_for_ring(world_, node)) return;
  const double now = world_.seconds();
  std::vector<double>& times = in_vain_[{node.number, address}];
  std::erase_if(times, [&](double at) { return at <= now - kDialWindow; });
  times.push_back(now);
  if (times.size() > (node.links.empty() ? kLonelyDialsMax : kDeadDialsMax)) {
    alarm_.raise("peer-{} dials {}, where nobody is, {} times in a minute", node.peer, address,
                 times.size());
  }
}

void Dials::check(const Node& node) {
  if (world_.plan().scenario.sim.buggify) return;  // drops links all the time
  const double up = world_.seconds() - world_.started(node);
  if (static_cast<double>(node.dials) > kDialsAtOnce + kDialsEachSecond * up) {
    alarm_.raise("peer-{} has dialed {} times in {:.0f} s", node.peer, node.dials, up);
  }
}

}  // namespace starling::sim
