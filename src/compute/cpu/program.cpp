#include "compute/cpu/program.hpp"

#include <algorithm>
#include <utility>

#include <omp.h>

#include "base/assert.hpp"
#include "compute/cpu/loss.hpp"

namespace starling::compute::cpu {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// Points the memories into a flat vector of the caller. oneDNN only writes to a primitive's
/// outputs, so parameters do not change.
void point_into(const std::vector<UserMemory>& memories, const float* flat) {
  for (const UserMemory& item : memories) {
    item.memory.set_data_handle(const_cast<float*>(flat) + item.offset);
  }
}

}  // namespace

CpuProgram::CpuProgram(const Graph& graph, std::uint32_t batch, std::uint32_t threads, Plan plan)
    : parameter_count_(graph.parameter_count),
      buffer_count_(graph.buffer_count),
      takes_tokens_(graph.vocabulary > 0),
      input_elements_(elements(graph.input)),
      output_elements_(graph.outputs()),
      loss_(graph.loss),
      classes_(graph.classes),
      batch_(batch),
      threads_(threads),
      plan_(std::move(plan)),
      row_losses_(graph.loss.kind == LossKind::cross_entropy ? std::size_t{batch} * graph.positions
                                                             : 0),
      stream_(plan_.engine()) {}

Result<float> CpuProgram::forward_backward(std::span<const float> parameters,
                                           std::span<float> buffers, const Batch& batch,
                                           std::uint64_t seed, std::span<float> gradient) {
  ASSERT(gradient.size() == parameter_count_);
  plan_.step().seed = seed;
  if (auto status = forward(parameters, buffers, batch, true); !status) {
    return fail(status.error());
  }
  const std::size_t size = batch_ * output_elements_;
  const std::span<const float> outputs{plan_.floats(plan_.outputs), size};
  const std::span<float> outputs_gradient{plan_.floats(plan_.outputs_gradient), size};
  const Evaluation sums =
      loss_.kind == LossKind::cross_entropy
          ? softmax_cross_entropy(outputs, batch.labels, classes_, row_losses_,
                                  loss_.label_smoothing, outputs_gradient)
          : mean_squared(outputs, batch.targets, output_elements_, outputs_gradient);
  try {
    point_into(plan_.gradients, gradient.data());
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::device, "oneDNN: {}", error.what());
  }
  if (auto status = run(plan_.backward); !status) return fail(status.error());
  return static_cast<float>(sums.loss_sum / static_cast<double>(sums.count));
}

Result<Evaluation> CpuProgram::evaluate(std::span<const float> parameters,
                                        std::span<const float> buffers, const Batch& batch) {
  const auto outputs = this->outputs(parameters, buffers, batch);
  if (!outputs) return fail(outputs.error());
  return loss_.kind == LossKind::cross_entropy
             ? softmax_cross_entropy(*outputs, batch.labels, classes_, row_losses_)
             : mean_squared(*outputs, batch.targets, output_elements_);
}

Result<std::span<const float>> CpuProgram::outputs(std::span<const float> parameters,
                                                   std::span<const float> buffers,
                                                   const Batch& batch) {
  if (auto status = forward(parameters, buffers, batch, false); !status) {
    return fail(status.error());
  }
  return std::span<const float>{plan_.floats(plan_.evaluation_outputs),
                                plan_.step().count * output_elements_};
}

Status CpuProgram::forward(std::span<const float> parameters, std::span<const float> buffers,
                           const Batch& batch, bool training) {
  ASSERT(parameters.size() == parameter_count_ && buffers.size() == buffer_count_);
  // Primitives must run with the number of threads that they were planned for.
  if (omp_get_max_threads() != static_cast<int>(threads_)) {
    omp_set_num_threads(static_cast<int>(threads_));
  }
  try {
    point_into(plan_.parameters, parameters.data());
    point_into(plan_.buffers, buffers.data());
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::device, "oneDNN: {}", error.what());
  }
  load(batch, training ? plan_.input : plan_.evaluation_input);
  return run(training || plan_.evaluation.empty() ? plan_.forward : plan_.evaluation);
}

void CpuProgram::load(const Batch& batch, BufferId input) {
  const std::size_t given = takes_tokens_ ? batch.tokens.size() : batch.samples.size();
  ASSERT(given > 0 && given % input_elements_ == 0 && given <= batch_ * input_elements_);
  plan_.step().count = given / input_elements_;
  const std::size_t room = batch_ * input_elements_;
  if (takes_tokens_) {
    const auto to = plan_.tokens(input, room);
    std::ranges::fill(std::ranges::copy(batch.tokens, to.begin()).out, to.end(), 0);
  } else {
    const std::span<float> to{plan_.floats(input), room};
    std::ranges::fill(std::ranges::copy(batch.samples, to.begin()).out, to.end(), 0.0F);
  }
}

Status CpuProgram::run(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (call.own) {
      call.own();
      continue;
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                               static_cast<int>(call.arguments.size()), call.arguments.data());
    if (status != dnnl_success) {
      return fail(ErrorCode::device, "oneDNN stopped with status {}: {}", static_cast<int>(status),
                  status == dnnl_out_of_memory ? "out of memory; make train.batch smaller"
                                               : "see its manual, dnnl_status_t");
    }
  }
  return {};
}

}  // namespace starling::compute::cpu
