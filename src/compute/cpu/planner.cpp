#include "compute/cpu/planner.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace starling::compute::cpu {

using dnnl::memory;

namespace {

using Tag = memory::format_tag;

/// Dense, in the order of the sides.
memory::desc dense(const memory::dims& sides, Tag tag = Tag::undef) {
  static constexpr Tag kPlain[] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return {sides, memory::data_type::f32, tag == Tag::undef ? kPlain[sides.size() - 1] : tag};
}

/// A layout that oneDNN may choose.
memory::desc any(const memory::dims& sides) { return dense(sides, Tag::any); }

memory::dims sides_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Window, stride and padding as oneDNN takes them.
struct Window {
  memory::dims kernel, stride, padding;
};

Window window(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding) {
  const auto both = [](std::uint32_t side) { return memory::dims{side, side}; };
  return {both(kernel), both(stride), both(padding)};
}

/// A layout that max_pool takes, with so many channels side by side.
struct PlaneLayout {
  Tag tag;
  std::size_t block;
};

/// The layout of images if it is one of these, else the plain one, to be converted to.
PlaneLayout plane_layout(const memory::desc& desc) {
  for (const PlaneLayout layout : {PlaneLayout{Tag::aBcd8b, 8}, PlaneLayout{Tag::aBcd16b, 16}}) {
    if (desc == dense(desc.dims(), layout.tag)) return layout;
  }
  return {Tag::abcd, 1};
}

float* floats(const memory& values) { return static_cast<float*>(values.get_data_handle()); }

constexpr auto kRelu = dnnl::algorithm::eltwise_relu;
// Backward looks at the outputs, so that forward need not keep what came before the ReLU.
constexpr auto kReluFromResult = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

}  // namespace

Planner::Planner(const Graph& graph, std::uint32_t batch)
    : graph_(graph), batch_(batch), saved_(graph.ops.size()) {}

Plan Planner::plan() {
  scratchpad_ = plan_.add_buffer(0);
  calls_ = &plan_.forward;
  forward();
  calls_ = &plan_.backward;
  backward();
  return std::move(plan_);
}

void Planner::forward() {
  Value value = make(plain(graph_.input));
  plan_.input = value.buffer;
  plan_.touch(value.buffer);
  plan_.advance();
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (std::holds_alternative<Conv2d>(op.kind)) {
      value = forward_conv2d(i, value);
    } else if (std::holds_alternative<Linear>(op.kind)) {
      value = forward_linear(i, value);
    } else if (std::holds_alternative<MaxPool2d>(op.kind)) {
      value = forward_max_pool2d(i, value);
    } else if (!is_relu(i)) {
      throw dnnl::error(dnnl_unimplemented, name_of(op));
    } else {
      const bool fused = i > 0 && (std::holds_alternative<Conv2d>(graph_.ops[i - 1].kind) ||
                                   std::holds_alternative<Linear>(graph_.ops[i - 1].kind));
      if (!fused) value = forward_relu(value);
    }
    saved_[i].result = value;
  }
  value = convert(value, plain(graph_.ops.back().out));
  plan_.outputs = value.buffer;
  plan_.evaluation_input = plan_.input;
  plan_.evaluation_outputs = plan_.outputs;
  plan_.touch(value.buffer);
}

Planner::Value Planner::forward_conv2d(std::size_t op, Value source) {
  const auto& conv = std::get<Conv2d>(graph_.ops[op].kind);
  const Tensor& weight = graph_.tensors[conv.weight];
  const auto [kernel, stride, padding] = window(conv.kernel, conv.stride, conv.padding);
  const memory::desc bias = dense(sides_of(graph_.tensors[conv.bias].shape));
  const dnnl::convolution_forward::primitive_desc desc(
      {kTraining, dnnl::algorithm::convolution_direct, any(dims(graph_.ops[op].in)),
       any(sides_of(weight.shape)), bias, any(dims(graph_.ops[op].out)), stride, padding, padding},
      attributes(is_relu(op + 1)), plan_.engine());

  Saved& saved = saved_[op];
  saved.convolution = desc;
  saved.source = convert(source, desc.src_desc());
  saved.weight = convert(user(plan_.parameters, conv.weight, dense(sides_of(weight.shape))),
                         desc.weights_desc());
  const Value result = make(desc.dst_desc());
  call(dnnl::convolution_forward(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_SRC, saved.source},
        {DNNL_ARG_WEIGHTS, saved.weight},
        {DNNL_ARG_BIAS, user(plan_.parameters, conv.bias, bias)},
        {DNNL_ARG_DST, result}});
  return result;
}

