// After the faults the swarm becomes whole again: how soon it did, and that it has.
#pragma once

#include <optional>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/stages.hpp"
#include "sim/checks/tables.hpp"

namespace starling::sim {

class Recovery {
 public:
  /// All outlive this.
  Recovery(const World& world, const Calm& calm, const Tables& tables, Stages& stages,
           Alarm& alarm);

  /// Once a second.
  void measure();
  /// Whether all is whole, if the faults have been over for long enough.
  void finish();

  // In seconds; nothing: it has not come to that.
  /// From the last fault until all tables said who runs.
  [[nodiscard]] std::optional<double> one_view_within() const;
  /// From the last start until all had their neighbours.
  [[nodiscard]] std::optional<double> views_full_within() const;
  /// From the last fault until replicas were as near as before the first. Measured where a scenario
  /// expects something of it.
  [[nodiscard]] std::optional<double> drift_back_within() const;
  /// Of the overlay kJoinSeconds after the last start.
  [[nodiscard]] std::optional<double> gap() const noexcept { return gap_; }

 private:
  void measure_drift();

  const World& world_;
  const Calm& calm_;
  const Tables& tables_;
  Stages& stages_;
  Alarm& alarm_;
  const bool drift_expected_;
  std::optional<double> one_view_at_, views_full_at_, drift_back_at_;
  std::optional<double> drift_before_;  ///< how far apart replicas were before the first fault
  std::optional<double> gap_;
  /// With rare branches: last, near the end of the run.
  double connected_at_ = -1, agreed_at_ = -1;
};

}  // namespace starling::sim
