// A plan on its queue: the copies to and from the device around a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/program.hpp"
#include "cuda/device/queue.hpp"
#include "cuda/libraries/retry.hpp"
#include "cuda/plans/plan.hpp"

namespace starling::compute::cuda {

/// A batch whose labels and targets are not used: those of an earlier batch are good enough for the
/// loss, which is also in the list that gives outputs.
[[nodiscard]] inline Batch unlabelled(const Batch& batch) {
  return {.samples = batch.samples, .tokens = batch.tokens, .labels = {}, .targets = {}};
}

/// One thread, the queue's. Errors: the device's.
class Runner {
 public:
  /// Numbers of the queue's lists.
  struct Lists {
    std::size_t training = 0;
    std::size_t evaluation = 0;
  };

  /// `queue` has the plan's memory, from `arena` on, and its lists.
  Runner(const Graph& graph, std::uint32_t batch, Plan plan, std::vector<std::size_t> offsets,
         std::byte* arena, Lists lists, std::unique_ptr<Queue> queue);

  /// Copies in a batch and its step's state for the kernels; `step.count` is the batch's.
  [[nodiscard]] base::Status begin(const Batch& batch, StepState step);
  /// Begins to copy a batch in while another one runs. If the next begin() is for this batch (the
  /// same memory, unchanged), it finds it there. The first call that finds room for it reserves the
  /// room; until then nothing is copied.
  [[nodiscard]] base::Status prepare(const Batch& next);
  [[nodiscard]] base::Status copy_in_parameters(std::span<const float> parameters);
  [[nodiscard]] base::Status copy_in_buffers(std::span<const float> buffers);
  [[nodiscard]] base::Status train() { return queue_->run(lists_.training); }
  [[nodiscard]] base::Status evaluate() { return queue_->run(lists_.evaluation); }
  /// After either, for the batch of the last begin().
  [[nodiscard]] base::Result<Evaluation> totals();
  /// After train().
  [[nodiscard]] base::Status copy_out_gradient(std::span<float> gradient);
  [[nodiscard]] base::Status copy_out_buffers(std::span<float> buffers);
  /// After evaluate(): the batch's outputs, valid until the next call.
  [[nodiscard]] base::Result<std::span<const float>> outputs();

  [[nodiscard]] Queue& queue() noexcept { return *queue_; }
  [[nodiscard]] const Lists& lists() const noexcept { return lists_; }
  [[nodiscard]] const Layout& layout() const noexcept { return plan_.parameter_layout; }
  [[nodiscard]] std::size_t parameter_count() const noexcept { return parameter_count_; }
  /// Laid out as in layout().
  [[nodiscard]] float* parameters() const { return addresses().at(plan_.parameters); }
  [[nodiscard]] float* gradient() const { return addresses().at(plan_.gradient); }
  /// The place where kernels find the step's state, and leave totals.
  [[nodiscard]] const StepState* step_on_device() const {
    return addresses().at<StepState>(plan_.step);
  }
  [[nodiscard]] const Totals* totals_on_device() const {
    return addresses().at<Totals>(plan_.totals);
  }
  /// The terms of the mean loss: labels, or samples.
  [[nodiscard]] std::size_t terms_a_sample() const noexcept { return by_label_ ? positions_ : 1; }
  [[nodiscard]] std::uint32_t batch() const noexcept { return batch_; }
  /// Bytes on the device.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return queue_->memory_bytes() + ahead_bytes_;
  }

 private:
  /// A part of a batch: its target, and its source.
  struct Part {
    Value to;
    std::span<const std::byte> from;
    std::size_t ahead = 0;  ///< its place in ahead_
  };

  [[nodiscard]] base::Status reserve_ahead();
  void gather_parts(const Batch& batch, std::vector<Part>& parts);
  void sort(std::span<const std::int32_t> tokens);
  [[nodiscard]] std::size_t samples_of(const Batch& batch) const;
  base::Status copy_in(const Value& to, const Layout& layout, std::span<const float> from);
  base::Status copy_out(const Value& from, const Layout& layout, std::span<float> to);
  [[nodiscard]] std::byte* at(const Value& value) const { return addresses().at<std::byte>(value); }
  [[nodiscard]] Addresses addresses() const { return {arena_, offsets_}; }

  const bool takes_tokens_;
  const bool by_label_;
  const std::size_t parameter_count_;
  const std::size_t buffer_count_;
  const std::size_t input_elements_;   ///< a sample
  const std::size_t output_elements_;  ///< a sample
  const std::size_t positions_;        ///< labels a sample
  const std::uint32_t batch_;
  const Plan plan_;
  const std::vector<std::size_t> offsets_;
  std::byte* const arena_;
  const Lists lists_;
  std::unique_ptr<Queue> queue_;
  std::size_t count_ = 0;                  ///< samples of the last batch
  std::vector<std::uint64_t> order_;       ///< tokens and their places, sorted
  std::vector<std::int32_t> sorted_;       ///< its tokens
  std::vector<std::int32_t> places_;       ///< their places
  Queue::Memory ahead_{nullptr, nullptr};  ///< a batch that is copied ahead
  std::size_t ahead_bytes_ = 0;
  Retry ahead_retry_;              ///< if there was no room for it
  std::optional<Batch> prepared_;  ///< the batch that was copied ahead; its parts are there
  std::vector<Part> prepared_parts_;
  std::vector<Part> parts_;  ///< of a batch that was not copied ahead
  std::vector<float> outputs_;
};

}  // namespace starling::compute::cuda