Planner::Value Planner::forward_linear(std::size_t op, Value source) {
  const auto& linear = std::get<Linear>(graph_.ops[op].kind);
  const Shape& in = graph_.ops[op].in;
  const memory::desc weight = dense(sides_of(graph_.tensors[linear.weight].shape));
  const memory::desc bias = dense(sides_of(graph_.tensors[linear.bias].shape));
  Saved& saved = saved_[op];
  // The weights stay as the caller has them: they are larger than the activations by far.
  saved.source = reshape(convert(source, plain(in)), {static_cast<std::uint32_t>(elements(in))});
  const dnnl::inner_product_forward::primitive_desc desc(
      {kTraining, saved.source.memory.get_desc(), weight, bias, plain(graph_.ops[op].out)},
      attributes(is_relu(op + 1)), plan_.engine());
  saved.inner_product = desc;
  const Value result = make(desc.dst_desc());
  call(dnnl::inner_product_forward(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_SRC, saved.source},
        {DNNL_ARG_WEIGHTS, user(plan_.parameters, linear.weight, weight)},
        {DNNL_ARG_BIAS, user(plan_.parameters, linear.bias, bias)},
        {DNNL_ARG_DST, result}});
  return result;
}

// In place: no op's backward needs the values from before a ReLU.
Planner::Value Planner::forward_relu(const Value& source) {
  const dnnl::eltwise_forward::primitive_desc desc(
      {kTraining, kReluFromResult, source.memory.get_desc(), 0.0F, 0.0F}, attributes(),
      plan_.engine());
  call(dnnl::eltwise_forward(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, source}});
  return source;
}

Planner::Value Planner::forward_max_pool2d(std::size_t op, Value source) {
  const auto& pool = std::get<MaxPool2d>(graph_.ops[op].kind);
  const Shape& in = graph_.ops[op].in;
  const Shape& out = graph_.ops[op].out;
  const PlaneLayout layout = plane_layout(source.memory.get_desc());
  source = convert(source, dense(dims(in), layout.tag));
  Saved& saved = saved_[op];
  saved.source = source;
  saved.pool = {
      .planes = source.memory.get_desc().get_size() / sizeof(float) / in[1] / in[2] / layout.block,
      .block = layout.block,
      .height = in[1],
      .width = in[2],
      .out_height = out[1],
      .out_width = out[2],
      .kernel = pool.kernel,
      .stride = pool.stride};
  const Value result = make(dense(dims(out), layout.tag));
  saved.chosen = make({dims(out), memory::data_type::s32, layout.tag});
  const bool after_relu = op > 0 && is_relu(op - 1);
  call(
      [shape = saved.pool, after_relu, from = source.memory, to = result.memory,
       chosen = saved.chosen.memory] {
        max_pool_forward(shape, after_relu, floats(from), floats(to),
                         static_cast<std::int32_t*>(chosen.get_data_handle()));
      },
      {source, result, saved.chosen});
  return result;
}

void Planner::backward() {
  Value gradient = make(plain(graph_.ops.back().out));
  plan_.outputs_gradient = gradient.buffer;
  plan_.touch(gradient.buffer);
  plan_.advance();
  const auto first_trained = std::ranges::find_if(graph_.ops, [](const Op& op) {
    return std::holds_alternative<Conv2d>(op.kind) || std::holds_alternative<Linear>(op.kind);
  });
  const auto stop = static_cast<std::size_t>(first_trained - graph_.ops.begin());
  for (std::size_t i = graph_.ops.size(); i-- > stop;) {
    const Op& op = graph_.ops[i];
    if (std::holds_alternative<Conv2d>(op.kind)) {
      backward_conv2d_weights(i, gradient);
      if (i > stop) gradient = backward_conv2d_source(i, gradient);
    } else if (std::holds_alternative<Linear>(op.kind)) {
      backward_linear_weights(i, gradient);
      if (i > stop) gradient = backward_linear_source(i, gradient);
    } else if (std::holds_alternative<MaxPool2d>(op.kind)) {
      gradient = backward_max_pool2d(i, gradient);
    } else {
      const bool done =  // by the pool: the largest of a window passed the ReLU if it is above zero
          i + 1 < graph_.ops.size() && std::holds_alternative<MaxPool2d>(graph_.ops[i + 1].kind);
      if (!done) gradient = backward_relu(saved_[i].result, gradient);
    }
  }
}

