// The steps that peers make while no fault holds them up, and the time between these steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/checks/check.hpp"
#include "sim/judge/meters.hpp"

namespace starling::sim {

class Steps final : public Check {
 public:
  /// `world` and `findings` outlive this.
  Steps(const World& world, Findings& findings)
      : world_(world), findings_(findings), last_(world.nodes().size()) {}

  void started(const Node& node) override;
  void touched(Node& node) override;
  void stepped(const Node& node, std::uint32_t samples) override;
  void ended(const Node& node) override { close_gap(node); }
  void fault(const PlannedEvent& event, bool begins) override;
  void finish() override;

  /// When the node made its last step in training, if nothing has held it up since.
  [[nodiscard]] const std::optional<base::Time>& last(const Node& node) const {
    return last_[node.number];
  }

 private:
  bool close_gap(const Node& node);

  const World& world_;
  Findings& findings_;
  std::vector<std::optional<base::Time>> last_;  ///< of each node
  Pace pace_;
};

}  // namespace starling::sim
