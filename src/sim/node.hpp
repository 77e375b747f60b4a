// One process of the simulated world, and those who hear of it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "membership/simulated_signer.hpp"
#include "peer/conduct.hpp"
#include "peer/core.hpp"
#include "sim/agenda.hpp"
#include "sim/folder.hpp"
#include "sim/language/plan.hpp"
#include "sim/timed_worker.hpp"

namespace starling::sim {

/// The monotonic clock of a machine, which may run too fast or too slow.
class MachineClock {
 public:
  /// It shows `shown` at the world's time `now`. The rate stays.
  void set(base::Time shown, base::Time now) {
    base_ = shown;
    since_ = now;
  }
  /// From now on it runs `rate` times as fast as the world's time.
  void set_rate(double rate, base::Time now) {
    set(at(now), now);
    rate_ = rate;
  }
  [[nodiscard]] double rate() const noexcept { return rate_; }
  /// What it shows at the world's time `now`.
  [[nodiscard]] base::Time at(base::Time now) const {
    const base::Duration passed = now - since_;
    return base_ + (rate_ == 1 ? passed : base::from_seconds(base::seconds(passed) * rate_));
  }
  /// The world's time, `now` at the earliest, at which it shows at least `shown`.
  [[nodiscard]] base::Time when(base::Time shown, base::Time now) const {
    const base::Duration ahead = shown - at(now);
    if (ahead <= base::Duration{}) return now;
    if (rate_ == 1) return now + ahead;
    return now + base::from_seconds(base::seconds(ahead) / rate_) + base::Duration(1);
  }

 private:
  double rate_ = 1;
  base::Time since_{};  ///< world's time
  base::Time base_{};   ///< shown then
};

enum class NodeState : std::uint8_t { down, running, stopped, finished };

/// One process. It has the number of its peer in the plan; twins come after all peers.
struct Node {
  std::uint32_t number = 0;  ///< of the node
  std::uint32_t peer = 0;    ///< in the plan
  bool relay = false;        ///< it has no replica
  bool hostile = false;      ///< it attacks the others
  base::PeerId id;
  std::uint64_t incarnation = 0;  ///< its incarnation at the start
  std::string address;
  NodeState state = NodeState::down;
  std::uint32_t life = 0;  ///< rises with each start
  std::unique_ptr<membership::SimulatedSigner> signer;
  std::unique_ptr<peer::Conduct> conduct;  ///< null: it is honest
  std::unique_ptr<peer::Core> core;
  std::unique_ptr<TimedWorker> worker;
  Folder folder;
  bool waits_for_room = false;    ///< it starts when its disk is no longer full
  std::vector<std::string> join;  ///< addresses that it was given, and is given at each start
  std::map<base::LinkId, std::uint32_t> links;  ///< to connections
  std::uint32_t last_link = 0;
  std::deque<peer::Event> held;     ///< arrived while the process stood still
  std::vector<std::size_t> faults;  ///< planned events that affect this node, in order of begin
  double speed = 1;                 ///< of the processor, throttling included
  MachineClock clock;
  std::optional<base::Time> wake_at;  ///< world's time
  bool working = false;
  std::uint64_t work = 0;      ///< serial of the Work that ends what is under way
  base::Time work_ends{};      ///< world's time
  base::Duration work_left{};  ///< when it was stopped
  base::Time started{};        ///< world's time
  std::optional<peer::Finished> finished;
  std::uint64_t membership_bytes = 0;  ///< sent
  std::uint64_t sent_bytes = 0;        ///< of all frames, since it started
  std::uint64_t dials = 0;             ///< since it started
  double up_seconds = 0;               ///< in former lives

  [[nodiscard]] bool is_twin() const noexcept { return number != peer; }
  [[nodiscard]] bool is_up() const noexcept {
    return state == NodeState::running || state == NodeState::stopped;
  }
  [[nodiscard]] Life this_life() const noexcept { return {number, life}; }
};

using Nodes = std::vector<std::unique_ptr<Node>>;

/// Watches the world: checks and measurements.
class Observer {
 public:
  virtual ~Observer() = default;
  /// After every event of a node.
  virtual void touched(Node&) {}
  virtual void noticed(const Node&, const base::LogEntry&) {}
  virtual void sent(const Node& /*from*/, const wire::Message&) {}
  /// `answers`: a process runs at the address at this moment.
  virtual void dialed(const Node&, const peer::Dial&, bool /*answers*/) {}
  /// It relays one more circuit.
  virtual void relays(const Node& /*relay*/) {}
  /// Called before its core hears of the step. `samples`: of this step.
  virtual void stepped(Node&, std::uint32_t /*samples*/) {}
  /// Called before an event begins, and after it ends.
  virtual void fault(const PlannedEvent&, bool /*begins*/) {}
  virtual void started(Node&) {}
  /// It is about to be killed.
  virtual void killed(Node&) {}
  /// It has ended by itself: see node.finished.
  virtual void finished(Node&) {}
  virtual void second() {}
};

/// Takes events to the cores.
class Receiver {
 public:
  /// Nothing happens if the node does not run; if it stands still, it hears of the event later.
  virtual void give(Node& node, peer::Event event) = 0;

 protected:
  ~Receiver() = default;
};

}  // namespace starling::sim
