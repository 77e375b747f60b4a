#include "compute/cuda/planner.hpp"

#include <utility>

#include "base/assert.hpp"
#include "compute/dropout.hpp"

namespace starling::compute::cuda {

namespace {

/// Floats that a structure takes.
template <class T>
constexpr std::size_t kFloatsOf = (sizeof(T) + sizeof(float) - 1) / sizeof(float);

}  // namespace

Planner::Planner(const Graph& graph, std::uint32_t batch, bool rounds, Fuses fuses,
                 std::size_t score_bytes)
    : graph_(graph),
      batch_(batch),
      rounds_(rounds),
      fuses_(std::move(fuses)),
      score_bytes_(score_bytes),
      values_(graph.ops.size()),
      saved_(graph.ops.size()),
      flow_(graph),
      gradients_(graph.ops.size()),
      written_(graph.tensors.size()),
      rotary_(graph.ops.size()) {}

Plan Planner::plan() {
  plan_.parameter_layout = aligned_layout(graph_.tensors);
  plan_.buffer_layout = aligned_layout(graph_.buffers);
  plan_.parameters = plan_.add_lasting(plan_.parameter_layout.count);
  plan_.gradient = plan_.add_lasting(plan_.parameter_layout.count);
  plan_.buffers = plan_.add_lasting(plan_.buffer_layout.count);
  plan_.step = plan_.add_lasting(kFloatsOf<StepState>);
  plan_.totals = plan_.add_lasting(kFloatsOf<Totals>);
  plan_.input = plan_.add_lasting(all(graph_.input));
  if (graph_.vocabulary > 0) {
    plan_.sorted_tokens = plan_.add_lasting(all(graph_.input));
    plan_.token_places = plan_.add_lasting(all(graph_.input));
  }
  if (graph_.loss.kind == LossKind::cross_entropy) {
    plan_.labels = plan_.add_lasting(batch_ * graph_.positions);
  } else {
    plan_.targets = plan_.add_lasting(batch_ * graph_.outputs());
  }

  calls_ = &plan_.evaluation;
  forward(false);
  loss(nullptr);
  calls_ = &plan_.training;
  forward(true);
  const Value outputs_gradient = make(batch_ * graph_.outputs());
  loss(&outputs_gradient);
  backward(outputs_gradient);
  return std::move(plan_);
}

void Planner::forward(bool training) {
  training_ = training;
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    rounded_.clear();
    const ValueId input = op_at(i).inputs.front();
    const Value source = input == kGraphInput ? plan_.input : values_[input];
    values_[i] =
        std::visit([&](const auto& kind) { return forward_of(i, kind, source); }, op_at(i).kind);
    saved_[i].result = values_[i];
  }
}

// Losses and totals; in training the outputs' gradient. Evaluation's outputs stay to its end.
void Planner::loss(const Value* gradient) {
  const std::size_t op = graph_.ops.size();
  const Value outputs = values_.back();
  const bool by_label = graph_.loss.kind == LossKind::cross_entropy;
  const std::size_t rows = by_label ? batch_ * graph_.positions : batch_;
  const std::size_t width = batch_ * graph_.outputs() / rows;
  const Value losses = make(rows * kFloatsOf<double>);
  const Value right = make(rows);
  const Value to = gradient == nullptr ? outputs : *gradient;  // touched, no more, in evaluation
  const bool wanted = gradient != nullptr;
  if (by_label) {
    kernel(
        op, {outputs, losses, right, to}, rows,
        [=, step = plan_.step, labels = plan_.labels, positions = std::size_t{graph_.positions},
         smoothing = wanted ? graph_.loss.label_smoothing : 0.0F](const Addresses& at) -> Kernel {
          return CrossEntropy{width,
                              positions,
                              smoothing,
                              at.at<StepState>(step),
                              at.at(outputs),
                              at.at<std::int32_t>(labels),
                              at.at<double>(losses),
                              at.at<std::uint32_t>(right),
                              wanted ? at.at(to) : nullptr};
        },
        width);
  } else {
    kernel(
        op, {outputs, losses, right, to}, rows,
        [=, step = plan_.step, targets = plan_.targets](const Addresses& at) -> Kernel {
          return MeanSquared{width,
                             at.at<StepState>(step),
                             at.at(outputs),
                             at.at(targets),
                             at.at<double>(losses),
                             at.at<std::uint32_t>(right),
                             wanted ? at.at(to) : nullptr};
        },
        width);
  }
  kernel(
      op, {losses, right, outputs}, 1,
      [=, totals = plan_.totals](const Addresses& at) -> Kernel {
        return AddUp{rows, at.at<double>(losses), at.at<std::uint32_t>(right),
                     at.at<Totals>(totals)};
      },
      rows);
  if (!wanted) plan_.outputs = outputs;
}

