// The steps that peers make while no fault holds them up, and the time between them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/world.hpp"

namespace starling::sim {

class Steps {
 public:
  /// `world` outlives this.
  explicit Steps(const World& world) : world_(world), last_(world.nodes().size()) {}

  void started(const Node& node);
  void touched(const Node& node);
  void stepped(const Node& node, std::uint32_t samples);
  void ended(const Node& node) { close_gap(node); }
  void fault(const PlannedEvent& event, bool begins);
  void finish();

  /// When it made its last step in training, if nothing has held it up since.
  [[nodiscard]] const std::optional<base::Time>& last(const Node& node) const {
    return last_[node.number];
  }
  /// The longest time between two, in seconds; nothing: there were none.
  [[nodiscard]] std::optional<double> longest_gap() const;
  /// Batches as part of those that the peers' speeds allow; nothing: there were none. A step on a
  /// smaller one (train.batch_min) counts as the part that it is.
  [[nodiscard]] std::optional<double> throughput() const;

 private:
  bool close_gap(const Node& node);

  const World& world_;
  std::vector<std::optional<base::Time>> last_;  ///< of each node
  double gap_ = 0;
  std::uint64_t samples_ = 0;  ///< of steps that ended a gap
  double possible_ = 0;
};

}  // namespace starling::sim
