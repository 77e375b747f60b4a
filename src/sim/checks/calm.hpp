// Which faults disturb the swarm or one of its peers, and since when none does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/judge/disturbances.hpp"
#include "sim/language/plan.hpp"
#include "sim/world.hpp"

namespace starling::sim {

class Calm {
 public:
  /// `world` outlives this.
  explicit Calm(const World& world);

  void started() { last_change_ = world_.seconds(); }
  void fault(const PlannedEvent& event, bool begins);

  /// Of the plan.
  [[nodiscard]] const FaultTimes& times() const noexcept { return times_; }
  /// Whether only cuts and the ends of processes make a peer seem dead.
  [[nodiscard]] bool clear() const noexcept { return clear_; }
  /// Whether two peers may have the same name.
  [[nodiscard]] bool twins() const noexcept { return twins_; }

  /// When a fault began or ended last, or a peer started, in seconds.
  [[nodiscard]] double last_change() const noexcept { return last_change_; }
  /// Whether at `at` (in seconds) no fault lasted and all was as before the faults, and is so
  /// since.
  [[nodiscard]] bool since(double at) const noexcept;
  [[nodiscard]] bool now() const noexcept { return since(world_.seconds()); }

  /// Whether the peer is in a fault, was a moment ago, or has just started.
  [[nodiscard]] bool disturbed(std::uint32_t peer) const;
  /// When the peer is healthy again, in seconds, if it is in no fault.
  [[nodiscard]] double healthy_at(std::uint32_t peer) const;

 private:
  const World& world_;
  const FaultTimes times_;
  const bool clear_, twins_;
  Disturbances disturbances_;
  std::size_t active_ = 0;  ///< current faults
  double last_change_ = 0;
};

}  // namespace starling::sim
