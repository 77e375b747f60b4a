// Everything that must hold in the simulated world, and everything that is measured. This class
// decides which check hears of an event, and when; each file of sim/checks looks at one thing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/check.hpp"
#include "sim/checks/subjects.hpp"
#include "sim/world.hpp"

namespace starling::sim {

class Checks final : public Observer {
 public:
  /// `world` outlives this.
  explicit Checks(World& world);

  void touched(Node& node) override;
  void noticed(const Node& node, const base::LogEntry& notice) override;
  void sent(const Node& from, const wire::Message& message) override;
  void dialed(const Node& node, const peer::Dial& dial, bool answers) override;
  void relays(const Node& relay) override;
  void stepped(Node& node, std::uint32_t samples) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void started(Node& node) override;
  void killed(Node& node) override;
  void finished(Node& node) override;
  void second() override;

  /// After the run.
  void finish();
  /// The first invariant that broke; empty: none did.
  [[nodiscard]] const std::string& failure() const noexcept { return alarm_.failure(); }
  [[nodiscard]] double failed_at() const noexcept { return alarm_.raised_at(); }
  /// After finish().
  [[nodiscard]] const Findings& findings() const noexcept { return findings_; }

 private:
  void ended(const Node& node);

  World& world_;
  Alarm alarm_;
  Subjects subjects_;
  Calm calm_;
  Findings findings_;
  std::vector<std::unique_ptr<Check>> checks_;
  std::size_t turn_ = 0;  ///< of the peers that are looked at in turn
};

}  // namespace starling::sim
