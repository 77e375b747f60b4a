#include "cuda/plans/planner.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "compute/dropout.hpp"

namespace starling::compute::cuda {

namespace {

/// The number of floats that a structure takes.
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
      unfinished_(graph.ops.size()),
      summed_(graph.ops.size()),
      users_(graph.ops.size()),
      flow_(graph),
      gradients_(graph.ops.size()),
      written_(graph.tensors.size()),
      rotary_(graph.ops.size()) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId input : graph.ops[i].inputs) {
      if (input != kGraphInput) users_[input].push_back(i);
    }
    const auto* const attention = std::get_if<Attention>(&graph.ops[i].kind);
    fused_.push_back(attention != nullptr && can_fuse(i, *attention));
  }
}

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
  const Made outputs_gradient = make_outputs_gradient();
  loss(&outputs_gradient);
  backward(keep(outputs_gradient));
  return std::move(plan_);
}

void Planner::forward(bool training) {
  training_ = training;
  twins_.clear();
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    rounded_.clear();
    const Value source = taken(i, 0);
    values_[i] =
        std::visit([&](const auto& kind) { return forward_of(i, kind, source); }, op_at(i).kind);
    saved_[i].result = values_[i];
  }
}

Planner::Made Planner::make_outputs_gradient() {
  const std::size_t last = graph_.ops.size() - 1;
  if (!is_head(last)) return {.exact = make(batch_ * graph_.outputs()), .rounded = {}};
  const std::size_t rows = rows_of(op_at(last).out);
  const std::size_t width = columns_of(op_at(last).out);
  Made made{.exact = {}, .rounded = make_rows(rows, width, true)};
  // A bias's gradient sums values that may nearly cancel.
  const bool has_bias = std::get<Linear>(op_at(last).kind).bias != kNoTensor;
  if (has_bias) made.exact = make_rows(rows, width, false);
  return made;
}

// Losses and totals; in training the outputs' gradient. Evaluation's outputs stay to its end.
void Planner::loss(const Made* gradient) {
  const std::size_t op = graph_.ops.size();
  const Value outputs = formed(op, values_.back(), false, false, op_at(op - 1).out);
  const bool by_label = graph_.loss.kind == LossKind::cross_entropy;
  const std::size_t rows = by_label ? batch_ * graph_.positions : batch_;
  const Value losses = make(rows * kFloatsOf<double>);
  const Value right = make(rows);
  if (by_label) {
    cross_entropy(outputs, losses, right, gradient);
  } else {
    mean_squared(outputs, losses, right, gradient);
  }
  kernel(
      op, {losses, right, outputs}, 1,
      [=, totals = plan_.totals](const Addresses& at) -> Kernel {
        return AddUp{rows, at.at<double>(losses), at.at<std::uint32_t>(right),
                     at.at<Totals>(totals)};
      },
      rows);
  if (gradient == nullptr) plan_.outputs = outputs;
}

void Planner::cross_entropy(const Value& outputs, const Value& losses, const Value& right,
                            const Made* gradient) {
  const std::size_t classes = graph_.outputs() / graph_.positions;
  const std::size_t stride = outputs.stride > 0 ? outputs.stride : classes;
  const Made to = gradient == nullptr ? Made{} : *gradient;
  const float smoothing = gradient == nullptr ? 0.0F : graph_.loss.label_smoothing;
  kernel(
      graph_.ops.size(),
      {outputs, losses, right, to.exact.value_or(outputs), to.rounded.value_or(outputs)},
      right.count,
      [=, step = plan_.step, labels = plan_.labels,
       positions = std::size_t{graph_.positions}](const Addresses& at) -> Kernel {
        return CrossEntropy{classes,
                            stride,
                            positions,
                            smoothing,
                            at.at<StepState>(step),
                            at.at(outputs),
                            at.at<std::int32_t>(labels),
                            at.at<double>(losses),
                            at.at<std::uint32_t>(right),
                            to.at(at)};
      },
      base::ceil_div(classes, kFour));
}

