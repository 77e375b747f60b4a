// How far each peer has come in its run, and that it comes to its end.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/steps.hpp"

namespace starling::sim {

class Stages {
 public:
  /// All outlive this.
  Stages(const World& world, const Calm& calm, const Steps& steps, Alarm& alarm);

  void started(const Node& node);
  void fault(const PlannedEvent& event, bool begins);
  void touched(const Node& node);
  void finished(const Node& node);

  /// That no stage but training takes too long. Once a second.
  void check(const Node& node);
  /// That soon all others are done when the first is, where nothing disturbs. Once a second.
  void check_others();
  /// That it does not stand still, where nothing disturbs.
  void check_goes_on(const Node& node);

  /// Whether peers are about to end, so that tables and links change. None takes long over it:
  /// check().
  [[nodiscard]] bool ending() const;
  /// Whether the first peer was done when nothing had disturbed for a while.
  [[nodiscard]] bool done_undisturbed() const;
  /// A ring is over with its first error or death; who waits for the rest of it makes no step.
  [[nodiscard]] bool ring_is_over() const;
  /// Peers that ended with an error.
  [[nodiscard]] std::uint32_t failed() const noexcept { return failed_; }

 private:
  struct Stage {
    peer::Phase phase = peer::Phase::waiting;
    double since = 0;  ///< seconds
  };

  void check_settling(const Node& node, double since);

  const World& world_;
  const Calm& calm_;
  const Steps& steps_;
  Alarm& alarm_;
  std::vector<Stage> stages_;    ///< of each node
  std::vector<double> left_at_;  ///< of each peer: when it was asked to leave; below 0: never
  double first_done_ = -1;       ///< seconds; below 0: nobody is
  double last_end_ = -1;         ///< of any kind
  std::uint32_t failed_ = 0;
};

}  // namespace starling::sim
