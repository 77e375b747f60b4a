// Whole peers in one thread: real cores, workers and a small model; virtual time, and a
// network whose messages go through the wire format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/sharding.hpp"
#include "membership/simulated_signer.hpp"
#include "model/model.hpp"
#include "peer/buffers.hpp"
#include "peer/core.hpp"
#include "peer/worker.hpp"
#include "tests/unit/network.hpp"

namespace starling::peer::testing {

/// Four kinds of 16 pixels: a bright quarter in noise. An MLP 16-8-4 learns it in 100 steps, with
/// a batch norm behind its first layer or without.
struct Problem {
  explicit Problem(std::uint64_t seed, bool batch_norm = false);

  data::Dataset data;
  data::Shards shards;
  model::Model model;
  std::vector<float> initial;
  exchange::BufferSpec buffers;
  train::Config training{.lr = 0.1, .batch = 16};

  /// A worker that starts at the initial parameters, whatever was done before. `loader` outlives
  /// it. Any thread: it states nothing to Boost.Test.
  [[nodiscard]] std::unique_ptr<Worker> worker(data::Loader& loader, Saver saver,
                                               const Resume& resume = {}) const;
};

/// A core's configuration for a run on the problem: 8,192 samples, an exchange every other step.
[[nodiscard]] Config config_for(const Problem& problem, exchange::Mode mode);

/// Of virtual time, for a run to its end.
inline constexpr base::Duration kPatience = std::chrono::minutes(2);
/// Of a worker, unless it was slowed down.
inline constexpr base::Duration kJobTime = std::chrono::milliseconds(1);

class World {
 public:
  explicit World(std::uint64_t seed, bool batch_norm = false)
      : problem(seed, batch_norm), seed_(seed), rng_(seed) {}

  /// A new peer that starts now and listens on address_of(its index). `former`: of which peer, that
  /// was killed or has ended, it is another life; its replica starts at the initial parameters.
  std::size_t add(Config config, std::vector<std::string> join = {}, Resume resume = {},
                  std::optional<std::size_t> former = {});
  /// A relay that starts now. `run`: zero where it serves whatever run comes.
  std::size_t add_relay(const wire::RunId& run = {}, std::vector<std::string> join = {});
  /// Peers up to this number, of which all but the first join by the first.
  void add_swarm(std::size_t count, const Config& config);
  [[nodiscard]] static std::string address_of(std::size_t index);
  void give(std::size_t index, Event event);
  /// Each of its worker's jobs takes this many times as long from now on.
  void slow_down(std::size_t index, int times);
  /// The process ends without a word; its machine resets the links.
  void kill(std::size_t index);
  /// Breaks a link of a peer; its other end notices a little later.
  void reset(std::size_t index, base::LinkId link);
  /// A link from nobody's core to a peer, on which the test speaks for the other end. `observed`:
  /// where that is seen.
  base::LinkId connect_stranger(std::size_t to, const base::PeerId& id,
                                const std::string& observed = {});

  /// Runs until `done` holds, looked at after each event; false if it does not within `limit`.
  bool run_until(base::Duration limit, const std::function<bool()>& done);
  /// Runs until every peer that was not killed has finished.
  bool run_to_the_end(base::Duration limit);

  /// A peer's actions, as far as they left the core.
  struct Peer {
    base::PeerId id;
    std::unique_ptr<data::Loader> loader;
    std::unique_ptr<Worker> worker;
    std::unique_ptr<membership::SimulatedSigner> signer;
    std::unique_ptr<Core> core;
    bool alive = true;
    bool working = false;
    base::Duration job_time = kJobTime;
    std::optional<Evaluated> evaluated;
    std::optional<Refused> refused;
    std::optional<Finished> finished;
    std::vector<Resume> saved;  ///< without addresses
    std::vector<std::string> remembered;
    std::vector<std::string> warnings;
    std::vector<base::LinkId> closed;  ///< by the core
    std::vector<wire::Message> told_strangers;
    std::size_t reports = 0;                ///< rows with a new evaluation
    std::vector<base::Time> timed_reports;  ///< when there were others
    bool disk_full = false;                 ///< what is saved from now on fails
  };
  [[nodiscard]] Peer& peer(std::size_t index) { return *peers_[index]; }
  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  [[nodiscard]] Status status(std::size_t index) const {
    return peers_[index]->core->status(now());
  }
  [[nodiscard]] std::vector<float> replica(std::size_t index) const;
  [[nodiscard]] const exchange::Buffers& buffers(std::size_t index) const;
  /// max |x_i - mean| / |mean| over the peers that finished, relays left out.
  [[nodiscard]] double spread() const;
  [[nodiscard]] base::Time now() const { return network_.now(); }
  [[nodiscard]] const starling::testing::Network& network() const { return network_; }
  /// A link of the peer that is up.
  [[nodiscard]] base::LinkId any_link(std::size_t index) const {
    return network_.links(index).begin()->first;
  }

  const Problem problem;
  /// Changes what a peer's worker says.
  std::function<void(std::size_t index, Outcome& outcome)> tamper;

 private:
  using Place = starling::testing::Network::Place;

  bool step();
  std::size_t start(Config config, bool relay, Resume resume, std::optional<std::size_t> former);
  void act(std::size_t index, Outbox& out);
  void dial(std::size_t index, const std::string& address);
  void bring_up(const Place& place, const std::string& address);
  [[nodiscard]] base::Duration draw_delay();
  void send(std::size_t index, base::LinkId link, const wire::Message& message);
  void close(std::size_t index, base::LinkId link, membership::LossReason reason);
  void take_down(const Place& place, membership::LossReason reason);
  void close_all(std::size_t index, membership::LossReason reason);
  void work(std::size_t index);

  std::uint64_t seed_;
  base::Rng rng_;
  starling::testing::Network network_{base::Time(std::chrono::seconds(1))};
  std::vector<std::unique_ptr<Peer>> peers_;
};

/// Whether a peer has ended, and so.
[[nodiscard]] bool ended(World& world, std::size_t index, EndReason reason);
[[nodiscard]] bool failed_with(World& world, std::size_t index, base::ErrorCode code);

}  // namespace starling::peer::testing
