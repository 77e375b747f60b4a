// The simulated world: peers' unmodified cores, links between them, virtual time. One seed decides
// everything; nothing here reads a clock, makes a thread or touches a file.
//
// A link is an ordered stream of frames, as TCP with TLS provides it: effects of the network on
// packets show as delay. A packet that is lost, or sent into a cut, stalls its direction until a
// retransmission gets through; pauses double between retransmissions, as in TCP. Over a path or a
// line of limited rate a frame goes packet by packet, at the rate of that moment. Acknowledgements
// return over the other path: while that one is cut, at most one window is delivered. A flipped bit
// that the transport's checksum misses reaches the reader of frames, which must refuse it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/simulated_signer.hpp"
#include "peer/core.hpp"
#include "sim/folder.hpp"
#include "sim/language/plan.hpp"
#include "sim/learner.hpp"
#include "sim/nat.hpp"
#include "sim/paths.hpp"
#include "sim/timed_worker.hpp"

namespace starling::sim {

enum class NodeState : std::uint8_t { down, running, stopped, finished };

/// One process. It has the number of its peer in the plan; twins come after all peers.
struct Node {
  std::uint32_t number = 0;  ///< of the node
  std::uint32_t peer = 0;    ///< in the plan
  base::PeerId id;
  std::uint64_t incarnation = 0;  ///< its incarnation at the start
  std::string address;
  NodeState state = NodeState::down;
  std::uint32_t life = 0;  ///< rises with each start
  std::unique_ptr<membership::SimulatedSigner> signer;
  std::unique_ptr<peer::Core> core;
  std::unique_ptr<TimedWorker> worker;
  Folder folder;
  bool waits_for_room = false;    ///< it starts when its disk is no longer full
  std::vector<std::string> join;  ///< addresses that it was given, and is given at each start
  std::map<base::LinkId, std::uint32_t> links;  ///< to connections
  std::uint32_t last_link = 0;
  std::deque<peer::Event> held;       ///< arrived while the process stood still
  std::vector<std::size_t> faults;    ///< planned events that affect this node, in order of begin
  double speed = 1;                   ///< of the processor, throttling included
  double rate = 1;                    ///< of the clock
  base::Time rate_since{};            ///< world's time
  base::Time rate_base{};             ///< its own time then
  std::optional<base::Time> wake_at;  ///< world's time
  bool working = false;
  std::uint64_t work = 0;      ///< serial of the Work that ends what is under way
  base::Time work_ends{};      ///< world's time
  base::Duration work_left{};  ///< when it was stopped
  base::Time started{};        ///< world's time
  std::optional<peer::Finished> finished;
  std::uint64_t membership_bytes = 0;        ///< sent
  std::uint64_t sent_bytes = 0;              ///< of all frames, since it started
  std::array<base::Time, 2> line_free_at{};  ///< when its line is free: out of it, and in
  std::uint64_t dials = 0;                   ///< since it started
  double up_seconds = 0;                     ///< in former lives

  [[nodiscard]] bool is_twin() const noexcept { return number != peer; }
};

/// Watches the world: checks and measurements.
class Observer {
 public:
  virtual ~Observer() = default;
  /// After every event of a node.
  virtual void touched(Node& node) = 0;
  virtual void noticed(const Node& node, const base::LogEntry& notice) = 0;
  virtual void sent(const Node& from, const wire::Message& message) = 0;
  /// `answers`: a process runs at the address at this moment.
  virtual void dialed(const Node& node, const peer::Dial& dial, bool answers) = 0;
  /// It relays one more circuit.
  virtual void relays(const Node& relay) = 0;
  /// Called before its core hears of the step. `samples`: of this step.
  virtual void stepped(Node& node, std::uint32_t samples) = 0;
  /// Called before an event begins, and after it ends.
  virtual void fault(const PlannedEvent& event, bool begins) = 0;
  virtual void started(Node& node) = 0;
  /// It is about to be killed.
  virtual void killed(Node& node) = 0;
  /// It has ended by itself: see node.finished.
  virtual void finished(Node& node) = 0;
  virtual void second() = 0;
};

class World {
 public:
  /// `plan` and `task` outlive this. `trace`: takes a line for every event; may be empty.
  World(const Plan& plan, Task& task, std::function<void(const std::string&)> trace);

  void set_observer(Observer* observer) { observer_ = observer; }
  /// Runs until the plan's end, until all peers have finished, or until stop().
  void run();
  void stop() { stopped_ = true; }

