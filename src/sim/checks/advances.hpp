// How the swarm's progress grows in the eyes of each peer: it never falls, and the learning rate
// follows it.
#pragma once

#include <cstdint>
#include <map>

#include "sim/checks/alarm.hpp"

namespace starling::sim {

class Advances {
 public:
  /// Both outlive this.
  Advances(const World& world, Alarm& alarm) : world_(world), alarm_(alarm) {}

  void check(const Node& node);

 private:
  /// How far a peer had come, when it was last looked at.
  struct Advance {
    std::uint32_t life = 0;
    std::uint64_t steps = 0;
    double progress = 0;
  };

  const World& world_;
  Alarm& alarm_;
  std::map<std::uint32_t, Advance> last_;  ///< by node
};

}  // namespace starling::sim
