#include "compute/cuda/runner.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

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

Runner::Runner(const Graph& graph, std::uint32_t batch, Plan plan, std::vector<std::size_t> offsets,
               std::byte* arena, Lists lists, std::unique_ptr<Queue> queue)
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
      lists_(lists),
      queue_(std::move(queue)) {}

Status Runner::begin(const Batch& batch, std::span<const float> buffers, std::uint64_t seed) {
  ASSERT(buffers.size() == buffer_count_);
  if (auto loaded = load(batch, seed); !loaded) return loaded;
  return copy_in(plan_.buffers, plan_.buffer_layout, buffers);
}

Status Runner::copy_in_parameters(std::span<const float> parameters) {
  ASSERT(parameters.size() == parameter_count_);
  return copy_in(plan_.parameters, plan_.parameter_layout, parameters);
}

Status Runner::copy_out_gradient(std::span<float> gradient) {
  ASSERT(gradient.size() == parameter_count_);
  return copy_out(plan_.gradient, plan_.parameter_layout, gradient);
}

Status Runner::copy_out_buffers(std::span<float> buffers) {
  return copy_out(plan_.buffers, plan_.buffer_layout, buffers);
}

Result<std::span<const float>> Runner::outputs() {
  outputs_.resize(count_ * output_elements_);
  if (auto copied = cuda::copy_out(*queue_, at(plan_.outputs), std::span(outputs_)); !copied) {
    return fail(copied.error());
  }
  return std::span<const float>(outputs_);
}

Result<Evaluation> Runner::totals() {
  Totals totals;
  if (auto copied = cuda::copy_out(*queue_, at(plan_.totals), std::span(&totals, 1)); !copied) {
    return fail(copied.error());
  }
  return Evaluation{.loss_sum = totals.loss_sum,
                    .correct = totals.correct,
                    .count = by_label_ ? count_ * positions_ : count_};
}

/// The step's state and samples; what lies behind them in the batch becomes zero.
Status Runner::load(const Batch& batch, std::uint64_t seed) {
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
Status Runner::load_tokens(std::span<const std::int32_t> tokens) {
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

Status Runner::copy_in(const Value& to, const Layout& layout, std::span<const float> from) {
  return queue_->copy_in(
      at(to), layout.count * sizeof(float), [&](std::size_t offset, std::span<std::byte> bytes) {
        each_part(layout, offset, bytes.size(),
                  [&](std::size_t host, std::size_t device, std::size_t count) {
                    std::memcpy(bytes.data() + device, from.data() + host, count * sizeof(float));
                  });
      });
}

Status Runner::copy_out(const Value& from, const Layout& layout, std::span<float> to) {
  return queue_->copy_out(at(from), layout.count * sizeof(float),
                          [&](std::size_t offset, std::span<const std::byte> bytes) {
                            each_part(layout, offset, bytes.size(),
                                      [&](std::size_t host, std::size_t device, std::size_t count) {
                                        std::memcpy(to.data() + host, bytes.data() + device,
                                                    count * sizeof(float));
                                      });
                          });
}

template <class T>
Status Runner::copy_in(const Value& to, std::span<const T> from) {
  return cuda::copy_in(*queue_, at(to), from);
}

}  // namespace starling::compute::cuda
