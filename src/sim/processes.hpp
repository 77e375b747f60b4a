// The peers' processes: their starts and ends, the events that reach their cores, the actions that
// these ask for, and their work.
#pragma once

#include <cstdint>

#include "base/rng.hpp"
#include "sim/network/addresses.hpp"
#include "sim/network/dialing.hpp"
#include "sim/network/links.hpp"
#include "sim/shared.hpp"

namespace starling::sim {

class Processes final : public Receiver {
 public:
  /// All outlive this.
  Processes(Shared& shared, const Addresses& addresses, Links& links, Dialing& dialing)
      : shared_(shared), addresses_(addresses), links_(links), dialing_(dialing) {}

  /// Nothing happens if it is up. If its disk is full, it waits for room. `twin`: another process
  /// with the same key.
  void start(Node& node, bool twin = false);
  void kill(Node& node);
  /// It stands still until resume().
  void stop(Node& node);
  void resume(Node& node);
  /// Its clock goes at another rate.
  void set_rate(Node& node, double rate);
  void give(Node& node, peer::Event event) override;

  void happen(const Wake& wake);
  void happen(const Work& work);

 private:
  [[nodiscard]] std::unique_ptr<TimedWorker> make_worker(Node& node, const peer::Resume& resume);
  void begin_incarnation(Node& node, bool twin);
  void act(Node& node, peer::Outbox& out);
  void act(Node& node, peer::Run& action);
  void act(Node& node, const base::LogEntry& action);
  void act(Node&, const peer::Report&) {}  // a row of a file that nobody reads here
  void act(Node& node, const peer::Remember& action) {
    node.folder.write_addresses(action.addresses);
  }
  void act(Node& node, const peer::Refused& action);
  void act(Node& node, peer::Finished& action);
  void note_opening(Node& node, const peer::Job& job);
  void begin_work(Node& node);
  void end_work_after(Node& node, base::Duration delay);
  void schedule(Node& node);

  Shared& shared_;
  const Addresses& addresses_;
  Links& links_;
  Dialing& dialing_;
  base::Rng clocks_{~shared_.plan.seed};  ///< so that nothing else depends on the number of draws
  std::uint32_t wakes_in_place_ = 0;
  base::Time last_wake_{};
};

}  // namespace starling::sim
