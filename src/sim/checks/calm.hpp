// What disturbs the swarm or one of its peers, and since when nothing does.
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
  /// Whether nothing but cuts and the ends of processes makes a peer seem dead.
  [[nodiscard]] bool clear() const noexcept { return clear_; }
  /// Whether there may be two with one name.
  [[nodiscard]] bool twins() const noexcept { return twins_; }

  /// When a fault began or ended last, or a peer started, in seconds.
  [[nodiscard]] double last_change() const noexcept { return last_change_; }
  /// Whether no fault lasts and all was as before them at `at`, in seconds, and has been since.
  [[nodiscard]] bool since(double at) const noexcept;
  [[nodiscard]] bool now() const noexcept { return since(world_.seconds()); }

  /// Whether the peer is in a fault or was a moment ago, or has just started.
  [[nodiscard]] bool disturbed(std::uint32_t peer) const;
  /// When it is healthy again, in seconds, if it is in no fault.
  [[nodiscard]] double healthy_at(std::uint32_t peer) const;

 private:
  const World& world_;
  const FaultTimes times_;
  const bool clear_, twins_;
  Disturbances disturbances_;
  std::size_t active_ = 0;  ///< faults that last
  double last_change_ = 0;
};

}  // namespace starling::sim
