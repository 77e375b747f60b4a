// What must hold in the simulated world, and what is measured of it. Here is decided who is told of
// what when; each of sim/checks looks at one thing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/checks/advances.hpp"
#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/calm_minutes.hpp"
#include "sim/checks/counters.hpp"
#include "sim/checks/dials.hpp"
#include "sim/checks/exchanges.hpp"
#include "sim/checks/incarnations.hpp"
#include "sim/checks/membership_cost.hpp"
#include "sim/checks/pairs.hpp"
#include "sim/checks/recovery.hpp"
#include "sim/checks/stages.hpp"
#include "sim/checks/steps.hpp"
#include "sim/checks/subjects.hpp"
#include "sim/checks/tables.hpp"
#include "sim/world.hpp"

namespace starling::sim {

struct Outcome {
  std::string name;
  bool passed = false;
  std::optional<double> value;  ///< nothing: nothing was measured
  double limit = 0;
};

class Checks final : public Observer {
 public:
  /// `world` outlives this.
  explicit Checks(World& world);

  void touched(Node& node) override;
  void noticed(const Node& node, const base::Notice& notice) override;
  void sent(const Node& from, const wire::Message& message) override;
  void dialed(const Node& node, const std::string& address, bool answers) override;
  void stepped(Node& node, std::uint32_t samples) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void started(Node& node) override;
  void killed(Node& node) override;
  void finished(Node& node) override;
  void second() override;

  /// After the run.
  void finish();
  /// The first invariant that broke; empty: none.
  [[nodiscard]] const std::string& failure() const noexcept { return alarm_.failure(); }
  [[nodiscard]] double failed_at() const noexcept { return alarm_.raised_at(); }
  /// `undisturbed_loss`: final_loss() of the same run without its timeline, if it is known.
  [[nodiscard]] std::vector<Outcome> outcomes(std::optional<double> undisturbed_loss) const;
  /// Of averaging over the links that there were kJoinSeconds after the last start.
  [[nodiscard]] std::optional<double> overlay_gap() const noexcept { return recovery_.gap(); }
  /// Of the links between peers, looked at once a second, the part of which it was known whether
  /// their exchanges add up to nothing; nothing: there was none.
  [[nodiscard]] std::optional<double> ledger_coverage() const noexcept {
    return exchanges_.coverage();
  }

 private:
  void ended(const Node& node);
  [[nodiscard]] std::optional<double> value_of(Measure measure,
                                               std::optional<double> undisturbed_loss) const;

  World& world_;
  Alarm alarm_;
  // What others ask.
  Subjects subjects_;
  Calm calm_;
  // What is checked and measured. Each may ask those above it.
  Incarnations incarnations_;
  Counters counters_;
  Advances advances_;
  Dials dials_;
  Exchanges exchanges_;
  MembershipCost membership_cost_;
  Pairs pairs_;
  Steps steps_;
  Tables tables_;
  Stages stages_;
  CalmMinutes calm_minutes_;
  Recovery recovery_;
  std::size_t turn_ = 0;  ///< of the peers that are looked at one after the other
};

}  // namespace starling::sim
