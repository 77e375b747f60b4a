// What a simulated peer trains: a problem, and one peer's part in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "data/sharding.hpp"
#include "exchange/buffers.hpp"
#include "peer/config.hpp"
#include "peer/run_file.hpp"
#include "sim/language/scenario.hpp"

namespace starling::sim {

struct StepResult {
  std::uint32_t samples = 0;
  float loss = 0;
};

struct Quality {
  std::uint32_t samples = 0;
  double accuracy = 0;
  double loss = 0;
};

/// One peer's training, which moves the buffers. One thread; the same calls give the same bits.
class Learner {
 public:
  virtual ~Learner() = default;
  [[nodiscard]] virtual base::Result<StepResult> step(std::span<float> parameters,
                                                      std::span<float> buffers, float lr) = 0;
  [[nodiscard]] virtual base::Result<StepResult> gradient(std::span<const float> parameters,
                                                          std::span<float> buffers,
                                                          std::span<float> out) = 0;
  virtual void apply(std::span<float> parameters, std::span<const float> gradient, float lr) = 0;
  /// Of the replica on the first `samples` of the test set; 0: all.
  [[nodiscard]] virtual base::Result<Quality> evaluate(std::span<const float> parameters,
                                                       std::span<const float> buffers,
                                                       std::uint32_t samples) = 0;
  /// Trains on these shards from now on, in batches of so many samples.
  virtual void set_data(std::span<const std::uint32_t> owned, std::uint32_t batch) = 0;
  /// What a checkpoint keeps beside parameters and buffers.
  [[nodiscard]] virtual std::vector<float> state() = 0;
  virtual void restore(std::span<const float> state) = 0;
};

/// What the swarm trains; outlives its learners.
class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual std::unique_ptr<Learner> learner(const base::PeerId& id) = 0;

  std::vector<float> initial;
  exchange::BufferSpec buffers;
  std::unique_ptr<data::Shards> shards;
  peer::RunFile run_file;
  peer::Config config;         ///< of every peer's core
  std::vector<float> optimum;  ///< quadratic: the lowest point
};

/// Errors: the run file's, the data set's, the device's.
[[nodiscard]] base::Result<std::unique_ptr<Task>> make_task(const Scenario& scenario);

}  // namespace starling::sim
