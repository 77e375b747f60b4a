// The bytes that peers send for membership once their tables are filled.
#include "sim/checks/check.hpp"
#include "sim/judge/meters.hpp"

namespace starling::sim {
namespace {

class MembershipCost final : public Check {
 public:
  explicit MembershipCost(const Scene& scene)
      : world_(scene.world), findings_(scene.findings), rates_(scene.calm.times().last_start) {}

  void second() override {
    for (const auto& node : world_.nodes()) {
      if (!node->is_up() || node->is_twin()) continue;
      rates_.told(node->number, world_.started(*node), node->membership_bytes, world_.seconds());
    }
  }
  void finish() override {
    findings_.measured[Measure::membership_bytes_per_s_max] = rates_.most();
  }

 private:
  const World& world_;
  Findings& findings_;
  MembershipRates rates_;
};

}  // namespace

std::unique_ptr<Check> make_membership_cost(const Scene& scene) {
  return std::make_unique<MembershipCost>(scene);
}

}  // namespace starling::sim
