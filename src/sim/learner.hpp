// The training of a simulated peer: a problem, and one peer's part in it.
#pragma once

#include <memory>
#include <vector>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "data/sharding.hpp"
#include "exchange/buffers.hpp"
#include "peer/conduct.hpp"
#include "peer/config.hpp"
#include "peer/learner.hpp"
#include "runfile/run_file.hpp"
#include "sim/language/scenario.hpp"

namespace starling::sim {

/// The problem that the swarm trains; outlives its learners.
class Task {
 public:
  virtual ~Task() = default;
  /// `conduct` chooses the samples; null: they are the run's.
  [[nodiscard]] virtual std::unique_ptr<peer::Learner> learner(const base::PeerId& id,
                                                               peer::Conduct* conduct) = 0;

  /// All peers train on the same kind of samples.
  [[nodiscard]] virtual bool samples_are_alike() const = 0;

  std::vector<float> initial;
  exchange::BufferSpec buffers;
  std::unique_ptr<data::Shards> shards;
  runfile::RunFile run_file;
  peer::Config config;         ///< of every peer's core
  std::vector<float> optimum;  ///< quadratic: the lowest point
};

/// Errors: those of the run file, the data set and the device.
[[nodiscard]] base::Result<std::unique_ptr<Task>> make_task(const Scenario& scenario);

}  // namespace starling::sim
