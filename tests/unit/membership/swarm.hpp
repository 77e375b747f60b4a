// Many membership cores in one thread: virtual time, a network with delays, cuts and deaths.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/core.hpp"
#include "membership/simulated_signer.hpp"
#include "tests/unit/network.hpp"

namespace starling::membership::testing {

/// Peer i listens on "peer-i:1"; the ids are random, so their order is unrelated.
[[nodiscard]] std::string address_of(std::size_t index);

/// Bytes that a peer sent as frames: what progress costs, and the rest of membership.
struct Traffic {
  std::uint64_t membership = 0;
  std::uint64_t progress = 0;
};

struct SwarmOptions {
  std::uint32_t degree = 4;
  std::string hub{};  ///< "peer-0"
  base::Duration delay_min = std::chrono::milliseconds(1);
  base::Duration delay_max = std::chrono::milliseconds(5);
  bool counts_bytes = false;  ///< every message is encoded for it
};

class Swarm {
 public:
  Swarm(std::uint64_t seed, SwarmOptions options);

  /// A new peer that starts at `at`; returns its index.
  std::size_t add(std::vector<std::string> join, base::Duration at = {});
  /// The process ends; its machine tells the others (reset), or does not (silent).
  void kill(std::size_t index, bool silent = false);
  /// The same peer again, with the same key, that remembers nothing.
  void restart(std::size_t index, std::vector<std::string> join);
  /// SIGSTOP and SIGCONT: what arrives meanwhile is read afterwards.
  void pause(std::size_t index);
  void resume(std::size_t index);
  /// Peers of different groups reach each other no more; nothing reports it.
  void partition(const std::vector<int>& groups);
  void heal();
  /// Breaks all links of the pair; both ends are told.
  void reset_links(std::size_t a, std::size_t b);
  /// Breaks all links of the pair; only `told` is told.
  void lose_links(std::size_t told, std::size_t other);
  /// Hands an event of the harness's user to a peer.
  void inject(std::size_t index, const Event& event);
  /// Hands a message to `to` as if `from` had sent it on their first link.
  void forge(std::size_t from, std::size_t to, wire::Message message);
  void leave(std::size_t index) { inject(index, Leave{}); }

  void run_for(base::Duration duration);
  /// Runs until `done` holds, looked at every 10 ms; false if it does not within `limit`.
  bool run_until(base::Duration limit, const std::function<bool()>& done);

  [[nodiscard]] base::Time now() const noexcept { return network_.now(); }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  [[nodiscard]] bool up(std::size_t index) const { return nodes_[index]->core.has_value(); }
  [[nodiscard]] Core& core(std::size_t index) { return *nodes_[index]->core; }
  [[nodiscard]] base::PeerId id(std::size_t index) const { return nodes_[index]->id; }
  /// Neighbours as the Up and Down actions told: index to how many links (1 where all is well).
  [[nodiscard]] const std::map<std::size_t, int>& relations(std::size_t index) const {
    return nodes_[index]->relations;
  }
  [[nodiscard]] std::size_t degree(std::size_t index) const;
  [[nodiscard]] std::size_t downs(std::size_t index) const { return nodes_[index]->downs; }
  [[nodiscard]] std::size_t dials(std::size_t index) const { return nodes_[index]->dials; }
  /// Links that became ready at a peer, and the most it had at a time.
  [[nodiscard]] std::size_t readies(std::size_t index) const { return nodes_[index]->readies; }
  [[nodiscard]] const Traffic& sent(std::size_t index) const { return nodes_[index]->sent; }
  /// How often a peer, of those from `first` on, changed between holding a peer for dead and not:
  /// the most of any.
  [[nodiscard]] std::size_t verdicts(std::size_t about, std::size_t first = 0) const;
  /// All messages to or from these peers get lost with this chance. The transport hides it: they
  /// come later, by a round of `timeout` for each loss.
  void lossy(std::vector<std::size_t> peers, double chance, base::Duration timeout);
  /// Nothing that these peers send arrives, until it is healed.
  void mute(const std::vector<std::size_t>& peers);

  /// Every running peer has a relation with every other, known at both ends.
  [[nodiscard]] bool complete() const;
  /// Each relation is known at both ends, over the same link.
  [[nodiscard]] bool symmetric() const;
  [[nodiscard]] bool connected() const;
  [[nodiscard]] bool degrees_at_least(std::size_t least) const;
  /// All running peers have equal tables in which those that run, and no others, are alive.
  [[nodiscard]] bool tables_agree() const;
  [[nodiscard]] wire::MemberState state(std::size_t of, std::size_t at) const;

 private:
  using Network = starling::testing::Network;
  using Place = Network::Place;
  /// By connection.
  struct Dialed {
    std::string address;
    bool ready[2] = {false, false};  ///< at each end
  };
  struct Node {
    base::PeerId id;
    std::optional<SimulatedSigner> signer;
    std::optional<Core> core;
    std::uint64_t life = 0;
    std::optional<base::Time> scheduled;  ///< the deadline that a task waits for
    bool paused = false;
    std::vector<Event> backlog;
    std::map<std::size_t, int> relations;
    std::map<base::LinkId, std::size_t> neighbours;
    std::size_t downs = 0;
    std::size_t dials = 0;
    std::size_t readies = 0;
    Traffic sent;
    bool mute = false;
    double loss = 0;
    std::set<base::PeerId> held_dead;  ///< by this peer, as last seen
    std::map<base::PeerId, std::size_t> verdicts;
  };
  [[nodiscard]] base::Duration delay();
  void start(std::size_t index, std::vector<std::string> join);
  void deliver(std::size_t index, const Event& event);
  void act(std::size_t index, Outbox& out);
  void dial(std::size_t index, const std::string& address);
  void connect(std::size_t from, std::size_t to, const std::string& address);
  void make_ready(const Place& place);
  /// Delivers to the other end, in order, unless cut.
  void carry(const Place& from, std::function<void()> arrive);
  void send(std::size_t index, base::LinkId link, const wire::Message& message);
  void close(std::size_t index, base::LinkId link, wire::ByeReason reason);
  void lose(const Place& place, LossReason reason);
  void schedule(std::size_t index);
  void judge(std::size_t index);
  [[nodiscard]] bool reachable(std::size_t a, std::size_t b) const;
  [[nodiscard]] std::size_t index_of(const base::PeerId& id) const;

  SwarmOptions options_;
  base::Rng rng_;
  Network network_{base::Time(std::chrono::seconds(1))};
  std::map<std::string, std::size_t> addresses_;
  base::Duration loss_timeout_{};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<base::PeerId, std::size_t> indices_;
  std::vector<Dialed> dialed_;
  std::vector<int> groups_;
};

}  // namespace starling::membership::testing
