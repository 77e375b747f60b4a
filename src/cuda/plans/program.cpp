#include "cuda/plans/program.hpp"

#include <utility>

#include "base/assert.hpp"

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

std::vector<Work> work_of(const std::vector<Call>& calls, const Addresses& addresses) {
  std::vector<Work> list;
  list.reserve(calls.size());
  for (const Call& call : calls) list.push_back({call.make(addresses), call.op});
  return list;
}

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops) names.push_back(fmt::format("{} ({})", op.name, name_of(op)));
  names.emplace_back("the loss");
  return names;
}

}  // namespace

Result<std::unique_ptr<Program>> compile(const Graph& graph, const CompileOptions& options,
                                         std::unique_ptr<Queue> queue, std::size_t score_bytes) {
  const std::uint32_t batch = options.batch;
  if (batch == 0 || batch > kBatchMax) {
    return fail(ErrorCode::run_file, "batch is {}; it must be 1 to {}", batch, kBatchMax);
  }
  const bool rounds = options.precision == Precision::bfloat16;
  Status asked;
  const auto fuses = [&](const FusedAttention& attention) {
    const auto answer = queue->fuses(attention);
    if (!answer && asked) asked = fail(answer.error());
    return answer.value_or(false);
  };
  Plan plan = Planner(graph, batch, rounds, fuses, score_bytes).plan();
  if (!asked) return fail(asked.error());
  ArenaPlan arena = plan.arena();
  // Errors about too little memory should include advice; the queue does not know run files.
  const std::string advice = fmt::format(
      "a batch of {} samples (make train.batch smaller, or train.accumulate larger)", batch);
  const auto base = queue->reserve(arena.bytes);
  if (!base) return fail(base.error().in(advice));
  const Addresses addresses(*base, arena.offsets);
  const auto training = queue->add(work_of(plan.training, addresses), names_of(graph));
  if (!training) return fail(training.error());
  const auto evaluation = queue->add(work_of(plan.evaluation, addresses), names_of(graph));
  if (!evaluation) return fail(evaluation.error());
  if (auto finished = queue->finish(); !finished) return fail(finished.error().in(advice));
  for (const Constant& constant : plan.constants) {
    auto* const to = addresses.at<std::byte>(constant.value);
    const auto copied = copy_in(*queue, to, std::span<const float>(constant.content));
    if (!copied) return fail(copied.error());
  }
  return std::make_unique<CudaProgram>(
      std::make_unique<Runner>(graph, batch, std::move(plan), std::move(arena.offsets), *base,
                               Runner::Lists{*training, *evaluation}, std::move(queue)));
}

Result<float> CudaProgram::forward_backward(std::span<const float> parameters,
                                            std::span<float> buffers, const Batch& batch,
                                            std::uint64_t seed, std::span<float> gradient) {
  auto done = runner_->begin(batch, {.seed = seed});
  if (done) done = runner_->copy_in_parameters(parameters);
  if (done) done = runner_->copy_in_buffers(buffers);
  if (done) done = runner_->train();
  if (!done) return fail(done.error());
  const auto sums = runner_->totals();
  if (!sums) return fail(sums.error());
  done = runner_->copy_out_gradient(gradient);
  if (done) done = runner_->copy_out_buffers(buffers);
  if (!done) return fail(done.error());
  return mean_loss(sums->loss_sum, sums->count);
}

Status CudaProgram::run_evaluation(std::span<const float> parameters,
                                   std::span<const float> buffers, const Batch& batch) {
  auto done = runner_->begin(batch, {});
  if (done) done = runner_->copy_in_parameters(parameters);
  if (done) done = runner_->copy_in_buffers(buffers);
  return done ? runner_->evaluate() : done;
}

Result<Evaluation> CudaProgram::evaluate(std::span<const float> parameters,
                                         std::span<const float> buffers, const Batch& batch) {
  if (auto ran = run_evaluation(parameters, buffers, batch); !ran) return fail(ran.error());
  return runner_->totals();
}

Result<std::span<const float>> CudaProgram::outputs(std::span<const float> parameters,
                                                    std::span<const float> buffers,
                                                    const Batch& batch) {
  if (auto ran = run_evaluation(parameters, buffers, unlabelled(batch)); !ran) {
    return fail(ran.error());
  }
  return runner_->outputs();
}

Result<Resident*> CudaProgram::move_to_device(const Residence& wanted) {
  ASSERT(resident_ == nullptr, "a replica lives here");
  auto resident = CudaResident::create(*runner_, wanted);
  if (!resident) return fail(resident.error());
  resident_ = std::move(*resident);
  return resident_.get();
}

std::size_t CudaProgram::memory_bytes() const noexcept {
  return runner_->memory_bytes() + (resident_ ? resident_->memory_bytes() : 0);
}

// Training's ops include all of evaluation's.
std::vector<std::string> CudaProgram::slow_ops() const {
  return runner_->queue().plain_ops(runner_->lists().training);
}

std::optional<std::string> CudaProgram::slow_steps() const {
  const auto recorded = runner_->queue().recorded();
  if (recorded) return std::nullopt;
  return "the GPU runs steps call by call, which is slower: they could not be recorded: " +
         recorded.error().text;
}

}  // namespace starling::compute::cuda
