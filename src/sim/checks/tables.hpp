// What member tables say of who runs, against who does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/subjects.hpp"
#include "sim/checks/verdicts.hpp"

namespace starling::sim {

class Tables {
 public:
  /// All outlive this. Of what happens to a node `subjects` hears first.
  Tables(const World& world, Subjects& subjects, const Calm& calm, Alarm& alarm);

  void started(const Node& node);
  void killed(const Node& node);
  void finished(const Node& node);
  void fault(const PlannedEvent& event, bool begins);
  /// After each event, and once a second: large tables are not looked at each time.
  void look_at(const Node& node);
  /// In calm nobody is so much as suspect.
  void check_suspicions(const Node& node);
  void finish();

  /// Whether all hold those alive that run, and nobody else; false where nobody runs.
  [[nodiscard]] bool one_view() const;
  /// The most peers that a healthy one holds alive of the dead and those in a fault.
  [[nodiscard]] std::size_t faulty_held() const;
  /// The most changes of one peer in one table within a minute, made by healthy peers.
  [[nodiscard]] std::uint64_t changes_most() const noexcept { return changes_most_; }
  [[nodiscard]] const Verdicts& verdicts() const noexcept { return verdicts_; }

 private:
  /// Whom a node holds alive.
  struct View {
    std::uint64_t version = 0;
    std::vector<bool> alive;  ///< by subject
    std::size_t members = 0;
    double looked_at = -1;  ///< seconds
  };

  void changed(const Node& node, std::uint32_t subject, bool alive);

  const World& world_;
  Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  std::vector<View> views_;  ///< of each node
  Verdicts verdicts_;
  /// By node and subject: when it changed its mind, of the last minute.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> changes_;
  std::uint64_t changes_most_ = 0;
};

}  // namespace starling::sim
