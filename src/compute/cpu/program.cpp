#include "compute/cpu/program.hpp"

#include <algorithm>
#include <utility>

#include <omp.h>

#include "base/assert.hpp"
#include "compute/loss.hpp"

namespace starling::compute::cpu {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// Points the memories into a flat vector of the caller. oneDNN only writes to what a primitive
/// calls its output, so parameters stay as they are.
void point_into(const std::vector<UserMemory>& memories, const float* flat) {
  for (const UserMemory& item : memories) {
    item.memory.set_data_handle(const_cast<float*>(flat) + item.offset);
  }
}

}  // namespace

CpuProgram::CpuProgram(const Graph& graph, std::uint32_t batch, std::uint32_t threads, Plan plan)
    : parameter_count_(graph.parameter_count),
      sample_elements_(elements(graph.input)),
      classes_(graph.classes),
      batch_(batch),
      threads_(threads),
      plan_(std::move(plan)),
      stream_(plan_.engine()) {}

Result<float> CpuProgram::forward_backward(std::span<const float> parameters, const Batch& batch,
                                           std::span<float> gradient) {
  ASSERT(gradient.size() == parameter_count_);
  if (auto status = forward(parameters, batch); !status) return fail(status.error());
  const std::size_t outputs = std::size_t{batch_} * classes_;
  const Evaluation sums =
      softmax_cross_entropy({plan_.floats(plan_.outputs), outputs}, batch.labels, classes_,
                            {plan_.floats(plan_.outputs_gradient), outputs});
  try {
    point_into(plan_.gradients, gradient.data());
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::device, "oneDNN: {}", error.what());
  }
  if (auto status = run(plan_.backward); !status) return fail(status.error());
  return static_cast<float>(sums.loss_sum / static_cast<double>(sums.count));
}

Result<Evaluation> CpuProgram::evaluate(std::span<const float> parameters, const Batch& batch) {
  if (auto status = forward(parameters, batch); !status) return fail(status.error());
  return softmax_cross_entropy({plan_.floats(plan_.outputs), std::size_t{batch_} * classes_},
                               batch.labels, classes_);
}

Status CpuProgram::forward(std::span<const float> parameters, const Batch& batch) {
  ASSERT(parameters.size() == parameter_count_);
  // Primitives must run with the number of threads that they were planned for.
  if (omp_get_max_threads() != static_cast<int>(threads_)) {
    omp_set_num_threads(static_cast<int>(threads_));
  }
  try {
    point_into(plan_.parameters, parameters.data());
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::device, "oneDNN: {}", error.what());
  }
  load(batch);
  return run(plan_.forward);
}

void CpuProgram::load(const Batch& batch) {
  ASSERT(batch.count() > 0 && batch.count() <= batch_);
  ASSERT(batch.samples.size() == batch.count() * sample_elements_);
  const std::span<float> input{plan_.floats(plan_.input), batch_ * sample_elements_};
  const auto rest = std::ranges::copy(batch.samples, input.begin()).out;
  std::fill(rest, input.end(), 0.0F);
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
