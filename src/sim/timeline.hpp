// The plan's events: what each one does to the processes, their machines and the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/network/addresses.hpp"
#include "sim/network/links.hpp"
#include "sim/network/paths.hpp"
#include "sim/processes.hpp"
#include "sim/shared.hpp"

namespace starling::sim {

class Timeline {
 public:
  /// Puts the events on the agenda. All outlive this.
  Timeline(Shared& shared, PathTable& paths, Addresses& addresses, Links& links,
           Processes& processes);

  void happen(const Planned& planned);

 private:
  void begin(const PlannedEvent& event, std::size_t index);
  void begin_at(Node& node, const PlannedEvent& event, std::size_t index);
  void end(const PlannedEvent& event, std::size_t index);
  void restart(Node& node, const PlannedEvent& event);
  void start_twin(const Node& node, std::size_t index);
  void move(Node& node);
  void change_address(Node& node);
  void strike_routers(const PlannedEvent& event);
  void apply_faults(Node& node);

  Shared& shared_;
  PathTable& paths_;
  Addresses& addresses_;
  Links& links_;
  Processes& processes_;
  std::map<std::size_t, std::uint64_t> path_faults_;         ///< planned event: fault
  std::map<std::size_t, std::vector<std::uint32_t>> twins_;  ///< planned event: nodes
};

}  // namespace starling::sim