void Planner::mean_squared(const Value& outputs, const Value& losses, const Value& right,
                           const Made* gradient) {
  const std::size_t width = graph_.outputs();
  const Made to = gradient == nullptr ? Made{} : *gradient;
  kernel(
      graph_.ops.size(), {outputs, losses, right, to.exact.value_or(outputs)}, right.count,
      [=, step = plan_.step, targets = plan_.targets](const Addresses& at) -> Kernel {
        return MeanSquared{width,          at.at<StepState>(step), at.at(outputs),
                           at.at(targets), at.at<double>(losses),  at.at<std::uint32_t>(right),
                           to.at(at).exact};
      },
      width);
}

void Planner::backward(const Value& outputs_gradient) {
  const std::size_t end = graph_.ops.size();
  gradients_.back() = Gradient{formed(end, outputs_gradient, outputs_gradient.rounded,
                                      values_.back().last, op_at(end - 1).out)};
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    if (!flow_.needs_gradient(i)) continue;
    ASSERT(gradients_[i], "every result is used");
    Gradient gradient = *std::exchange(gradients_[i], std::nullopt);
    rounded_.clear();
    if (!reads_rounded_gradient(i) && gradient.value.rounded) {
      gradient = {exact(i, gradient.value)};
    }
    std::visit([&](const auto& kind) { backward_of(i, kind, gradient); }, op_at(i).kind);
  }
  for (std::size_t i = 0; i < written_.size(); ++i) ASSERT(written_[i], "all tensors are used");
}

// Adds a part to the gradient of an op's input.
void Planner::give(std::size_t op, const Gradient& gradient, std::size_t input) {
  const ValueId value = op_at(op).inputs[input];
  if (!flow_.needs_gradient(value)) return;
  std::optional<Gradient>& known = gradients_[value];
  const bool last = values_[value].last;
  if (gradient.value.last != last) {
    const Value& laid = gradient.value;
    return give(op, {formed(op, laid, laid.rounded, last, op_at(value).out)}, input);
  }
  if (!known) {
    known = gradient;
    return;
  }
  ASSERT(!gradient.also, "ops that take two terms give one");
  if (known->also) {
    known = add_up(op, {known->value, known->shared}, {*known->also, true});
  } else if (adds_gradients(value)) {
    known->also = gradient.value;
    return;
  }
  known = add_up(op, *known, gradient);
}

Planner::Gradient Planner::add_up(std::size_t op, const Gradient& one, const Gradient& other) {
  const Value a = one.value;
  const Value b = other.value;
  const Value to = !one.shared && !a.rounded ? a : writable(other);
  kernel(op, {a, b, to}, to.count, [=](const Addresses& at) -> Kernel {
    return Sum{to.count, at.floats(a), at.floats(b), false, at.to(to)};
  });
  return {to};
}

// If a batch norm has done the ReLU, it also handles it on the way back.
bool Planner::is_done_by_norm(std::size_t op) const {
  const ValueId input = op_at(op).inputs.front();
  return input != kGraphInput && std::holds_alternative<Activation>(op_at(op).kind) &&
         std::holds_alternative<BatchNorm>(op_at(input).kind) && flow_.does_relu(input);
}

bool Planner::adds_gradients(std::size_t op) const {
  return std::holds_alternative<Activation>(op_at(op).kind) && !is_done_by_norm(op);
}

Value Planner::forward_of(std::size_t op, const Activation& activation, const Value& source) {
  const ValueId input = op_at(op).inputs.front();
  if (activation.kind == ActivationKind::relu && input != kGraphInput && flow_.does_relu(input)) {
    return source;
  }
  saved_[op].source = source;
  const Made made = make_wanted(op, source.count);
  kernel(op, {source, made.first(), made.second()}, source.count,
         [=, kind = activation.kind](const Addresses& at) -> Kernel {
           return Activate{kind, source.count, at.floats(source), made.at(at)};
         });
  return keep(made);
}