  [[nodiscard]] base::Time now() const noexcept { return now_; }
  [[nodiscard]] double seconds() const noexcept { return base::seconds(now_ - kStart); }
  [[nodiscard]] const std::vector<std::unique_ptr<Node>>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const PathTable& paths() const noexcept { return paths_; }
  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  [[nodiscard]] const Task& task() const noexcept { return task_; }
  [[nodiscard]] base::Time local(const Node& node) const;
  /// XXH3 over every event that was delivered and the bytes of every frame, in order.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return delivered_; }
  [[nodiscard]] double peer_seconds() const;
  /// The path of the link between the two, if there is one.
  [[nodiscard]] std::optional<LinkPath> link_path(const Node& a, const Node& b) const;
  /// Frames of the node that the network has not yet taken.
  [[nodiscard]] std::size_t unsent(const Node& node) const;
  /// Whether the node has no replica.
  [[nodiscard]] bool is_relay(const Node& node) const { return plan_.peers[node.peer].relay; }
  /// Circuits that the node relays now.
  [[nodiscard]] std::size_t relayed(const Node& node) const;
  [[nodiscard]] bool tracing() const noexcept { return static_cast<bool>(trace_); }
  void trace(const std::string& text) const;
  /// The first rule of the world that was broken; empty: none was.
  [[nodiscard]] const std::string& breach() const noexcept { return breach_; }
  [[nodiscard]] bool is_up(const Node& node) const noexcept {
    return node.state == NodeState::running || node.state == NodeState::stopped;
  }

  /// In seconds, as of the node's last start.
  [[nodiscard]] double started(const Node& node) const noexcept {
    return base::seconds(node.started - kStart);
  }

  static constexpr base::Time kStart{std::chrono::seconds(1000)};

 private:
  // The contents of a link.
  struct Up {};
  struct Frame {
    base::Bytes bytes;
    wire::Message message;
    bool damaged = false;
    base::Duration took{};  ///< on lines, from the first byte to the last
  };
  struct Gone {
    bool reset = false;  ///< otherwise closed on purpose
  };
  using Item = std::variant<Up, Frame, Gone>;
  struct Flying {
    base::Time at;
    Item item;
  };
  /// Frames that the network has not yet taken.
  struct Waiting {
    Item item;
    bool met = false;        ///< the network's effect on it is decided
    base::Duration extra{};  ///< added delay
    std::size_t sent = 0;    ///< bytes, on lines
    base::Time began{};      ///< when sending on lines began
    std::size_t told = 0;    ///< bytes that were reported to the other end
    base::Time told_at{};
  };
  struct Direction {
    std::deque<Flying> flying;
    std::deque<Waiting> waiting;
    base::Time last_arrival{};
    std::uint64_t turn = 0;  ///< serial of the current Turn; 0: there is none
    bool stalled = false;
    std::uint32_t tries = 0;
    std::size_t unacknowledged = 0;
  };
  struct End {
    std::uint32_t node = 0;
    std::uint32_t life = 0;
    base::LinkId link;
    bool open = false;     ///< the node knows of it
    bool accepts = false;  ///< accepts frames of any size
  };
  struct Connection {
    std::uint32_t generation = 0;
    std::array<End, 2> ends;                           ///< 0 dialed
    std::array<Direction, 2> directions;               ///< 0: from end 0
    std::array<std::optional<std::string>, 2> dialed;  ///< by each end: the dialed address
    std::array<std::string, 2> observed;               ///< where each end is, as the other sees it
    std::optional<base::Duration> forgotten_after;     ///< by a router, after this much silence
    base::Time passed{};                               ///< when the last packet passed
    bool through_router = false;
    bool dead = false;          ///< a router on the way has forgotten it, or an end is elsewhere
    std::uint64_t circuit = 0;  ///< the circuit under this link; 0: none
  };
  /// A link's place in the table of connections.
  struct Place {
    std::uint32_t slot = 0, generation = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// One end's half of a circuit, from OpenCircuit on.
  struct Opened {
    std::uint32_t node, life;
    base::LinkId link;  ///< with the relay
    std::uint32_t number;
    Place leg;
  };
  /// A circuit at its relay, from Relay to CircuitEnded. Leg 0 is the dialer's.
  struct Circuit {
    std::uint32_t relay = 0, life = 0;
    std::array<base::LinkId, 2> links;  ///< of the relay
    std::array<std::uint32_t, 2> numbers{};
    std::array<Place, 2> legs{};
    std::optional<Place> connection{};
    std::uint64_t bytes = 0;
  };
  /// The destination of a dial.
  struct Route {
    std::uint32_t to = 0;  ///< node
    std::string observed;  ///< where the destination sees this end
    bool inside = false;   ///< the dial passes no router
  };
  /// Both ends have to dial at the same time: this one has begun to.
  struct Punch {
    std::uint64_t serial = 0;
    std::uint32_t node = 0, life = 0;
    std::string address;
  };

