// Peers in one process: protocol cores and real replicas, joined by links that delay, under a
// virtual clock. It holds the invariants of tracked averaging against every commit as it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "exchange/core.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "tests/unit/network.hpp"

namespace starling::exchange::test {

struct SwarmOptions {
  std::uint64_t seed = 1;
  std::size_t elements = 600;
  std::size_t buffers = 0;
  std::uint64_t samples_target = 1'000'000'000;  ///< so large: the run stays at its start
  Config config{};
};

class Swarm {
 public:
  explicit Swarm(const SwarmOptions& options);

  /// Adds a peer that makes a step every `step_time`, from the initial parameters (or with a
  /// state). Returns its number.
  std::size_t add(base::Duration step_time, bool has_state = false);
  /// Joins two peers; deltas take `delay` to 2 * `delay` one way, in order.
  void connect(std::size_t a, std::size_t b, base::Duration delay);
  /// Ends the link between two peers: what is under way is lost.
  void cut(std::size_t a, std::size_t b, bool for_good = false);
  void set_phase(Phase phase);
  void set_phase(std::size_t peer, Phase phase);
  /// The swarm's progress as the peers know it.
  void set_progress(double progress);
  void run_for(base::Duration duration);
  void at_step(std::function<void(std::size_t peer, std::span<float>)> local_update);

  struct Peer {
    Peer(std::size_t at, const Options& options, std::span<const float> initial, base::Rng rng);
    [[nodiscard]] std::span<float> buffers() { return replica.buffers().values(); }
    std::size_t number;
    base::PeerId id;
    Core core;
    Replica replica;
    std::deque<Job> port;  ///< jobs on their way to the replica's owner
    JobQueue jobs;         ///< jobs that it has
    base::Duration step_time{};
    base::StepNumber step{};
    std::uint64_t samples = 0;
    double progress = 0.0;
    Phase phase = Phase::training;
    std::optional<Settled> settled;
    base::Time settled_at{};
    std::vector<double> moved;  ///< local updates, and what taking over a replica changed
    base::Time last_outcome{};
  };

  [[nodiscard]] Peer& peer(std::size_t i) { return *peers_[i]; }
  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  [[nodiscard]] std::vector<float> x(std::size_t i) const;
  [[nodiscard]] std::uint64_t committed(std::size_t a, std::size_t b) const;
  /// max |x_i - mean| / |mean|
  [[nodiscard]] double spread() const;
  /// Largest element of |sum of x - (sum of initial + sum of local updates)|.
  [[nodiscard]] double ledger_error() const;
  [[nodiscard]] const std::vector<std::string>& broken_rules() const { return broken_rules_; }
  [[nodiscard]] std::uint64_t compared() const { return compared_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }
  [[nodiscard]] base::Time now() const { return network_.now(); }

  /// Changes a message on its way, or drops it (false).
  std::function<bool(std::size_t from, std::size_t to, wire::Message&)> tamper;

 private:
  using Network = starling::testing::Network;
  struct Wire {
    std::size_t connection = 0;
    base::Duration delay{};
  };
  struct End {
    std::uint64_t opened = 0;
    std::uint64_t committed = 0;
  };

  /// Where the first of the two sends to the other; nothing: they are not linked.
  [[nodiscard]] std::optional<Network::Place> place_of(std::size_t from, std::size_t to) const;
  void give(std::size_t i, Event event);
  void act(std::size_t i, Outbox& out);
  void hand_over(std::size_t i, Job job);
  void send(std::size_t from, const Send& action);
  void boundary(std::size_t i);
  void run_due(std::size_t i);
  void note(std::size_t i, const Job& job, const Outcome* outcome);
  void compare(std::size_t i, std::size_t j);
  std::size_t number_of(const base::PeerId& id) const;

  SwarmOptions options_;
  base::Rng rng_;
  std::vector<float> initial_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<std::pair<std::size_t, std::size_t>, Wire> wires_;  // by (from, to)
  std::map<std::pair<std::size_t, std::size_t>, End> ends_;    // by (peer, other)
  Network network_;
  std::function<void(std::size_t, std::span<float>)> local_update_;
  std::vector<std::string> broken_rules_;
  std::uint64_t compared_ = 0;
  std::uint64_t commits_ = 0;
};

}  // namespace starling::exchange::test
