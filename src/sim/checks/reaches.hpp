// What peers do for those that cannot be dialed: nobody is made to dial a third one, and relays
// take no more than they allow.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "sim/checks/alarm.hpp"
#include "sim/world.hpp"

namespace starling::sim {

class Reaches {
 public:
  /// All outlive this.
  Reaches(const World& world, Alarm& alarm) : world_(world), alarm_(alarm) {}

  void started(const Node& node);
  void dialed(const Node& node, const peer::Dial& dial);
  void relays(const Node& relay);

 private:
  const World& world_;
  Alarm& alarm_;
  std::set<std::pair<std::string, base::PeerId>> lived_;  ///< who was ever at a host
};

}  // namespace starling::sim
