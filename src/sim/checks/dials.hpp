// How often peers dial: not all the time, and the dead hardly ever.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"

namespace starling::sim {

class Dials {
 public:
  /// All outlive this.
  Dials(const World& world, const Calm& calm, Alarm& alarm)
      : world_(world), calm_(calm), alarm_(alarm) {}

  void dialed(const Node& node, const std::string& address, bool answers);
  void check(const Node& node);

 private:
  const World& world_;
  const Calm& calm_;
  Alarm& alarm_;
  /// By node and address where nobody is: when it dialed there in calm, in the last minute.
  std::map<std::pair<std::uint32_t, std::string>, std::vector<double>> in_vain_;
};

}  // namespace starling::sim
