// Training of one replica: a compiled model, its update rule and the gradient between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compute/batch.hpp"
#include "compute/program.hpp"
#include "compute/resident.hpp"
#include "train/config.hpp"
#include "train/optimizer.hpp"

namespace starling::train {

/// Mean figures over a set of samples.
struct Evaluation {
  double accuracy = 0;  ///< 0 to 1
  double loss = 0;      ///< nats a label; not finite where training has diverged
};

/// What a graph is compiled for, to be trained or evaluated as a run file says: pieces of a batch,
/// as many as config.accumulate says.
[[nodiscard]] compute::CompileOptions compile_options(const Config& config);

/// Computes steps over parameters that belong to the caller. All calls come from one thread, the
/// one that called create.
/// Errors: those of compute::Backend::compile when it is made; ErrorCode::device where the device
/// fails, and no_room where it lacks the memory for a replica; ErrorCode::diverged where the loss
/// or the gradient is not finite, in which case parameters and update rule are as they were.
class Trainer {
 public:
  /// Compiles `graph` for config.device by compile_options().
  [[nodiscard]] static base::Result<Trainer> create(const compute::Graph& graph,
                                                    const Config& config);
  /// For this device, whatever the configuration says.
  [[nodiscard]] static base::Result<Trainer> create(compute::Backend& backend,
                                                    const compute::Graph& graph,
                                                    const Config& config);

  /// One step: the mean gradient over the batch (1 to config.batch samples) at `parameters`,
  /// applied to them; moves the buffers. Returns the mean loss before the step, in nats. `seed`
  /// decides what is dropped. A batch that is computed in pieces has the mean of their gradients,
  /// each counted by its samples; batch norms see, and move their buffers by, a piece at a time.
  [[nodiscard]] base::Result<float> step(std::span<float> parameters, std::span<float> buffers,
                                         const compute::Batch& batch, float lr, std::uint64_t seed);

  /// The first half of a step: computes the gradient, which gradient() shows, and the mean loss.
  [[nodiscard]] base::Result<float> compute_gradient(std::span<const float> parameters,
                                                     std::span<float> buffers,
                                                     const compute::Batch& batch,
                                                     std::uint64_t seed);
  /// The gradient of the last batch. Whoever averages gradients over peers does it in place.
  [[nodiscard]] std::span<float> gradient() noexcept { return gradient_; }
  /// The second half: applies gradient().
  [[nodiscard]] base::Status apply(std::span<float> parameters, float lr);

  /// Takes training to where the device has its memory: the memory of a replica that is all zeros,
  /// lives as long as this and is to be given y, and the update rule's state as it is now. Null,
  /// where nothing moves: on the processor, and with an update rule that no device has. Once moved,
  /// only what follows may be called.
  [[nodiscard]] base::Result<delta::ReplicaMemory*> reside(delta::MirrorType mirrors);
  [[nodiscard]] bool resides() const noexcept { return resident_ != nullptr; }
  /// step() of the replica that lives there. `next`: the batch of the next step, where it is known;
  /// it is copied to the device while this one is computed, and must not change until then.
  [[nodiscard]] base::Result<float> step(std::span<float> buffers, const compute::Batch& batch,
                                         const compute::Batch* next, float lr, std::uint64_t seed);
  /// evaluate() of that replica's x, as it was at the last call of snapshot().
  [[nodiscard]] base::Status snapshot();
  [[nodiscard]] base::Result<Evaluation> evaluate(std::span<const float> buffers,
                                                  const compute::Batch& set);

  /// Accuracy and loss over any number of samples (at least one), in pieces.
  [[nodiscard]] base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const compute::Batch& set);

  [[nodiscard]] UpdateRule& rule() noexcept { return rule_; }
  /// Bytes of activations and work space; of a replica that lives on the device and what trains it,
  /// too.
  [[nodiscard]] std::size_t program_bytes() const noexcept { return program_->memory_bytes(); }
  /// Bytes of the gradient and of the update rule's state, where they are in the machine's memory.
  [[nodiscard]] std::size_t training_bytes() const noexcept;
  /// As Program's.
  [[nodiscard]] std::vector<std::string> slow_ops() const { return program_->slow_ops(); }
  [[nodiscard]] std::optional<std::string> slow_steps() const { return program_->slow_steps(); }

 private:
  Trainer(const compute::Graph& graph, const Config& config,
          std::unique_ptr<compute::Program> program);

  base::Result<float> accumulate(std::span<const float> parameters, std::span<float> buffers,
                                 const compute::Batch& batch, std::uint64_t seed);
  [[nodiscard]] std::span<const compute::Piece> pieces_of(const compute::Batch& batch,
                                                          std::uint64_t seed);
  /// Adds up what evaluate_piece(batch) gives for each piece of a set.
  template <class EvaluatePiece>
  base::Result<Evaluation> evaluate_pieces(const compute::Batch& set,
                                           EvaluatePiece&& evaluate_piece);
  [[nodiscard]] std::size_t samples_of(const compute::Batch& batch) const noexcept;
  [[nodiscard]] compute::Batch piece(const compute::Batch& batch, std::size_t first) const noexcept;

  std::unique_ptr<compute::Program> program_;
  compute::Resident* resident_ = nullptr;
  UpdateRule rule_;
  bool in_pieces_;  ///< batches are computed so
  std::vector<float> gradient_;
  std::vector<float> piece_gradient_;   ///< where batches are computed in pieces
  std::vector<compute::Piece> pieces_;  ///< of the batch under way
  std::size_t input_elements_;          ///< floats or tokens a sample
  std::size_t labels_;                  ///< a sample
  std::size_t target_elements_;         ///< a sample
};

}  // namespace starling::train