void Planner::backward_of(std::size_t op, const Activation& activation, const Gradient& gradient) {
  const ValueId input = op_at(op).inputs.front();
  if (!flow_.needs_gradient(input)) return;
  if (is_done_by_norm(op)) return give(op, gradient);
  const bool relu = activation.kind == ActivationKind::relu;
  const Value seen = relu ? shorter(saved_[op].result) : saved_[op].source;
  const Value above = gradient.value;
  const std::optional<Value> also = gradient.also;
  const Value result = writable_for(input, gradient);
  kernel(op, {seen, above, also.value_or(above), result}, seen.count,
         [=, kind = activation.kind](const Addresses& at) -> Kernel {
           return ActivateBackward{kind,
                                   seen.count,
                                   at.floats(seen),
                                   at.floats(above),
                                   also ? at.floats(*also) : Floats{},
                                   at.to(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const Dropout& dropout, const Value& source) {
  if (!training_ || dropout.rate == 0) return source;
  const Made made = make_wanted(op, source.count);
  drop(op, dropout, source, made);
  return keep(made);
}

void Planner::backward_of(std::size_t op, const Dropout& dropout, const Gradient& gradient) {
  const ValueId input = op_at(op).inputs.front();
  if (!flow_.needs_gradient(input)) return;
  if (dropout.rate == 0) return give(op, gradient);
  const Value result = writable_for(input, gradient);
  drop(op, dropout, gradient.value, Made::of(result));
  give(op, {result});
}

// The same elements forward and backward: op and step determine them.
void Planner::drop(std::size_t op, const Dropout& dropout, const Value& from, const Made& to) {
  kernel(op, {from, to.first(), to.second()}, from.count,
         [=, step = plan_.step, rate = dropout.rate](const Addresses& at) -> Kernel {
           return Drop{op,
                       dropout_threshold(rate),
                       1.0F / (1.0F - rate),
                       at.at<StepState>(step),
                       from.count,
                       at.floats(from),
                       to.at(at)};
         });
}

Value Planner::forward_of(std::size_t op, const Add&, const Value& source) {
  if (summed_[op]) return *std::exchange(summed_[op], std::nullopt);
  const Value other = taken(op, 1);
  const Made made = make_wanted(op, source.count);
  const auto unfinished = [&](std::size_t input) -> std::optional<Unfinished> {
    const ValueId value = op_at(op).inputs[input];
    return value == kGraphInput ? std::nullopt : unfinished_[value];
  };
  const std::optional<Unfinished> first = unfinished(0);
  const std::optional<Unfinished> second = unfinished(1);
  if (first) {
    sum_normalised(op, *first, other, second, made);
  } else if (second) {
    sum_normalised(op, *second, source, std::nullopt, made);
  } else {
    kernel(op, {source, other, made.first(), made.second()}, source.count,
           [=, relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
             return Sum{source.count, at.floats(source), at.floats(other), relu, made.at(at)};
           });
  }
  return keep(made);
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
                      MakeGemm make, const std::optional<Value>& beside) {
  const Value a = factor(op, left);
  const Value b = factor(op, right);
  call(op, {a, b, result, beside.value_or(result)},
       [=, make = std::move(make), rounded = rounds_, left_stride = stride_of(left.width),
        right_stride = stride_of(right.width),
        result_rounded = result.rounded](const Addresses& at) {
         Gemm gemm = make(at.at(a), at.at(b), at);
         gemm.rounded = rounded;
         gemm.result_rounded = result_rounded;
         if (left_stride > 0) gemm.left.stride = left_stride;
         if (right_stride > 0) gemm.right.stride = right_stride;
         return gemm;
       });
}

// No op writes to a value after rounding it: results in place are made before.
Value Planner::factor(std::size_t op, const Rows& rows) {
  const Value value = rows.value;
  const std::size_t width = rows.width;
  const std::size_t stride = stride_of(width);
  const bool dense = stride == width;
  if (!rounds_ || (value.rounded && (dense || value.stride == stride))) return value;
  const std::size_t own_stride = value.stride > 0 ? value.stride : width;
  const std::size_t height = own_stride > 0 ? value.count / own_stride : 0;
  const std::size_t own_count = dense ? value.count : height * stride;
  const std::size_t count = std::max(own_count, rows.height * stride);
  if (dense && count == value.count) return formed(op, value, true, value.last, {});
  for (const auto* const copies : {&rounded_, &twins_}) {
    for (const auto& [from, copy] : *copies) {
      if (from == value && copy.count >= count && copy.stride == (dense ? 0 : stride)) return copy;
    }
  }
  ASSERT(value.stride == 0, "what has gaps is rounded where it is made");
  Value copy = make_rounded(count);
  if (!dense) copy.stride = stride;
  kernel(op, {value, copy}, count, [=](const Addresses& at) -> Kernel {
    return RoundRows{height, width, stride, at.floats(value), at.at<std::uint16_t>(copy)};
  });
  remember(value, copy);
  return copy;
}

// Parameters do not change from forward to the end of backward.
void Planner::remember(const Value& value, const Value& copy) {
  const bool stays = training_ && value.buffer == plan_.parameters.buffer;
  (stays ? twins_ : rounded_).emplace_back(value, copy);
}

Value Planner::formed(std::size_t op, const Value& value, bool rounded, bool last,
                      const Shape& image) {
  const std::size_t points = image.size() == 3 ? std::size_t{image[1]} * image[2] : 1;
  const std::size_t channels = image.size() == 3 ? image[0] : 1;
  if (value.rounded == rounded && value.last == last) return value;
  for (const auto* const copies : {&rounded_, &twins_}) {
    for (const auto& [from, copy] : *copies) {
      if (from != value || copy.stride != value.stride) continue;
      if (copy.rounded == rounded && copy.last == last) return copy;
    }
  }
  Value copy = laid(rounded ? make_rounded(value.count) : make(value.count), last);
  copy.stride = value.stride;
  convert(op, value, copy, channels, points);
  remember(value, copy);
  return copy;
}

Value Planner::kept_factor(std::size_t op, const Rows& rows) {
  return stride_of(rows.width) == rows.width ? factor(op, rows) : rows.value;
}

// From one form and layout to another.
void Planner::convert(std::size_t op, const Value& from, const Value& to, std::size_t channels,
                      std::size_t points) {
  const bool moves = from.last != to.last && points > 1 && channels > 1;
  kernel(op, {from, to}, from.count, [=](const Addresses& at) -> Kernel {
    if (moves) return Relayout{channels, points, to.last, at.floats(from), at.to(to)};
    return Convert{from.count, at.floats(from), at.to(to)};
  });
}

Value Planner::exact(std::size_t op, const Value& value) {
  return formed(op, value, false, value.last, {});
}

// The form that takes less memory and time to read.
Value Planner::shorter(const Value& value) const {
  const auto twin = std::ranges::find(twins_, value, &std::pair<Value, Value>::first);
  return twin == twins_.end() ? value : twin->second;
}

// Whether forward passes its source on, or a value that is the same in either form.
bool Planner::passes_on(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  const ValueId input = op_at(op).inputs.front();
  if (const auto* const dropout = std::get_if<Dropout>(&kind)) {
    return !training_ || dropout->rate == 0;
  }
  const auto* const activation = std::get_if<Activation>(&kind);
  const bool done = activation != nullptr && activation->kind == ActivationKind::relu &&
                    input != kGraphInput && flow_.does_relu(input);
  return done || std::holds_alternative<Flatten>(kind) || std::holds_alternative<MaxPool2d>(kind);
}

Planner::Forms Planner::wanted(std::size_t op) const {
  if (!rounds_ || op + 1 == graph_.ops.size()) return {.exact = true};
  Forms forms;
  for (const std::size_t user : users_[op]) {
    const auto& kind = op_at(user).kind;
    if (passes_on(user)) {
      const Forms behind = wanted(user);
      forms.exact = forms.exact || behind.exact;
      forms.rounded = forms.rounded || behind.rounded;
    } else if (std::holds_alternative<Linear>(kind)) {
      const std::size_t width = columns_of(op_at(user).in);
      (stride_of(width) == width ? forms.rounded : forms.exact) = true;
    } else if (std::holds_alternative<Conv2d>(kind) || takes_heads_as_they_are(user) ||
               is_sum_of_images(user) || is_mean_of_images(user)) {
      forms.rounded = true;
    } else {
      forms.exact = true;
    }
  }
  return forms;
}

bool Planner::reads_rounded(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  return passes_on(op) || is_fused(op) || is_elementwise(op) || is_row_norm(op) ||
         is_mean_of_images(op) || std::holds_alternative<Conv2d>(kind) ||
         std::holds_alternative<Linear>(kind) || std::holds_alternative<BatchNorm>(kind) ||
         std::holds_alternative<Add>(kind);
}

bool Planner::reads_rounded_gradient(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  const auto* const conv = std::get_if<Conv2d>(&kind);
  return (conv != nullptr && conv->bias == kNoTensor) || is_fused(op) || is_elementwise(op) ||
         is_row_norm(op) || std::holds_alternative<Linear>(kind) ||
         std::holds_alternative<BatchNorm>(kind) || std::holds_alternative<Add>(kind) ||
         std::holds_alternative<Flatten>(kind) || std::holds_alternative<MaxPool2d>(kind);
}

bool Planner::is_elementwise(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  return std::holds_alternative<Activation>(kind) || std::holds_alternative<SwiGlu>(kind) ||
         std::holds_alternative<Dropout>(kind);
}

bool Planner::is_row_norm(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  return std::holds_alternative<LayerNorm>(kind) || std::holds_alternative<RmsNorm>(kind);
}

bool Planner::takes_heads_as_they_are(std::size_t op) const {
  const auto* const attention = std::get_if<Attention>(&op_at(op).kind);
  return attention != nullptr && is_fused(op) && attention->rotary_base == 0;
}

bool Planner::makes_rounded(std::size_t op) const {
  const std::size_t out = columns_of(op_at(op).out);
  if (!rounds_ || op + 1 == graph_.ops.size() || flow_.does_relu(op) || stride_of(out) != out) {
    return false;
  }
  return std::ranges::all_of(users_[op], [&](std::size_t user) {
    const auto& kind = op_at(user).kind;
    return std::holds_alternative<Linear>(kind) || std::holds_alternative<Activation>(kind) ||
           std::holds_alternative<SwiGlu>(kind) || takes_heads_as_they_are(user);
  });
}

bool Planner::takes_rounded_gradient(ValueId value) const {
  if (!rounds_ || value == kGraphInput || users_[value].size() != 1) return false;
  const auto& kind = op_at(value).kind;
  if (std::holds_alternative<Flatten>(kind) ||
      (std::holds_alternative<Dropout>(kind) && passes_on(value))) {
    return takes_rounded_gradient(op_at(value).inputs.front());
  }
  return is_fused(value) || is_elementwise(value) || is_row_norm(value) ||
         std::holds_alternative<Linear>(kind);
}

bool Planner::is_factor_only(ValueId op) const {
  if (!rounds_ || op == kGraphInput || users_[op].size() != 1) return false;
  const auto* const conv = std::get_if<Conv2d>(&op_at(op).kind);
  const std::size_t out = columns_of(op_at(op).out);
  return (conv != nullptr && conv->bias == kNoTensor) ||
         (std::holds_alternative<Linear>(op_at(op).kind) && stride_of(out) == out);
}

bool Planner::works_last(std::size_t op) const {
  const auto& kind = op_at(op).kind;
  if (!rounds_ || op_at(op).in.size() != 3) return false;
  return std::holds_alternative<Conv2d>(kind) || std::holds_alternative<BatchNorm>(kind) ||
         std::holds_alternative<MaxPool2d>(kind) || std::holds_alternative<Add>(kind) ||
         std::holds_alternative<Activation>(kind) ||
         std::holds_alternative<GlobalAveragePool>(kind);
}

Value Planner::taken(std::size_t op, std::size_t input) {
  const ValueId from = op_at(op).inputs[input];
  const Value value = from == kGraphInput ? plan_.input : values_[from];
  const bool last = works_last(op);
  // A copy in another layout for convolutions may be rounded at once.
  const bool is_factor = last && std::holds_alternative<Conv2d>(op_at(op).kind);
  const bool rounded = value.rounded ? reads_rounded(op) : is_factor && !value.last;
  return formed(op, value, rounded, last, op_at(op).in);
}

Planner::Made Planner::make_wanted(std::size_t op, std::size_t count) {
  const Forms forms = wanted(op);
  Made made;
  const bool last = works_last(op);
  if (forms.exact || !forms.rounded) made.exact = laid(make(count), last);
  if (forms.rounded) made.rounded = laid(make_rounded(count), last);
  return made;
}

Value Planner::keep(const Made& made) {
  if (made.exact && made.rounded) twins_.emplace_back(*made.exact, *made.rounded);
  return made.first();
}

Value Planner::writable(const Gradient& gradient) {
  const Value& value = gradient.value;
  return gradient.shared || value.rounded ? laid(make(value.count), value.last) : value;
}

Value Planner::writable_for(ValueId input, const Gradient& gradient) {
  const Value& value = gradient.value;
  const bool rounds = is_factor_only(input) || (input != kGraphInput && is_sum_of_images(input));
  return rounds ? laid(make_rounded(value.count), value.last) : writable(gradient);
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
