#include "compute/cpu/planner.hpp"

#include <utility>

#include "base/assert.hpp"
#include "compute/cpu/elementwise.hpp"
#include "compute/cpu/gemm.hpp"

namespace starling::compute::cpu {

using dnnl::memory;

Planner::Planner(const Graph& graph, const CompileOptions& options)
    : graph_(graph),
      batch_(options.batch),
      threads_(options.threads),
      bf16_(options.precision == Precision::bfloat16 && has_bfloat16()),
      values_(graph.ops.size()),
      saved_(graph.ops.size()),
      flow_(graph),
      gradients_(graph.ops.size()),
      written_(graph.tensors.size()) {}

Plan Planner::plan() {
  scratchpad_ = plan_.add_buffer(0);
  bool differs = false;
  for (const Op& op : graph_.ops) {
    if (std::holds_alternative<BatchNorm>(op.kind) || std::holds_alternative<Dropout>(op.kind)) {
      differs = true;
    }
  }
  // Evaluation first: training overwrites its values in saved_, and backward needs training's.
  if (differs) forward(false);
  forward(true);
  if (!differs) {
    plan_.evaluation_input = plan_.input;
    plan_.evaluation_outputs = plan_.outputs;
  }
  backward();
  return std::move(plan_);
}

void Planner::forward(bool training) {
  training_ = training;
  calls_ = training ? &plan_.forward : &plan_.evaluation;
  input_ = graph_.vocabulary > 0
               ? make({dims(graph_.input), memory::data_type::s32, memory::format_tag::ab})
               : make(plain(graph_.input));
  (training ? plan_.input : plan_.evaluation_input) = input_.buffer;
  plan_.touch(input_.buffer);
  plan_.advance();
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    values_[i] = forward_op(i);
    saved_[i].result = values_[i];
  }
  const Value outputs = convert(values_.back(), plain(graph_.ops.back().out));
  (training ? plan_.outputs : plan_.evaluation_outputs) = outputs.buffer;
  plan_.touch(outputs.buffer);
}

Planner::Value Planner::forward_op(std::size_t op) {
  const ValueId input = op_at(op).inputs.front();
  const Value source = input == kGraphInput ? input_ : values_[input];
  return std::visit([&](const auto& kind) { return forward_of(op, kind, source); }, op_at(op).kind);
}

void Planner::backward() {
  calls_ = &plan_.backward;
  const Value gradient = make(plain(graph_.ops.back().out));
  plan_.outputs_gradient = gradient.buffer;
  plan_.touch(gradient.buffer);
  plan_.advance();
  gradients_.back() = Gradient{gradient};
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    if (!flow_.needs_gradient(i)) continue;
    ASSERT(gradients_[i], "every result is used");
    backward_op(i, *std::exchange(gradients_[i], std::nullopt));
  }
}

void Planner::backward_op(std::size_t op, Gradient gradient) {
  std::visit([&](const auto& kind) { backward_of(op, kind, gradient); }, op_at(op).kind);
}

void Planner::give(std::size_t op, Gradient gradient, std::size_t input) {
  const ValueId value = op_at(op).inputs[input];
  if (!flow_.needs_gradient(value)) return;
  std::optional<Gradient>& known = gradients_[value];
  if (!known) {
    known = std::move(gradient);
    return;
  }
  gradient = convert(gradient, known->value.memory.get_desc());
  const Value to = known->shared ? writable(gradient) : known->value;
  call([count = floats_of(to.memory), a = known->value.memory, b = gradient.value.memory,
        to = to.memory] { add(count, floats(a), floats(b), floats(to)); },
       {known->value, gradient.value, to});
  known = Gradient{to};
}

bool Planner::pool_undoes(std::size_t relu) const {
  return flow_.is_relu(relu) && flow_.uses(relu) == 1 && relu + 1 < graph_.ops.size() &&
         op_at(relu + 1).inputs.front() == relu &&
         std::holds_alternative<MaxPool2d>(op_at(relu + 1).kind);
}

bool Planner::may_overwrite(ValueId value) const {
  if (value == kGraphInput || flow_.uses(value) != 1) return false;
  const auto& kind = op_at(value).kind;
  if (std::holds_alternative<Flatten>(kind) || std::holds_alternative<Dropout>(kind)) {
    return may_overwrite(op_at(value).inputs.front());  // may be the same buffer
  }
  return !keeps_result(value);
}

bool Planner::keeps_result(std::size_t op) const {
  return flow_.is_relu(op) || flow_.does_relu(op) ||
         std::holds_alternative<Attention>(op_at(op).kind);
}

