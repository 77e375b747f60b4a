// Of each calm minute: those that ran all the time have gone on, exchanged and saved.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/stages.hpp"

namespace starling::sim {

class CalmMinutes {
 public:
  /// All outlive this.
  CalmMinutes(const World& world, const Calm& calm, Stages& stages, Alarm& alarm);

  /// Once a second.
  void look();

 private:
  /// A peer as it was when the minute began.
  struct Noted {
    std::uint32_t life = 0;
    std::uint64_t step = 0;
    std::map<base::PeerId, LinkLedger> links;
  };

  void begin();
  void check_exchanges(const Node& node, const Noted& then);
  void check_saves(const Node& node, const Noted& then);

  const World& world_;
  const Calm& calm_;
  Stages& stages_;
  Alarm& alarm_;
  const bool slow_;           ///< one frame may take as long as a minute
  std::vector<Noted> noted_;  ///< of each node; empty: no minute has begun
  double since_ = 0;          ///< seconds
};

}  // namespace starling::sim