void Planner::backward(const Value& outputs_gradient) {
  gradients_.back() = Gradient{outputs_gradient};
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    if (!flow_.needs_gradient(i)) continue;
    ASSERT(gradients_[i], "every result is used");
    const Gradient gradient = *std::exchange(gradients_[i], std::nullopt);
    rounded_.clear();
    std::visit([&](const auto& kind) { backward_of(i, kind, gradient); }, op_at(i).kind);
  }
  for (std::size_t i = 0; i < written_.size(); ++i) ASSERT(written_[i], "all tensors are used");
}

// Adds to what is known of the gradient of an op's input.
void Planner::give(std::size_t op, Gradient gradient, std::size_t input) {
  const ValueId value = op_at(op).inputs[input];
  if (!flow_.needs_gradient(value)) return;
  std::optional<Gradient>& known = gradients_[value];
  if (!known) {
    known = gradient;
    return;
  }
  const Value a = known->value;
  const Value b = gradient.value;
  const Value to = !known->shared ? a : writable(gradient);
  kernel(op, {a, b, to}, to.count, [=](const Addresses& at) -> Kernel {
    return Sum{at.at(a), at.at(b), false, at.at(to)};
  });
  known = Gradient{to};
}

Value Planner::forward_of(std::size_t op, const Activation& activation, const Value& source) {
  const ValueId input = op_at(op).inputs.front();
  if (activation.kind == ActivationKind::relu && input != kGraphInput && flow_.does_relu(input)) {
    return source;
  }
  saved_[op].source = source;
  const Value result = make(source.count);
  kernel(op, {source, result}, source.count,
         [=, kind = activation.kind](const Addresses& at) -> Kernel {
           return Activate{kind, at.at(source), at.at(result)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const Activation& activation, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const bool relu = activation.kind == ActivationKind::relu;
  const Value seen = relu ? saved_[op].result : saved_[op].source;
  const Value above = gradient.value;
  const Value result = writable(gradient);
  kernel(op, {seen, above, result}, seen.count,
         [=, kind = activation.kind](const Addresses& at) -> Kernel {
           return ActivateBackward{kind, at.at(seen), at.at(above), at.at(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const Dropout& dropout, const Value& source) {
  if (!training_ || dropout.rate == 0) return source;
  const Value result = make(source.count);
  drop(op, dropout, source, result);
  return result;
}

void Planner::backward_of(std::size_t op, const Dropout& dropout, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  if (dropout.rate == 0) return give(op, gradient);
  const Value result = writable(gradient);
  drop(op, dropout, gradient.value, result);
  give(op, {result});
}

// The same elements on the way there and back: op and step decide them.
void Planner::drop(std::size_t op, const Dropout& dropout, const Value& from, const Value& to) {
  kernel(op, {from, to}, from.count,
         [=, step = plan_.step, rate = dropout.rate](const Addresses& at) -> Kernel {
           return Drop{op,
                       dropout_threshold(rate),
                       1.0F / (1.0F - rate),
                       at.at<StepState>(step),
                       at.at(from),
                       at.at(to)};
         });
}

Value Planner::forward_of(std::size_t op, const Add&, const Value& source) {
  const ValueId second = op_at(op).inputs[1];
  const Value other = second == kGraphInput ? plan_.input : values_[second];
  const Value result = make(source.count);
  kernel(op, {source, other, result}, source.count,
         [=, relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
           return Sum{at.at(source), at.at(other), relu, at.at(result)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const Add&, const Gradient& gradient) {
  const auto& inputs = op_at(op).inputs;
  const bool both = flow_.needs_gradient(inputs[0]) && flow_.needs_gradient(inputs[1]);
  give(op, {gradient.value, gradient.shared || both}, 0);
  give(op, {gradient.value, gradient.shared || both}, 1);
}

Value Planner::forward_of(std::size_t, const Flatten&, const Value& source) { return source; }

void Planner::backward_of(std::size_t op, const Flatten&, const Gradient& gradient) {
  give(op, gradient);
}

void Planner::call(std::size_t op, std::initializer_list<Value> touched, MakeWork make) {
  plan_.call(*calls_, op, touched, std::move(make));
}

void Planner::kernel(std::size_t op, std::initializer_list<Value> touched, std::size_t count,
                     MakeKernel make, std::size_t width) {
  call(op, touched, [=, make = std::move(make)](const Addresses& at) {
    return KernelWork{make(at), count, width};
  });
}

void Planner::product(std::size_t op, const Rows& left, const Rows& right, const Value& result,
                      MakeGemm make) {
  const Value a = factor(op, left);
  const Value b = factor(op, right);
  call(op, {a, b, result},
       [=, make = std::move(make), rounded = rounds_, left_stride = stride_of(left.width),
        right_stride = stride_of(right.width)](const Addresses& at) {
         Gemm gemm = make(at.at(a), at.at(b), at);
         gemm.rounded = rounded;
         if (left_stride > 0) gemm.left.stride = left_stride;
         if (right_stride > 0) gemm.right.stride = right_stride;
         return gemm;
       });
}

// No op writes to what it has rounded: what it makes in place it makes before.
Value Planner::factor(std::size_t op, const Rows& rows) {
  const Value value = rows.value;
  if (!rounds_) return value;
  for (const auto& [from, copy] : rounded_) {
    if (from == value) return copy;
  }
  const std::size_t width = rows.width;
  const std::size_t stride = stride_of(width);
  const bool dense = stride == width;
  const Value copy = make_rounded(dense ? value.count : value.count / width * stride);
  kernel(op, {value, copy}, value.count, [=](const Addresses& at) -> Kernel {
    if (dense) return Round{at.at(value), at.at<std::uint16_t>(copy)};
    return RoundRows{width, stride, at.at(value), at.at<std::uint16_t>(copy)};
  });
  rounded_.emplace_back(value, copy);
  return copy;
}

Value Planner::writable(const Gradient& gradient) {
  return gradient.shared ? make(gradient.value.count) : gradient.value;
}

Value Planner::parameter(std::size_t tensor) const {
  const Segment& place = plan_.parameter_layout.segments[tensor];
  return {plan_.parameters.buffer, place.device, place.count};
}

Value Planner::running(std::size_t buffer) const {
  const Segment& place = plan_.buffer_layout.segments[buffer];
  return {plan_.buffers.buffer, place.device, place.count};
}

Value Planner::parameter_gradient(std::size_t tensor) {
  written_[tensor] = true;
  const Segment& place = plan_.parameter_layout.segments[tensor];
  return {plan_.gradient.buffer, place.device, place.count};
}

std::size_t Planner::rows_of(const Shape& shape) const {
  return shape.size() == 2 ? batch_ * shape[0] : batch_;
}

std::size_t Planner::columns_of(const Shape& shape) const {
  return shape.size() == 2 ? shape[1] : elements(shape);
}

}  // namespace starling::compute::cuda
