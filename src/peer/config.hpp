// The settings of a peer's core for its run; made from the run file, the model and the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "data/sharding.hpp"
#include "exchange/config.hpp"
#include "membership/config.hpp"
#include "reach/config.hpp"
#include "train/config.hpp"
#include "wire/messages.hpp"

namespace starling::runfile {
struct RunFile;
}

namespace starling::peer {

struct Config {
  wire::RunId run;
  std::string canonical;  ///< what `run` is the hash of; sent to a peer of another run
  /// The run file as it is handed out to invited machines; at most wire::kRunFileTextMax bytes.
  /// Empty: it is not.
  std::string shared_run_file;
  std::uint64_t parameters_hash = 0;
  std::size_t parameter_count = 0;
  std::size_t buffer_count = 0;
  std::uint64_t target_samples = 0;  ///< of the whole swarm
  std::optional<double> target_accuracy;
  exchange::Config exchange;
  membership::Config membership;
  reach::Config relay;
  bool secure = true;  ///< links are encrypted: without that, nobody relays
  train::Config train;
  bool trains = true;            ///< by `train`; else another program does
  bool weighs_by_speed = false;  ///< else all peers that train count alike
  /// What this peer says of its weight, as wire::Delta::weight; nothing: what it is. For tests.
  std::optional<std::int8_t> weight{};
  /// allreduce, local: the fixed number of peers.
  std::uint32_t peers = 0;
  /// Samples of the swarm between two evaluations while training; 0: only at the end.
  std::uint64_t evaluate_every = 0;
  /// Of this peer's own instead, whose training set nobody else has.
  bool evaluate_by_own_samples = false;
  std::uint32_t evaluate_samples = 1000;  ///< of the test set; the final one uses all
  bool lan = false;                       ///< others may be found on the local network
  /// Ends with an error when no peer was met within this time; zero: trains alone.
  base::Duration require_peers{};
  base::Duration checkpoint_every{};  ///< zero: only at the end
  /// No step on a whole batch is handed out earlier than this after the last one, on a smaller one
  /// by as much sooner; zero: as fast as it goes.
  base::Duration step_interval{};
};

/// The start of a peer, in figures.
struct StartingPoint {
  std::uint64_t parameters_hash = 0;  ///< XXH3 of the initial replica's bytes
  std::size_t parameters = 0;
  std::size_t buffers = 0;
  std::uint64_t training_set = 0;  ///< samples
};

/// Whether peers try their neighbours' replicas: one that another program trains has no loss here.
[[nodiscard]] bool audits(const runfile::RunFile& run_file);

/// Whether all peers train on the same kind of samples.
[[nodiscard]] bool samples_are_alike(const runfile::RunFile& run_file);

/// The settings that follow from a run file, its canonical form, and these. How the peer is run is
/// left to whoever runs it.
[[nodiscard]] Config core_config(const runfile::RunFile& run_file, std::string canonical,
                                 const StartingPoint& start);

/// The settings of a relay's core: none is about training, which never begins. `run`:
/// zero where it serves whatever run comes.
[[nodiscard]] Config relay_config(const wire::RunId& run, std::vector<std::string> join,
                                  const reach::Config& relay);

}  // namespace starling::peer
