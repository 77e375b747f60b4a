// Training of one replica: a compiled model, its update rule and the gradient between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  double loss = 0;      ///< nats a label; not finite if training has diverged
};

/// The options to compile a graph for training or evaluation as in a run file: for pieces of a
/// batch, as config.accumulate says.
[[nodiscard]] compute::CompileOptions compile_options(const Config& config);

/// Computes steps over parameters that belong to the caller. All calls come from one thread, the
/// one that called create.
/// Errors: those of compute::Backend::compile when it is made;
/// ErrorCode::device if the device fails, and no_room if it lacks the memory for a replica;
/// ErrorCode::diverged if the loss or the gradient is not finite; then parameters and update rule
/// are unchanged.
class Trainer {
 public:
  /// Compiles `graph` for config.device by compile_options().
  [[nodiscard]] static base::Result<Trainer> create(const compute::Graph& graph,
                                                    const Config& config);
  /// For this device, regardless of the configuration.
  [[nodiscard]] static base::Result<Trainer> create(compute::Backend& backend,
                                                    const compute::Graph& graph,
                                                    const Config& config);

  /// One step: the mean gradient over the batch (1 to config.batch samples) at `parameters`,
  /// applied to them; moves the buffers. Returns the mean loss before the step, in nats. `seed`
  /// determines the dropped values. A batch that is computed in pieces has the mean of their
  /// gradients, each weighted by its samples; batch norms see one piece at a time, and move their
  /// buffers by it. After move_to_device(), `parameters` is empty: the step moves the replica
  /// there. `next`: the batch of the next step, if it is known; a device copies it while this one
  /// is computed, and it must not change until then.
  [[nodiscard]] base::Result<float> step(std::span<float> parameters, std::span<float> buffers,
                                         const compute::Batch& batch, float lr, std::uint64_t seed,
                                         const compute::Batch* next = nullptr);

  /// The first half of a step: computes the gradient, which gradient() shows, and the mean loss.
  [[nodiscard]] base::Result<float> compute_gradient(std::span<const float> parameters,
                                                     std::span<float> buffers,
                                                     const compute::Batch& batch,
                                                     std::uint64_t seed);
  /// The gradient of the last batch. An average over peers is written in place.
  [[nodiscard]] std::span<float> gradient() noexcept { return gradient_; }
  /// The second half: applies gradient().
  [[nodiscard]] base::Status apply(std::span<float> parameters, float lr);

  /// Moves training to the device's memory: returns the memory of a replica, which is all zeros,
  /// lives as long as this and must be given y; the update rule's current state moves there, too.
  /// Null if nothing moves: on the processor, and with an update rule that devices do not have.
  /// After a move, gradient(), compute_gradient() and apply() must not be called.
  [[nodiscard]] base::Result<delta::ReplicaMemory*> move_to_device(delta::MirrorType mirrors);
  /// Whether step() uses `next`.
  [[nodiscard]] bool copies_ahead() const noexcept { return resident_ != nullptr; }
  /// Keeps x for evaluate(), until the next step. `read` writes x, which has `size` elements, where
  /// the device's memory does not have it.
  [[nodiscard]] base::Status snapshot(std::size_t size,
                                      const std::function<void(std::span<float>)>& read);
  /// As below, for the x of the last snapshot().
  [[nodiscard]] base::Result<Evaluation> evaluate(std::span<const float> buffers,
                                                  const compute::Batch& set);

  /// Accuracy and loss over any number of samples (at least one), in pieces.
  [[nodiscard]] base::Result<Evaluation> evaluate(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const compute::Batch& set);

  [[nodiscard]] UpdateRule& rule() noexcept { return rule_; }
  /// Bytes of activations and work space; with a replica on the device, also of the replica and of
  /// its training.
  [[nodiscard]] std::size_t program_bytes() const noexcept { return program_->memory_bytes(); }
  /// Bytes of the gradient and of the update rule's state, if they are in the machine's memory.
  [[nodiscard]] std::size_t training_bytes() const noexcept;
  /// Like Program's.
  [[nodiscard]] std::vector<std::string> slow_ops() const { return program_->slow_ops(); }
  [[nodiscard]] std::optional<std::string> slow_steps() const { return program_->slow_steps(); }

 private:
  Trainer(const compute::Graph& graph, const Config& config,
          std::unique_ptr<compute::Program> program);

  base::Result<float> step_on_device(std::span<float> buffers, const compute::Batch& batch,
                                     const compute::Batch* next, float lr, std::uint64_t seed);
  base::Result<float> accumulate(std::span<const float> parameters, std::span<float> buffers,
                                 const compute::Batch& batch, std::uint64_t seed);
  [[nodiscard]] std::span<const compute::Piece> pieces_of(const compute::Batch& batch,
                                                          std::uint64_t seed);
  /// Sums the results of evaluate_piece(batch) over the pieces of a set.
  template <class EvaluatePiece>
  base::Result<Evaluation> evaluate_pieces(const compute::Batch& set,
                                           EvaluatePiece&& evaluate_piece);
  [[nodiscard]] std::size_t samples_of(const compute::Batch& batch) const noexcept;
  [[nodiscard]] compute::Batch piece(const compute::Batch& batch, std::size_t first) const noexcept;

  std::unique_ptr<compute::Program> program_;
  compute::Resident* resident_ = nullptr;
  UpdateRule rule_;
  bool in_pieces_;  ///< batches are computed in pieces
  std::vector<float> gradient_;
  std::vector<float> piece_gradient_;   ///< if batches are computed in pieces
  std::vector<float> x_;                ///< of the snapshot, unless it is on the device
  std::vector<compute::Piece> pieces_;  ///< of the current batch
  std::size_t input_elements_;          ///< floats or tokens a sample
  std::size_t labels_;                  ///< a sample
  std::size_t target_elements_;         ///< a sample
};

}  // namespace starling::train