void Planner::backward_conv2d_weights(std::size_t op, const Value& gradient) {
  const auto& conv = std::get<Conv2d>(graph_.ops[op].kind);
  const Saved& saved = saved_[op];
  const memory::dims weight = sides_of(graph_.tensors[conv.weight].shape);
  const memory::desc bias = dense(sides_of(graph_.tensors[conv.bias].shape));
  const auto [kernel, stride, padding] = window(conv.kernel, conv.stride, conv.padding);
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, any(dims(graph_.ops[op].in)), any(weight), bias,
       any(dims(graph_.ops[op].out)), stride, padding, padding},
      attributes(), plan_.engine(), saved.convolution);
  const Value target = user(plan_.gradients, conv.weight, dense(weight));
  const bool direct = desc.diff_weights_desc() == target.memory.get_desc();
  const Value blocked = direct ? target : make(desc.diff_weights_desc());
  const Value source = convert(saved.source, desc.src_desc());
  const Value converted = convert(gradient, desc.diff_dst_desc());
  call(dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_SRC, source},
        {DNNL_ARG_DIFF_DST, converted},
        {DNNL_ARG_DIFF_WEIGHTS, blocked},
        {DNNL_ARG_DIFF_BIAS, user(plan_.gradients, conv.bias, bias)}});
  if (!direct) reorder(blocked, target);
}

Planner::Value Planner::backward_conv2d_source(std::size_t op, const Value& gradient) {
  const auto& conv = std::get<Conv2d>(graph_.ops[op].kind);
  const Saved& saved = saved_[op];
  const memory::dims weight = sides_of(graph_.tensors[conv.weight].shape);
  const auto [kernel, stride, padding] = window(conv.kernel, conv.stride, conv.padding);
  const dnnl::convolution_backward_data::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, any(dims(graph_.ops[op].in)), any(weight),
       any(dims(graph_.ops[op].out)), stride, padding, padding},
      attributes(), plan_.engine(), saved.convolution);
  const Value converted = convert(gradient, desc.diff_dst_desc());
  const Value weights =
      desc.weights_desc() == saved.weight.memory.get_desc()
          ? saved.weight
          : convert(user(plan_.parameters, conv.weight, dense(weight)), desc.weights_desc());
  const Value result = make(desc.diff_src_desc());
  call(dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_DIFF_DST, converted}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

void Planner::backward_linear_weights(std::size_t op, const Value& gradient) {
  const auto& linear = std::get<Linear>(graph_.ops[op].kind);
  const Saved& saved = saved_[op];
  const memory::desc weight = dense(sides_of(graph_.tensors[linear.weight].shape));
  const memory::desc bias = dense(sides_of(graph_.tensors[linear.bias].shape));
  const Value plain_gradient = convert(gradient, plain(graph_.ops[op].out));
  const dnnl::inner_product_backward_weights::primitive_desc desc(
      {saved.source.memory.get_desc(), weight, bias, plain(graph_.ops[op].out)}, attributes(),
      plan_.engine(), saved.inner_product);
  call(dnnl::inner_product_backward_weights(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_SRC, saved.source},
        {DNNL_ARG_DIFF_DST, plain_gradient},
        {DNNL_ARG_DIFF_WEIGHTS, user(plan_.gradients, linear.weight, weight)},
        {DNNL_ARG_DIFF_BIAS, user(plan_.gradients, linear.bias, bias)}});
}

Planner::Value Planner::backward_linear_source(std::size_t op, const Value& gradient) {
  const auto& linear = std::get<Linear>(graph_.ops[op].kind);
  const Saved& saved = saved_[op];
  const memory::desc weight = dense(sides_of(graph_.tensors[linear.weight].shape));
  const Value plain_gradient = convert(gradient, plain(graph_.ops[op].out));
  const Value result = make(saved.source.memory.get_desc());
  const dnnl::inner_product_backward_data::primitive_desc desc(
      {result.memory.get_desc(), weight, plain(graph_.ops[op].out)}, attributes(), plan_.engine(),
      saved.inner_product);
  call(dnnl::inner_product_backward_data(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_DIFF_DST, plain_gradient},
        {DNNL_ARG_WEIGHTS, user(plan_.parameters, linear.weight, weight)},
        {DNNL_ARG_DIFF_SRC, result}});
  return reshape(result, graph_.ops[op].in);
}

