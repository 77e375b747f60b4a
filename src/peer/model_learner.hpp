// The learner of a real peer: a compiled model, and batches that a data thread fills.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/held_back.hpp"
#include "data/loader.hpp"
#include "data/sample_set.hpp"
#include "peer/learner.hpp"
#include "train/trainer.hpp"

namespace starling::peer {

/// Used on the thread that created its trainer.
class ModelLearner final : public Learner {
 public:
  /// `loader` and `test` outlive this. The replica that is trained lies where `trainer` trains.
  ModelLearner(train::Trainer trainer, data::Loader& loader, data::HeldBack held_back,
               const data::SampleSet& test);

  base::Result<Trained> step(exchange::Replica& replica, float lr) override;
  base::Result<BatchGradient> gradient(exchange::Replica& replica) override;
  base::Status apply(exchange::Replica& replica, std::span<const float> gradient,
                     float lr) override;
  base::Status begin_evaluation(const exchange::Replica& replica, std::uint32_t samples) override;
  base::Result<std::optional<Evaluated>> evaluate() override;
  bool begin_audit(std::uint32_t samples) override;
  base::Result<double> audit(std::span<const float> x, std::span<const float> buffers) override;
  void set_data(std::vector<std::uint32_t> owned, std::uint32_t batch) override;
  train::UpdateRule* rule() noexcept override { return &trainer_.rule(); }
  std::optional<std::string> slow_steps() const override { return trainer_.slow_steps(); }

 private:
  train::Trainer trainer_;
  data::Loader& loader_;
  data::HeldBack held_back_;
  const data::SampleSet& test_;
  std::optional<data::BatchBuffer> ahead_;  ///< the next step's batch, where it is known
  data::BatchBuffer audited_;               ///< samples that replicas are tried on
  std::vector<float> buffers_;              ///< of the evaluation under way
  Evaluated sums_;                          ///< of the evaluation: what was evaluated so far
  std::uint32_t wanted_ = 0;
  data::BatchBuffer tested_;
};

}  // namespace starling::peer