const Planner::Value& Planner::kept_result(std::size_t op) const {
  ASSERT(keeps_result(op), "whatever takes the result may have written over it");
  return saved_[op].result;
}

Planner::Value Planner::forward_of(std::size_t op, const Activation& activation,
                                   const Value& source) {
  const ValueId input = op_at(op).inputs.front();
  const bool relu = activation.kind == ActivationKind::relu;
  if (relu && input != kGraphInput && flow_.does_relu(input)) return source;
  saved_[op].source = source;
  // A ReLU's backward reads its result.
  const bool in_place = may_overwrite(input) && (relu || !training_);
  Value result = in_place ? source : make(source.memory.get_desc());
  call([kind = activation.kind, count = floats_of(source.memory), from = source.memory,
        to = result.memory] { activate(kind, count, floats(from), floats(to)); },
       {source, result});
  return result;
}

void Planner::backward_of(std::size_t op, const Activation& activation, Gradient gradient) {
  const ValueId input = op_at(op).inputs.front();
  const bool relu = activation.kind == ActivationKind::relu;
  const bool normed = relu && input != kGraphInput && flow_.does_relu(input) &&
                      std::holds_alternative<BatchNorm>(op_at(input).kind);
  if (!flow_.needs_gradient(input)) return;
  if (normed || pool_undoes(op)) return give(op, gradient);
  const Value& seen = relu ? kept_result(op) : saved_[op].source;
  gradient = convert(gradient, seen.memory.get_desc());
  const Value result = writable(gradient);
  call(
      [kind = activation.kind, count = floats_of(seen.memory), seen = seen.memory,
       from = gradient.value.memory, to = result.memory] {
        activate_backward(kind, count, floats(seen), floats(from), floats(to));
      },
      {seen, gradient.value, result});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const Dropout& dropout, Value source) {
  if (!training_ || dropout.rate == 0) return source;
  const bool in_place = may_overwrite(op_at(op).inputs.front());
  const Value from = convert(source, plain(op_at(op).in));
  Value to = in_place ? from : make(from.memory.get_desc());
  drop(op, dropout, from, to);
  return to;
}

void Planner::backward_of(std::size_t op, const Dropout& dropout, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  if (dropout.rate == 0) return give(op, gradient);
  const Gradient from = convert(gradient, plain(op_at(op).in));
  const Value to = writable(from);
  drop(op, dropout, from.value, to);
  give(op, {to});
}

// The same elements forward and backward: op and step determine them. In a short batch, also those
// after the samples: the gradients of weights sum over the whole batch, and another buffer may have
// left NaN there.
void Planner::drop(std::size_t op, const Dropout& dropout, const Value& from, const Value& to) {
  call([rate = dropout.rate, op, count = floats_of(from.memory), step = &plan_.step(),
        from = from.memory,
        to = to.memory] { cpu::drop(rate, step->seed, op, count, floats(from), floats(to)); },
       {from, to});
}

Planner::Value Planner::forward_of(std::size_t op, const Add&, const Value& source) {
  const auto& inputs = op_at(op).inputs;
  const Value other =
      convert(inputs[1] == kGraphInput ? input_ : values_[inputs[1]], source.memory.get_desc());
  const bool same = inputs[0] == inputs[1];
  Value to = may_overwrite(inputs[0]) && !same ? source : make(source.memory.get_desc());
  call([count = floats_of(to.memory), a = source.memory, b = other.memory, to = to.memory,
        relu = flow_.does_relu(op)] { add(count, floats(a), floats(b), floats(to), relu); },
       {source, other, to});
  return to;
}

void Planner::backward_of(std::size_t op, const Add&, const Gradient& gradient) {
  const auto& inputs = op_at(op).inputs;
  const bool both = flow_.needs_gradient(inputs[0]) && flow_.needs_gradient(inputs[1]);
  give(op, {gradient.value, gradient.shared || both}, 0);
  give(op, {gradient.value, gradient.shared || both}, 1);
}

Planner::Value Planner::forward_of(std::size_t op, const Flatten&, const Value& source) {
  return reshape(convert(source, plain(op_at(op).in)), dims(op_at(op).out));
}

void Planner::backward_of(std::size_t op, const Flatten&, const Gradient& gradient) {
  const Gradient flat = convert(gradient, plain(op_at(op).out));
  give(op, {reshape(flat.value, dims(op_at(op).in)), flat.shared});
}

}  // namespace starling::compute::cpu
