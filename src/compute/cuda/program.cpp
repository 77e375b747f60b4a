#include "compute/cuda/program.hpp"

#include <algorithm>
#include <cstring>
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

/// Calls part(host, device, count) for each piece of the layout within some bytes of the device's
/// copy; `host` in elements, `device` in bytes from `offset` on.
void each_part(const Layout& layout, std::size_t offset, std::size_t bytes, const auto& part) {
  const std::size_t first = offset / sizeof(float);
  const std::size_t end = (offset + bytes) / sizeof(float);
  auto segment = std::ranges::upper_bound(layout.segments, first, {}, &Segment::device);
  if (segment != layout.segments.begin()) --segment;
  for (; segment != layout.segments.end() && segment->device < end; ++segment) {
    const std::size_t from = std::max(segment->device, first);
    const std::size_t to = std::min(segment->device + segment->count, end);
    if (from >= to) continue;
    part(segment->host + from - segment->device, (from - first) * sizeof(float), to - from);
  }
}

}  // namespace

Result<std::unique_ptr<Program>> compile(const Graph& graph, const CompileOptions& options,
                                         std::unique_ptr<Queue> queue, std::size_t score_bytes) {
  const std::uint32_t batch = options.batch;
  if (batch == 0 || batch > kMaxBatch) {
    return fail(ErrorCode::run_file, "batch is {}; it must be 1 to {}", batch, kMaxBatch);
  }
  const bool rounds = options.precision == Precision::bfloat16;
  const auto fuses = [&](const FusedAttention& attention) { return queue->fuses(attention); };
  Plan plan = Planner(graph, batch, rounds, fuses, score_bytes).plan();
  ArenaPlan arena = plan.arena();
  // What to do about too little memory belongs to its errors; the queue knows no run file.
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
    const auto fill = [&](std::size_t offset, std::span<std::byte> bytes) {
      std::memcpy(bytes.data(),
                  reinterpret_cast<const std::byte*>(constant.content.data()) + offset,
                  bytes.size());
    };
    auto* const to = addresses.at<std::byte>(constant.value);
    const std::size_t bytes = constant.content.size() * sizeof(float);
    if (auto copied = queue->copy_in(to, bytes, fill); !copied) return fail(copied.error());
  }
  return std::make_unique<CudaProgram>(graph, batch, std::move(plan), std::move(arena.offsets),
                                       *base, *training, *evaluation, std::move(queue));
}

CudaProgram::CudaProgram(const Graph& graph, std::uint32_t batch, Plan plan,
                         std::vector<std::size_t> offsets, std::byte* arena, std::size_t training,
                         std::size_t evaluation, std::unique_ptr<Queue> queue)
    : takes_tokens_(graph.vocabulary > 0),
      by_label_(graph.loss.kind == LossKind::cross_entropy),
      parameter_count_(graph.parameter_count),
      buffer_count_(graph.buffer_count),
      input_elements_(elements(graph.input)),
      output_elements_(graph.outputs()),
      positions_(graph.positions),
      batch_(batch),
      plan_(std::move(plan)),
      offsets_(std::move(offsets)),
      arena_(arena),
      training_(training),
      evaluation_(evaluation),
      queue_(std::move(queue)) {}

Result<float> CudaProgram::forward_backward(std::span<const float> parameters,
                                            std::span<float> buffers, const Batch& batch,
                                            std::uint64_t seed, std::span<float> gradient) {
  ASSERT(gradient.size() == parameter_count_);
  if (auto ran = run(training_, parameters, buffers, batch, seed); !ran) return fail(ran.error());
  const auto sums = totals();
  if (!sums) return fail(sums.error());
  if (auto copied = copy_out(plan_.gradient, plan_.parameter_layout, gradient); !copied) {
    return fail(copied.error());
  }
  if (auto copied = copy_out(plan_.buffers, plan_.buffer_layout, buffers); !copied) {
    return fail(copied.error());
  }
  return static_cast<float>(sums->loss_sum / static_cast<double>(sums->count));
}

Result<Evaluation> CudaProgram::evaluate(std::span<const float> parameters,
                                         std::span<const float> buffers, const Batch& batch) {
  if (auto ran = run(evaluation_, parameters, buffers, batch, 0); !ran) return fail(ran.error());
  return totals();
}

Result<std::span<const float>> CudaProgram::outputs(std::span<const float> parameters,
                                                    std::span<const float> buffers,
                                                    const Batch& batch) {
  // Labels are not looked at here, but the list that runs has the loss, too: what lies there from
  // another batch will do.
  const Batch unlabelled{
      .samples = batch.samples, .tokens = batch.tokens, .labels = {}, .targets = {}};
  if (auto ran = run(evaluation_, parameters, buffers, unlabelled, 0); !ran) {
    return fail(ran.error());
  }
  outputs_.resize(count_ * output_elements_);
  const auto take = [&](std::size_t offset, std::span<const std::byte> bytes) {
    std::memcpy(reinterpret_cast<std::byte*>(outputs_.data()) + offset, bytes.data(), bytes.size());
  };
  const std::size_t bytes = outputs_.size() * sizeof(float);
  if (auto copied = queue_->copy_out(at(plan_.outputs), bytes, take); !copied) {
    return fail(copied.error());
  }
  return std::span<const float>(outputs_);
}

