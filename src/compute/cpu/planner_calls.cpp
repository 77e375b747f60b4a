// The planner's tools: calls, and values in the layouts that they need.
#include <utility>

#include "base/assert.hpp"
#include "compute/cpu/planner.hpp"

namespace starling::compute::cpu {

using dnnl::memory;

memory::desc dense(const memory::dims& sides, memory::format_tag tag) {
  return {sides, memory::data_type::f32, tag};
}

memory::desc dense(const memory::dims& sides) {
  using Tag = memory::format_tag;
  static constexpr Tag kPlain[] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return dense(sides, kPlain[sides.size() - 1]);
}

memory::dims sides_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

float* floats(const memory& values) { return static_cast<float*>(values.get_data_handle()); }

std::size_t floats_of(const memory& values) { return values.get_desc().get_size() / sizeof(float); }

void Planner::call(std::function<void()> own, std::initializer_list<Value> touched) {
  for (const Value& value : touched) {
    if (value.buffer != kUser) plan_.touch(value.buffer);
  }
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
  Value result = make(desc);
  reorder(value, result);
  return result;
}

Planner::Gradient Planner::convert(const Gradient& gradient, const memory::desc& desc) {
  if (gradient.value.memory.get_desc() == desc) return gradient;
  return {convert(gradient.value, desc), false};
}

Planner::Value Planner::reshape(const Value& value, const memory::dims& sides) {
  return {plan_.memory_in(value.buffer, dense(sides)), value.buffer};
}

Planner::Value Planner::make(const memory::desc& desc) {
  const BufferId buffer = plan_.add_buffer(desc.get_size());
  return {plan_.memory_in(buffer, desc), buffer};
}

Planner::Value Planner::make_floats(std::size_t count) {
  return make(dense({static_cast<memory::dim>(count)}));
}

Planner::Value Planner::writable(const Gradient& gradient) {
  return gradient.shared ? make(gradient.value.memory.get_desc()) : gradient.value;
}

Planner::Value Planner::user(std::vector<UserMemory>& memories, const Tensor& place,
                             const memory::desc& desc) {
  ASSERT(desc.get_size() == place.size * sizeof(float));
  memories.push_back({memory(desc, plan_.engine(), DNNL_MEMORY_NONE), place.offset});
  return {memories.back().memory, kUser};
}

Planner::Value Planner::parameter(std::size_t tensor, const memory::desc& desc) {
  return user(plan_.parameters, graph_.tensors[tensor], desc);
}

Planner::Value Planner::parameter(std::size_t tensor) {
  return parameter(tensor, dense(sides_of(graph_.tensors[tensor].shape)));
}

Planner::Value Planner::parameter_gradient(std::size_t tensor, const memory::desc& desc) {
  written_[tensor] = true;
  return user(plan_.gradients, graph_.tensors[tensor], desc);
}

Planner::Value Planner::parameter_gradient(std::size_t tensor) {
  return parameter_gradient(tensor, dense(sides_of(graph_.tensors[tensor].shape)));
}

Planner::Value Planner::running(std::size_t buffer) {
  const Tensor& place = graph_.buffers[buffer];
  return user(plan_.buffers, place, dense(sides_of(place.shape)));
}

dnnl::primitive_attr Planner::attributes(bool with_relu) const {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (with_relu) {  // also turns NaN into 0
    dnnl::post_ops operations;
    operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
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

memory::dims Planner::rows(const Shape& shape) const {
  if (shape.size() == 2) return {batch_ * shape[0], shape[1]};
  return {batch_, static_cast<memory::dim>(elements(shape))};
}

}  // namespace starling::compute::cpu
