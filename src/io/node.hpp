// A real peer: the event loop that gives a peer's core its links, clock, trainer thread, control
// port and signals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "io/control.hpp"
#include "io/identity.hpp"
#include "io/lan.hpp"
#include "io/loop.hpp"
#include "io/own_addresses.hpp"
#include "io/trainer_port.hpp"
#include "io/transport.hpp"
#include "peer/core.hpp"

namespace starling::io {

/// A node's reports to its caller; on the loop's thread.
struct NodeObserver {
  std::function<void(base::Severity, const std::string& text)> note;
  /// A row for the metrics is due.
  std::function<void(const peer::Status&, const peer::Report&)> report;
  /// Addresses of others, for the next start.
  std::function<void(const std::vector<std::string>& addresses)> remember;
  /// The swarm trains another run.
  std::function<void(const peer::Refused&)> refused;
};

/// How a node ended.
struct NodeEnd {
  peer::EndReason reason = peer::EndReason::done;
  base::Error error;    ///< as in peer::Finished
  peer::Status status;  ///< at the end, its links still counted
  LinkTraffic traffic;  ///< of all links
};

/// A peer's event loop with everything on it: links, timers, the control port, signals. Belongs to
/// the thread that makes it; trainer() belongs to the trainer thread.
class Node {
 public:
  struct Options {
    TransportConfig transport;
    NodeObserver observer;
    /// Look for peers of this run on the local network.
    std::optional<wire::RunId> lan;
    /// On a SIGINT, SIGTERM or SIGHUP, the peer leaves; a second SIGINT exits the process with 130
    /// at once.
    bool signals = true;
    std::string http = "127.0.0.1:0";  ///< where the control port is
    /// The program that maps the port on the router, found by find_mapper(); empty: none.
    std::string port_mapper;
    /// Addresses that a person gave for this peer: told to others first.
    std::vector<std::string> announced;
    /// Answers the control port's GETs from the status; the node handles POSTs to /leave and
    /// /checkpoint.
    std::function<ControlReply(const ControlRequest&, const Node&)> serve;
  };

  /// Opens the listener and the control port. `identity` outlives the node.
  [[nodiscard]] static base::Result<std::unique_ptr<Node>> create(const Identity& identity,
                                                                  Options options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// The "ip:port" on which it listens.
  [[nodiscard]] const std::string& address() const { return transport_->address(); }
  /// The current addresses at which others reach this peer, at least one. While it runs, they are
  /// checked every few seconds, and the swarm is told of changes.
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept {
    return addresses_->all();
  }
  [[nodiscard]] const std::string& control_address() const { return control_->address(); }
  /// Nothing: no router is asked, or not yet.
  [[nodiscard]] const PortMapping* port_mapping() const noexcept { return addresses_->mapping(); }

  /// Gives the owner of the replica its jobs; closed when the peer has ended. Lives as long as
  /// this.
  [[nodiscard]] TrainerPort& trainer() noexcept { return *trainer_; }

  /// Runs the peer until it ends: done, left or failed. Once. This is the loop thread.
  [[nodiscard]] NodeEnd run(std::unique_ptr<peer::Core> core);

  /// From the beginning of run() on.
  [[nodiscard]] peer::Status status() const;
  [[nodiscard]] LinkTraffic traffic() const { return transport_->traffic(); }
  [[nodiscard]] LinkTraffic traffic(base::LinkId link) const { return transport_->traffic(link); }
  [[nodiscard]] LinkCarrier carrier(base::LinkId link) const { return transport_->carrier(link); }

 private:
  class Handler;

  struct Dial {
    std::uint64_t token = 0;
    std::string address;
  };

  Node(Options options, Loop loop);
  void feed(peer::Event event);
  /// The address that was dialed, if this end dialed.
  std::optional<std::string> take_dial(std::uint64_t token);
  void act(peer::Outbox& out);
  void open_lan(const base::PeerId& own);
  void watch_addresses();
  void note(base::Severity severity, const std::string& text) const;
  void schedule();
  void on_timer();
  void take_outcomes();
  void on_signal(int number);
  ControlReply serve(const ControlRequest& request);
  void shut_down();
  void show_end();
  void close_handles();

  Options options_;
  Loop loop_;
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<WakeUp> wake_;
  std::unique_ptr<Timer> timer_;
  std::vector<std::unique_ptr<Signal>> signals_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<OwnAddresses> addresses_;
  std::unique_ptr<Lan> lan_;
  std::unique_ptr<Timer> lan_timer_;  ///< until it is reported that no peer was heard
  std::unique_ptr<Control> control_;
  std::unique_ptr<peer::Core> core_;
  std::unique_ptr<TrainerPort> trainer_;
  std::vector<Dial> dials_;                  ///< outstanding
  std::vector<peer::Event> asked_;           ///< over the control port, in this turn
  std::optional<base::Time> history_asked_;  ///< for the charts of a page
  bool shows_end_ = false;
  bool interrupted_ = false;
  bool ctrl_c_ = false;  ///< a SIGINT came
  std::optional<NodeEnd> end_;
};

}  // namespace starling::io