// In place: the gradient behind the ReLU is not needed again.
Planner::Value Planner::backward_relu(const Value& result, Value gradient) {
  const memory::desc data = result.memory.get_desc();
  gradient = convert(gradient, data);
  const dnnl::eltwise_forward::primitive_desc hint({kTraining, kReluFromResult, data, 0.0F, 0.0F},
                                                   attributes(), plan_.engine());
  const dnnl::eltwise_backward::primitive_desc desc({kReluFromResult, data, data, 0.0F, 0.0F},
                                                    attributes(), plan_.engine(), hint);
  call(dnnl::eltwise_backward(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_DST, result}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_SRC, gradient}});
  return gradient;
}

Planner::Value Planner::backward_max_pool2d(std::size_t op, Value gradient) {
  const Saved& saved = saved_[op];
  const PlaneLayout layout = plane_layout(saved.source.memory.get_desc());
  gradient = convert(gradient, dense(dims(graph_.ops[op].out), layout.tag));
  const Value result = make(saved.source.memory.get_desc());
  call(
      [shape = saved.pool, from = gradient.memory, to = result.memory,
       chosen = saved.chosen.memory] {
        max_pool_backward(shape, floats(from),
                          static_cast<const std::int32_t*>(chosen.get_data_handle()), floats(to));
      },
      {gradient, result, saved.chosen});
  return result;
}

void Planner::call(std::function<void()> own, std::initializer_list<Value> touched) {
  for (const Value& value : touched) plan_.touch(value.buffer);
  calls_->push_back({{}, {}, std::move(own)});
  plan_.advance();
}

void Planner::call(const dnnl::primitive& primitive, const memory::desc& scratchpad,
                   std::initializer_list<Argument> arguments) {
  Call call{primitive, {}, {}};
  for (const Argument& argument : arguments) {
    call.arguments.push_back({argument.index, argument.value.memory.get()});
    if (argument.value.buffer != kUser) plan_.touch(argument.value.buffer);
  }
  if (scratchpad.get_size() > 0) {
    call.arguments.push_back({DNNL_ARG_SCRATCHPAD, plan_.memory_in(scratchpad_, scratchpad).get()});
    plan_.touch(scratchpad_);
  }
  calls_->push_back(std::move(call));
  plan_.advance();
}

void Planner::reorder(const Value& from, const Value& to) {
  const dnnl::reorder::primitive_desc desc(plan_.engine(), from.memory.get_desc(), plan_.engine(),
                                           to.memory.get_desc(), attributes());
  call(dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Planner::Value Planner::convert(const Value& value, const memory::desc& desc) {
  if (value.memory.get_desc() == desc) return value;
  const Value result = make(desc);
  reorder(value, result);
  return result;
}

Planner::Value Planner::reshape(const Value& value, const Shape& shape) {
  return {plan_.memory_in(value.buffer, plain(shape)), value.buffer};
}

Planner::Value Planner::make(const memory::desc& desc) {
  const BufferId buffer = plan_.add_buffer(desc.get_size());
  return {plan_.memory_in(buffer, desc), buffer};
}

Planner::Value Planner::user(std::vector<UserMemory>& memories, std::size_t tensor,
                             const memory::desc& desc) {
  const Tensor& place = graph_.tensors[tensor];
  ASSERT(desc.get_size() == place.size * sizeof(float));
  memories.push_back({memory(desc, plan_.engine(), DNNL_MEMORY_NONE), place.offset});
  return {memories.back().memory, kUser};
}

bool Planner::is_relu(std::size_t op) const {
  if (op >= graph_.ops.size()) return false;
  const auto* activation = std::get_if<Activation>(&graph_.ops[op].kind);
  return activation != nullptr && activation->kind == ActivationKind::relu;
}

dnnl::primitive_attr Planner::attributes(bool with_relu) const {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (with_relu) {
    dnnl::post_ops operations;
    operations.append_eltwise(1.0F, kRelu, 0.0F, 0.0F);
    attributes.set_post_ops(operations);
  }
  return attributes;
}

memory::dims Planner::dims(const Shape& shape) const {
  memory::dims result{batch_};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

memory::desc Planner::plain(const Shape& shape) const { return dense(dims(shape)); }

}  // namespace starling::compute::cpu
