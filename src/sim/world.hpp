// The simulated world: peers' unmodified cores, links between them, virtual time. One seed decides
// everything; nothing here reads a clock, makes a thread or touches a file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/network/addresses.hpp"
#include "sim/network/circuits.hpp"
#include "sim/network/dialing.hpp"
#include "sim/network/links.hpp"
#include "sim/network/paths.hpp"
#include "sim/processes.hpp"
#include "sim/shared.hpp"
#include "sim/timeline.hpp"

namespace starling::sim {

class World {
 public:
  /// `plan` and `task` outlive this. `trace`: takes a line for every event; may be empty.
  /// `make_conduct` may be empty if no peer is hostile.
  World(const Plan& plan, Task& task, std::function<void(const std::string&)> trace,
        MakeConduct make_conduct = {});

  void set_observer(Observer* observer) { shared_.observer = observer; }
  /// Runs until the plan's end, until all peers have finished, or until stop().
  void run();
  void stop() { shared_.agenda.stop(); }

  [[nodiscard]] base::Time now() const noexcept { return shared_.agenda.now(); }
  [[nodiscard]] double seconds() const noexcept { return shared_.agenda.seconds(); }
  [[nodiscard]] const Nodes& nodes() const noexcept { return shared_.nodes; }
  [[nodiscard]] const Plan& plan() const noexcept { return shared_.plan; }
  [[nodiscard]] const Task& task() const noexcept { return shared_.task; }
  [[nodiscard]] const Trace& trace() const noexcept { return shared_.trace; }
  [[nodiscard]] base::Time local(const Node& node) const { return node.clock.at(now()); }
  /// In seconds, as of the node's last start.
  [[nodiscard]] double started(const Node& node) const noexcept {
    return base::seconds(node.started - kStart);
  }
  [[nodiscard]] double peer_seconds() const;
  /// The path of the link between the two, if there is one.
  [[nodiscard]] std::optional<LinkPath> link_path(const Node& a, const Node& b) const {
    return links_.path_between(a, b);
  }
  /// Frames of the node that the network has not yet taken.
  [[nodiscard]] std::size_t unsent(const Node& node) const { return links_.unsent(node); }
  /// Circuits that the node relays now.
  [[nodiscard]] std::size_t relayed(const Node& node) const { return circuits_.relayed(node); }
  /// The first rule of the world that was broken; empty: none was.
  [[nodiscard]] const std::string& breach() const noexcept { return shared_.breach; }

 private:
  void happen(const Second& second);

  Shared shared_;
  PathTable paths_;
  Addresses addresses_;
  Circuits circuits_;
  Links links_;
  Dialing dialing_;
  Processes processes_;
  Timeline timeline_;
};

}  // namespace starling::sim