  // Things that happen at a time.
  struct Wake {
    std::uint32_t node, life;
  };
  /// Only the last Work of a node counts: work that was stopped ends later than planned.
  struct Work {
    std::uint32_t node, life;
    std::uint64_t serial;
  };
  struct Arrive {
    std::uint32_t connection, generation;
    int to;
  };
  /// A packet of the first waiting frame is through.
  struct Turn {
    std::uint32_t connection, generation;
    int from;
    std::uint64_t serial;
  };
  /// Some bytes of a slow frame arrive.
  struct Part {
    std::uint32_t connection, generation;
    int to;
    std::uint8_t type;
    std::size_t bytes;
  };
  struct Retry {
    std::uint32_t connection, generation;
    int from;
  };
  struct Dialed {
    std::uint32_t node, life;
    std::string address;
    bool answered;
    std::optional<Route> route;
    std::uint64_t punch;  ///< serial; 0: not a punch
    bool no_route = false;
  };
  struct Closed {
    std::uint32_t node, life;
    base::LinkId link;
    bool reset;
  };
  /// The handshake over a circuit is complete, seen from the end that began it.
  struct CircuitDialed {
    Opened by;
  };
  /// An end of a circuit, or its relay, hears that the circuit is over.
  struct CircuitOver {
    std::uint32_t node, life;
    base::LinkId link;
    std::uint32_t number;
    std::uint64_t bytes;
  };
  /// The link over an ended circuit breaks at one end.
  struct CircuitBreaks {
    Place connection;
    int side;
  };
  /// Checks whether the circuit is in use.
  struct CircuitIdle {
    std::uint64_t circuit;
  };
  struct Planned {
    std::size_t event;
    bool begins;
  };
  struct Second {};
  using Happening = std::variant<Wake, Work, Arrive, Turn, Part, Retry, Dialed, Closed, Planned,
                                 Second, CircuitDialed, CircuitOver, CircuitBreaks, CircuitIdle>;
  struct Queued {
    base::Time at;
    std::uint64_t order;
    std::uint32_t slot;
    friend bool operator<(const Queued& a, const Queued& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;  // earliest on top
    }
  };

  void at(base::Time time, Happening happening);
  void after(base::Duration delay, Happening happening) { at(now_ + delay, std::move(happening)); }
  void happen(Wake& wake);
  void happen(Work& work);
  void happen(Arrive& arrive);
  void happen(Turn& turn);
  void happen(Part& part);
  void happen(Retry& retry);
  void happen(Dialed& dialed);
  void happen(Closed& closed);
  void happen(Planned& planned);
  void happen(Second& second);
  void happen(CircuitDialed& dialed);
  void happen(CircuitOver& over);
  void happen(CircuitBreaks& breaks);
  void happen(CircuitIdle& idle);

  // Peers (world_nodes.cpp).
  void begin(const PlannedEvent& event, std::size_t index);
  void end(const PlannedEvent& event, std::size_t index);
  void start(std::uint32_t number, bool twin = false);
  void restart(Node& node, Disk disk);
  [[nodiscard]] bool has_run(const Node& node) const;
  void move(Node& node);
  void change_address(Node& node);
  void strike_routers(const PlannedEvent& event);
  [[nodiscard]] std::vector<std::string> own_addresses(const Node& node) const;
  [[nodiscard]] std::vector<std::string> addresses_of(
      const std::vector<std::uint32_t>& peers) const;
  void kill(Node& node);
  void stop(Node& node);
  void resume(Node& node);
  void apply_faults(Node& node);
  void set_rate(Node& node, double rate);
  void give(Node& node, peer::Event event);
  void act(Node& node, peer::Outbox& out);
  void act(Node& node, const peer::Dial& action);
  void act(Node& node, const peer::Send& action);
  void act(Node& node, const peer::Accept& action);
  void act(Node& node, const peer::Close& action);
  void act(Node& node, peer::Run& action);
  void act(Node& node, const base::LogEntry& action);
  void act(Node& node, const peer::Report& action);
  void act(Node& node, const peer::Remember& action);
  void act(Node& node, const peer::Refused& action);
  void act(Node& node, peer::Finished& action);
  void act(Node& node, const peer::OpenCircuit& action);
  void act(Node& node, const peer::Relay& action);
  void act(Node& node, const peer::EndCircuit& action);
  void note_opening(Node& node, const peer::Job& job);
  void begin_work(Node& node);
  void end_work_after(Node& node, base::Duration delay);
  void schedule(Node& node);
  [[nodiscard]] base::Time world_time(const Node& node, base::Time local) const;
  [[nodiscard]] Node* find_address(const std::string& address);
  void digest(const Node& node, std::uint32_t kind, std::uint64_t what);

