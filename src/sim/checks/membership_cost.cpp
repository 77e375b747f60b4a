#include "sim/checks/membership_cost.hpp"

#include <algorithm>

#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Over how long, at least, it is measured.
constexpr double kRateSeconds = 10;

}  // namespace

void MembershipCost::measure() {
  const double now = world_.seconds();
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node) || node->is_twin()) continue;
    if (now < std::max(last_start_, world_.started(*node)) + kJoinSeconds) continue;
    const auto at = quiet_.find(node->number);
    if (at == quiet_.end() || at->second.life != node->life) {
      quiet_[node->number] = {node->life, now, node->membership_bytes};
      continue;
    }
    const double passed = now - at->second.since;
    if (passed < kRateSeconds) continue;
    const auto sent = static_cast<double>(node->membership_bytes - at->second.bytes);
    rates_[node->number] = sent / passed;
  }
}

std::optional<double> MembershipCost::most() const {
  std::optional<double> most;
  for (const auto& [node, rate] : rates_) most = std::max(most.value_or(0), rate);
  return most;
}

}  // namespace starling::sim