Status CudaProgram::run(std::size_t list, std::span<const float> parameters,
                        std::span<const float> buffers, const Batch& batch, std::uint64_t seed) {
  ASSERT(parameters.size() == parameter_count_ && buffers.size() == buffer_count_);
  if (auto loaded = load(batch, seed); !loaded) return loaded;
  auto copied = copy_in(plan_.parameters, plan_.parameter_layout, parameters);
  if (!copied) return copied;
  copied = copy_in(plan_.buffers, plan_.buffer_layout, buffers);
  if (!copied) return copied;
  return queue_->run(list);
}

/// The step's state and samples; what lies behind them in the batch becomes zero.
Status CudaProgram::load(const Batch& batch, std::uint64_t seed) {
  const std::size_t given = takes_tokens_ ? batch.tokens.size() : batch.samples.size();
  ASSERT(given > 0 && given % input_elements_ == 0 && given <= batch_ * input_elements_);
  count_ = given / input_elements_;
  const StepState step{.seed = seed, .count = count_};
  auto done = copy_in(plan_.step, std::span(&step, 1));
  if (!done) return done;
  done = takes_tokens_ ? copy_in(plan_.input, batch.tokens) : copy_in(plan_.input, batch.samples);
  if (!done) return done;
  const std::size_t rest = (batch_ * input_elements_ - given) * sizeof(float);
  if (rest > 0) done = queue_->clear(at(plan_.input) + given * sizeof(float), rest);
  if (!done) return done;
  if (takes_tokens_) done = load_tokens(batch.tokens);
  if (!done) return done;
  if (!batch.labels.empty()) {
    ASSERT(!by_label_ || batch.labels.size() == count_ * positions_);
    done = copy_in(plan_.labels, batch.labels);
  }
  if (!done) return done;
  if (!batch.targets.empty()) {
    ASSERT(by_label_ || batch.targets.size() == count_ * output_elements_);
    done = copy_in(plan_.targets, batch.targets);
  }
  return done;
}

/// The tokens in ascending order with their places: what an embedding's gradient is added up by.
Status CudaProgram::load_tokens(std::span<const std::int32_t> tokens) {
  order_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    order_.push_back(static_cast<std::uint64_t>(static_cast<std::uint32_t>(tokens[i])) << 32 | i);
  }
  std::ranges::sort(order_);
  integers_.clear();
  for (const std::uint64_t item : order_)
    integers_.push_back(static_cast<std::int32_t>(item >> 32));
  auto copied = copy_in(plan_.sorted_tokens, std::span<const std::int32_t>(integers_));
  if (!copied) return copied;
  integers_.clear();
  for (const std::uint64_t item : order_) {
    integers_.push_back(static_cast<std::int32_t>(item & 0xffffffffU));
  }
  return copy_in(plan_.token_places, std::span<const std::int32_t>(integers_));
}

template <class T>
Status CudaProgram::copy_in(const Value& to, std::span<const T> from) {
  return queue_->copy_in(
      at(to), from.size_bytes(), [&](std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(from.data()) + offset,
                    bytes.size());
      });
}

Status CudaProgram::copy_in(const Value& to, const Layout& layout, std::span<const float> from) {
  return queue_->copy_in(
      at(to), layout.count * sizeof(float), [&](std::size_t offset, std::span<std::byte> bytes) {
        each_part(layout, offset, bytes.size(),
                  [&](std::size_t host, std::size_t device, std::size_t count) {
                    std::memcpy(bytes.data() + device, from.data() + host, count * sizeof(float));
                  });
      });
}

Status CudaProgram::copy_out(const Value& from, const Layout& layout, std::span<float> to) {
  return queue_->copy_out(at(from), layout.count * sizeof(float),
                          [&](std::size_t offset, std::span<const std::byte> bytes) {
                            each_part(layout, offset, bytes.size(),
                                      [&](std::size_t host, std::size_t device, std::size_t count) {
                                        std::memcpy(to.data() + host, bytes.data() + device,
                                                    count * sizeof(float));
                                      });
                          });
}

Result<Evaluation> CudaProgram::totals() {
  Totals totals;
  const auto take = [&](std::size_t offset, std::span<const std::byte> bytes) {
    std::memcpy(reinterpret_cast<std::byte*>(&totals) + offset, bytes.data(), bytes.size());
  };
  if (auto copied = queue_->copy_out(at(plan_.totals), sizeof(Totals), take); !copied) {
    return fail(copied.error());
  }
  return Evaluation{.loss_sum = totals.loss_sum,
                    .correct = totals.correct,
                    .count = by_label_ ? count_ * positions_ : count_};
}

std::byte* CudaProgram::at(const Value& value) const {
  return Addresses(arena_, offsets_).at<std::byte>(value);
}

}  // namespace starling::compute::cuda