  // Links (world_links.cpp).
  void dial(Node& node, const peer::Dial& action);
  /// `address`: of the dial, in numbers, if there are routers.
  [[nodiscard]] std::optional<Route> find_route(const Node& node, const peer::Dial& action,
                                                const std::optional<base::IpPort>& address);
  [[nodiscard]] std::optional<Punch> take_punch(std::uint64_t serial);
  [[nodiscard]] std::optional<Punch> take_punch(const Node& node, const std::string& address);
  void connect(Node& from, Node& to, const Dialed& dialed, std::uint64_t circuit = 0);
  void lose_links(const std::vector<std::uint32_t>& peers, bool through_routers);
  [[nodiscard]] bool passes(Connection& connection) const;
  void send(Node& node, base::LinkId link, const wire::Message& message);
  void close(Node& node, base::LinkId link, bool reset);
  void push(std::uint32_t connection, int from, Item item);
  void serve(std::uint32_t connection, int from);
  bool meet(const PathState& path, bool acknowledged, Direction& direction);
  base::Time send_packet(std::uint32_t connection, int from);
  void announce(std::uint32_t connection, int from);
  void fly(std::uint32_t connection, int from);
  void stall(std::uint32_t connection, int from);
  using Reason = membership::LossReason;
  void drop(std::uint32_t connection, int side, Reason reason, const std::string& text);
  void release(std::uint32_t connection);
  [[nodiscard]] static std::size_t size_of(const Item& item);
  [[nodiscard]] static std::size_t packet_of(const Waiting& waiting);
  /// The path from end `from`, over the relay if there is one.
  [[nodiscard]] PathState path_state(const Connection& connection, int from) const;
  [[nodiscard]] bool path_cut(const Connection& connection, int from) const;

  // Circuits (world_circuits.cpp).
  [[nodiscard]] std::map<std::uint64_t, Circuit>::iterator find_circuit(const Node& relay,
                                                                        base::LinkId link,
                                                                        std::uint32_t number);
  [[nodiscard]] std::optional<Place> place_of(const Node& node, base::LinkId link) const;
  [[nodiscard]] std::vector<Opened>::iterator find_opened(const Circuit& circuit, int leg);
  /// `orderly`: frames on their way still arrive.
  void end_circuit(std::map<std::uint64_t, Circuit>::iterator at, bool orderly = false);
  void tell_over(const Node& node, base::LinkId link, std::uint32_t number, std::uint64_t bytes);
  /// One end of this link is gone, and so are the circuits that it carries.
  void leg_gone(std::uint32_t slot, bool orderly);
  /// The peers at the two ends of the connection.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> path_of(const Connection& connection,
                                                                int from) const;
  [[nodiscard]] static int side_of(const Connection& connection, const Node& node,
                                   base::LinkId link);

  const Plan& plan_;
  Task& task_;
  std::function<void(const std::string&)> trace_;
  Observer* observer_ = nullptr;
  PathTable paths_;
  base::Rng rng_;
  std::optional<Nat> nat_;  ///< if the scenario has one
  base::Rng clocks_;        ///< separate, so that nothing else depends on the number of draws
  base::Time now_ = kStart;
  base::Time end_;
  bool stopped_ = false;
  std::uint64_t order_ = 0;
  std::uint64_t turns_ = 0;
  std::priority_queue<Queued> queue_;
  std::vector<Happening> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, std::uint32_t> addresses_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> free_connections_;
  std::map<std::uint64_t, Circuit> circuits_;
  std::vector<Opened> opened_;  ///< ends for which CircuitEnded has not come
  std::uint64_t last_circuit_ = 0;
  std::vector<Punch> punches_;
  std::uint64_t last_punch_ = 0;
  std::map<std::size_t, std::uint64_t> path_faults_;         ///< planned event: fault
  std::map<std::size_t, std::vector<std::uint32_t>> twins_;  ///< planned event: nodes
  std::uint64_t trace_hash_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint32_t wakes_in_place_ = 0;
  base::Time last_wake_{};
  std::string breach_;
};

}  // namespace starling::sim
