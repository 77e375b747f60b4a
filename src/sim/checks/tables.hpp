// Member tables compared with which peers really run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/checks/check.hpp"
#include "sim/judge/meters.hpp"
#include "sim/judge/verdicts.hpp"

namespace starling::sim {

class Tables final : public Check {
 public:
  /// All outlive this. `subjects` hears first of any event at a node.
  Tables(const World& world, Subjects& subjects, const Calm& calm, Alarm& alarm,
         Findings& findings);

  void started(const Node& node) override;
  void killed(const Node& node) override;
  void finished(const Node& node) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void touched(Node& node) override { look_at(node); }
  /// Skips most looks at large tables.
  void look_at(const Node& node) override;
  /// In calm no peer is even suspect.
  void inspect(const Node& node) override;
  void finish() override;

  /// Whether all honest peers hold alive exactly those that run; false if none runs.
  [[nodiscard]] bool one_view() const;

 private:
  /// The peers that a node holds alive.
  struct View {
    std::uint64_t version = 0;
    std::vector<bool> alive;  ///< by subject
    std::size_t members = 0;
    double looked_at = -1;  ///< seconds
  };

  /// The largest number of peers, dead or in a fault, that a healthy peer holds alive.
  [[nodiscard]] std::size_t faulty_held() const;
  void changed(const Node& node, std::uint32_t subject, bool alive);

  const World& world_;
  Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  Findings& findings_;
  std::vector<View> views_;  ///< of each node
  Verdicts verdicts_;
  MindChanges changes_;  ///< of healthy peers, by node and subject
};

}  // namespace starling::sim
