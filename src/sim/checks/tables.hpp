// What member tables say of who runs, against who does.
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
  /// All outlive this. Of what happens to a node `subjects` hears first.
  Tables(const World& world, Subjects& subjects, const Calm& calm, Alarm& alarm,
         Findings& findings);

  void started(const Node& node) override;
  void killed(const Node& node) override;
  void finished(const Node& node) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void touched(Node& node) override { look_at(node); }
  /// Large tables are not looked at each time.
  void look_at(const Node& node) override;
  /// In calm nobody is so much as suspect.
  void inspect(const Node& node) override;
  void finish() override;

  /// Whether all hold those alive that run, and nobody else; false where nobody runs.
  [[nodiscard]] bool one_view() const;

 private:
  /// Whom a node holds alive.
  struct View {
    std::uint64_t version = 0;
    std::vector<bool> alive;  ///< by subject
    std::size_t members = 0;
    double looked_at = -1;  ///< seconds
  };

  /// The most peers that a healthy one holds alive of the dead and those in a fault.
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
