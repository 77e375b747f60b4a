// A peer's training, as its worker sees it: a model with its data and its update rule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "exchange/replica.hpp"
#include "peer/jobs.hpp"

namespace starling::train {
class UpdateRule;
}

namespace starling::peer {

/// One batch that was trained on.
struct Trained {
  std::uint32_t samples = 0;
  float loss = 0;  ///< mean over the batch before the step, nats
};

/// A mean gradient over a batch; `values` until the next call.
struct BatchGradient {
  Trained batch;
  std::span<const float> values{};
};

/// Called by one worker, on its thread. An error (device, diverged, internal) ends the peer. The
/// replica's y and buffers are trained; every call gets the same replica.
class Learner {
 public:
  virtual ~Learner() = default;

  /// One step of y and of the buffers on the next batch.
  [[nodiscard]] virtual base::Result<Trained> step(exchange::Replica& replica, float lr) = 0;
  /// The first half of a step: the gradient at y. Moves the buffers.
  [[nodiscard]] virtual base::Result<BatchGradient> gradient(exchange::Replica& replica) = 0;
  /// The second half: moves y by a gradient of size() elements.
  [[nodiscard]] virtual base::Status apply(exchange::Replica& replica,
                                           std::span<const float> gradient, float lr) = 0;

  /// Keeps x and the buffers as they are now, to evaluate them on `samples` of the test set, spread
  /// over it; 0: on all of it. Exchanges may follow, but no steps.
  [[nodiscard]] virtual base::Status begin_evaluation(const exchange::Replica& replica,
                                                      std::uint32_t samples) = 0;
  /// Evaluates one more batch; gives the result after the last one.
  [[nodiscard]] virtual base::Result<std::optional<Evaluated>> evaluate() = 0;

  /// Chooses about so many samples that no peer trains on, to try replicas on. False: there are
  /// none.
  [[nodiscard]] virtual bool begin_audit(std::uint32_t /*samples*/) { return false; }
  /// The mean loss of a replica on these, in nats; not finite where it has diverged.
  [[nodiscard]] virtual base::Result<double> audit(std::span<const float> /*x*/,
                                                   std::span<const float> /*buffers*/) {
    return 0.0;
  }

  /// Trains on these shards from now on, in batches of so many samples.
  virtual void set_data(std::vector<std::uint32_t> owned, std::uint32_t batch) = 0;
  /// Part of a checkpoint; null if there is nothing to keep.
  [[nodiscard]] virtual train::UpdateRule* rule() noexcept { return nullptr; }
  /// Why steps are slower than they should be; nothing if they are not.
  [[nodiscard]] virtual std::optional<std::string> slow_steps() const { return std::nullopt; }
};

}  // namespace starling::peer
