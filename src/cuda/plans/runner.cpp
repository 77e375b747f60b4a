#include "cuda/plans/runner.hpp"

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

/// Samples or tokens.
std::span<const std::byte> input_of(const Batch& batch) {
  return batch.tokens.empty() ? std::as_bytes(batch.samples) : std::as_bytes(batch.tokens);
}

/// Whether both are views of the same memory.
bool is_same(const Batch& a, const Batch& b) {
  const auto same = [](const auto& one, const auto& other) {
    return one.data() == other.data() && one.size() == other.size();
  };
  return same(a.samples, b.samples) && same(a.tokens, b.tokens) && same(a.labels, b.labels) &&
         same(a.targets, b.targets);
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

Status Runner::begin(const Batch& batch, StepState step) {
  count_ = samples_of(batch);
  step.count = count_;
  auto done = cuda::copy_in(*queue_, at(plan_.step), std::span<const StepState>(&step, 1));
  if (const auto prepared = std::exchange(prepared_, {}); prepared && is_same(*prepared, batch)) {
    if (done) done = queue_->join();
    for (const Part& part : prepared_parts_) {
      if (done) done = queue_->copy(at(part.to), ahead_.get() + part.ahead, part.from.size());
    }
  } else {
    gather_parts(batch, parts_);
    for (const Part& part : parts_) {
      if (done) done = cuda::copy_in(*queue_, at(part.to), part.from);
    }
  }
  // The rest after the samples is zero.
  const std::size_t taken = count_ * input_elements_ * sizeof(float);
  const std::size_t rest = batch_ * input_elements_ * sizeof(float) - taken;
  return done && rest > 0 ? queue_->clear(at(plan_.input) + taken, rest) : done;
}

Status Runner::prepare(const Batch& next) {
  prepared_.reset();
  if (auto reserved = reserve_ahead(); !reserved) return reserved;
  if (!ahead_) return {};  // the batch is copied when its step begins
  gather_parts(next, prepared_parts_);
  OffsetAllocator offsets;
  for (Part& part : prepared_parts_) part.ahead = offsets.add<float>(part.to.count);
  for (const Part& part : prepared_parts_) {
    auto copied =
        queue_->copy_ahead(ahead_.get() + part.ahead, part.from.size(), fill_from(part.from));
    if (!copied) return copied;
  }
  prepared_ = next;
  return {};
}

// Room for all parts that a whole batch may have.
Status Runner::reserve_ahead() {
  if (ahead_ || !ahead_retry_.is_due()) return {};
  OffsetAllocator offsets;
  for (const Value& part :
       {plan_.input, plan_.sorted_tokens, plan_.token_places, plan_.labels, plan_.targets}) {
    offsets.add<float>(part.count);
  }
  auto memory = queue_->allocate(offsets.bytes(), "a batch ahead", Queue::Reserve::kept);
  if (!memory && memory.error().code == base::ErrorCode::no_room) {
    ahead_retry_.failed();
    return {};
  }
  if (!memory) return fail(memory.error());
  ahead_ = std::move(*memory);
  ahead_bytes_ = offsets.bytes();
  return {};
}

std::size_t Runner::samples_of(const Batch& batch) const {
  const std::size_t given = input_of(batch).size() / sizeof(float);
  ASSERT(given > 0 && given % input_elements_ == 0 && given <= batch_ * input_elements_);
  return given / input_elements_;
}

// The parts of a batch for a run. For tokens, also the same tokens in ascending order with their
// places, by which an embedding's gradient is summed; valid until the next call.
void Runner::gather_parts(const Batch& batch, std::vector<Part>& parts) {
  const std::size_t count = samples_of(batch);
  parts.assign(1, {.to = plan_.input, .from = input_of(batch)});
  if (takes_tokens_) {
    sort(batch.tokens);
    parts.push_back({.to = plan_.sorted_tokens, .from = std::as_bytes(std::span(sorted_))});
    parts.push_back({.to = plan_.token_places, .from = std::as_bytes(std::span(places_))});
  }
  if (!batch.labels.empty()) {
    ASSERT(!by_label_ || batch.labels.size() == count * positions_);
    parts.push_back({.to = plan_.labels, .from = std::as_bytes(batch.labels)});
  }
  if (!batch.targets.empty()) {
    ASSERT(by_label_ || batch.targets.size() == count * output_elements_);
    parts.push_back({.to = plan_.targets, .from = std::as_bytes(batch.targets)});
  }
}

void Runner::sort(std::span<const std::int32_t> tokens) {
  order_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    order_.push_back(static_cast<std::uint64_t>(static_cast<std::uint32_t>(tokens[i])) << 32 | i);
  }
  std::ranges::sort(order_);
  sorted_.clear();
  places_.clear();
  for (const std::uint64_t item : order_) {
    sorted_.push_back(static_cast<std::int32_t>(item >> 32));
    places_.push_back(static_cast<std::int32_t>(item & 0xffffffffU));
  }
}

Status Runner::copy_in_parameters(std::span<const float> parameters) {
  ASSERT(parameters.size() == parameter_count_);
  return copy_in(plan_.parameters, plan_.parameter_layout, parameters);
}

Status Runner::copy_in_buffers(std::span<const float> buffers) {
  ASSERT(buffers.size() == buffer_count_);
  return copy_in(plan_.buffers, plan_.buffer_layout, buffers);
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
  // Rows with gaps after them, or all in one piece.
  const std::size_t stride = plan_.outputs.stride;
  const std::size_t rows = stride > 0 ? count_ * positions_ : 1;
  const std::size_t width = outputs_.size() / rows;
  Layout layout;
  for (std::size_t row = 0; row < rows; ++row) {
    layout.segments.push_back({.host = row * width, .device = row * stride, .count = width});
  }
  layout.count = stride > 0 ? rows * stride : width;
  if (auto copied = copy_out(plan_.outputs, layout, outputs_); !copied) {
    return fail(copied.error());
  }
  return std::span<const float>(outputs_);
}

Result<Evaluation> Runner::totals() {
  Totals totals;
  if (auto copied = cuda::copy_out(*queue_, at(plan_.totals), std::span(&totals, 1)); !copied) {
    return fail(copied.error());
  }
  return Evaluation{
      .loss_sum = totals.loss_sum, .correct = totals.correct, .count = count_ * terms_a_sample()};
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

}  // namespace starling::compute::cuda
