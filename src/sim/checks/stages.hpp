// How far each peer has come in its run. Checks that each comes to its end.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/checks/steps.hpp"

namespace starling::sim {

class Stages final : public Check {
 public:
  /// All outlive this.
  Stages(const World& world, const Calm& calm, const Steps& steps, Alarm& alarm,
         Findings& findings);

  void started(const Node& node) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void touched(Node& node) override;
  void finished(const Node& node) override;

  /// Checks that no stage except training takes too long.
  void look_at(const Node& node) override;
  /// Checks that, if nothing disturbs, all others are done soon after the first one.
  void second_ends() override;
  void finish() override;

  /// Checks that the peer does not stand still, if nothing disturbs.
  void check_goes_on(const Node& node);

  /// Whether peers are about to end, so that tables and links change. This never lasts long: see
  /// look_at().
  [[nodiscard]] bool ending() const;
  /// Whether nothing had disturbed for a while when the first peer was done.
  [[nodiscard]] bool done_undisturbed() const;
  /// A ring is over with its first error or death; a peer that waits for the rest makes no step.
  [[nodiscard]] bool ring_is_over() const;
  /// Peers that ended with an error.
  [[nodiscard]] std::uint32_t failed() const noexcept { return failed_; }

 private:
  struct Stage {
    peer::Phase phase = peer::Phase::waiting;
    double since = 0;  ///< seconds
  };

  void check_settling(const Node& node, double since);
  void check_left_out(const Node& node, double since);

  const World& world_;
  const Calm& calm_;
  const Steps& steps_;
  Alarm& alarm_;
  Findings& findings_;
  std::vector<Stage> stages_;    ///< of each node
  std::vector<double> left_at_;  ///< of each peer: when it was asked to leave; below 0: never
  double first_done_ = -1;       ///< seconds; below 0: no peer is
  double last_done_ = -1;
  double last_end_ = -1;  ///< of any kind
  std::uint32_t failed_ = 0;
};

}  // namespace starling::sim
