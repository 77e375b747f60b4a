// The planner's part for rows of features: linear layers, norms, embeddings and attention.
#include "base/assert.hpp"
#include "compute/cpu/attention.hpp"
#include "compute/cpu/elementwise.hpp"
#include "compute/cpu/gemm.hpp"
#include "compute/cpu/norm.hpp"
#include "compute/cpu/planner.hpp"

namespace starling::compute::cpu {

using dnnl::memory;

namespace {

const std::int32_t* tokens(const memory& values) {
  return static_cast<const std::int32_t*>(values.get_data_handle());
}

}  // namespace

Planner::Value Planner::forward_of(std::size_t op, const Linear& linear, const Value& source) {
  const Shape& in = op_at(op).in;
  if (bf16_) return forward_rounded(op, linear, source);
  const bool has_bias = linear.bias != kNoTensor;
  const memory::desc weight = dense(sides_of(graph_.tensors[linear.weight].shape));
  const memory::desc bias =
      has_bias ? dense(sides_of(graph_.tensors[linear.bias].shape)) : memory::desc{};
  Saved& saved = saved_[op];
  // The weights stay in the caller's layout: they are far larger than the activations.
  saved.source = reshape(convert(source, plain(in)), rows(in));
  const dnnl::inner_product_forward::primitive_desc desc(
      {kTraining, saved.source.memory.get_desc(), weight, bias, dense(rows(op_at(op).out))},
      attributes(), plan_.engine());
  const Value result = make(desc.dst_desc());
  if (has_bias) {
    call(dnnl::inner_product_forward(desc), desc.scratchpad_desc(),
         {{DNNL_ARG_SRC, saved.source},
          {DNNL_ARG_WEIGHTS, parameter(linear.weight)},
          {DNNL_ARG_BIAS, parameter(linear.bias)},
          {DNNL_ARG_DST, result}});
  } else {
    call(dnnl::inner_product_forward(desc), desc.scratchpad_desc(),
         {{DNNL_ARG_SRC, saved.source},
          {DNNL_ARG_WEIGHTS, parameter(linear.weight)},
          {DNNL_ARG_DST, result}});
  }
  if (flow_.does_relu(op)) {
    // Not by oneDNN: its ReLU turns NaN into 0.
    call([count = floats_of(result.memory),
          at = result.memory] { activate(ActivationKind::relu, count, floats(at), floats(at)); },
         {result});
  }
  return reshape(result, dims(op_at(op).out));
}

Planner::Value Planner::forward_rounded(std::size_t op, const Linear& linear, const Value& source) {
  const Value from = convert(source, plain(op_at(op).in));
  saved_[op].source = from;
  const auto sides = rows(op_at(op).out);
  const auto count = static_cast<std::size_t>(sides[0]);
  const auto out = static_cast<std::size_t>(sides[1]);
  const auto in = static_cast<std::size_t>(rows(op_at(op).in)[1]);
  const memory bias = linear.bias == kNoTensor ? memory() : parameter(linear.bias).memory;
  Value result = make(plain(op_at(op).out));
  call(
      [count, out, in, threads = threads_, relu = flow_.does_relu(op), from = from.memory,
       weight = parameter(linear.weight).memory, bias, to = result.memory] {
        gemm({.rows = count,
              .columns = out,
              .depth = in,
              .left = {floats(from), in},
              .right = {floats(weight), in, true},
              .result = floats(to),
              .result_stride = out,
              .bias = bias ? floats(bias) : nullptr,
              .bfloat16 = true},
             threads);
        if (relu) activate(ActivationKind::relu, count * out, floats(to), floats(to));
      },
      {from, result});
  return result;
}

void Planner::backward_of(std::size_t op, const Linear& linear, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const Value above = convert(gradient.value, plain(op_at(op).out));
  const auto sides = rows(op_at(op).out);
  const auto count = static_cast<std::size_t>(sides[0]);
  const auto out = static_cast<std::size_t>(sides[1]);
  const auto in = static_cast<std::size_t>(rows(op_at(op).in)[1]);
  ASSERT(!written_[linear.weight], "an embedding's comes last");
  call(
      [count, out, in, bf16 = bf16_, threads = threads_, above = above.memory,
       source = source.memory, dweight = parameter_gradient(linear.weight).memory] {
        gemm({.rows = out,
              .columns = in,
              .depth = count,
              .left = {floats(above), out, true},
              .right = {floats(source), in},
              .result = floats(dweight),
              .result_stride = in,
              .bfloat16 = bf16},
             threads);
      },
      {above, source});
  if (linear.bias != kNoTensor) {
    call(
        [count, out, above = above.memory, dbias = parameter_gradient(linear.bias).memory] {
          sum_rows(count, out, floats(above), floats(dbias));
        },
        {above});
  }
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const Value result = make(plain(op_at(op).in));
  call(
      [count, out, in, bf16 = bf16_, threads = threads_, above = above.memory,
       weight = parameter(linear.weight).memory, result = result.memory] {
        gemm({.rows = count,
              .columns = in,
              .depth = out,
              .left = {floats(above), out},
              .right = {floats(weight), in},
              .result = floats(result),
              .result_stride = in,
              .bfloat16 = bf16},
             threads);
      },
      {above, result});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const LayerNorm& norm, const Value& source) {
  return forward_rows(op, source, norm.epsilon, norm.weight, norm.bias, true);
}

Planner::Value Planner::forward_of(std::size_t op, const RmsNorm& norm, const Value& source) {
  return forward_rows(op, source, norm.epsilon, norm.weight, kNoTensor, false);
}

void Planner::backward_of(std::size_t op, const LayerNorm& norm, const Gradient& gradient) {
  backward_rows(op, gradient, norm.epsilon, norm.weight, norm.bias, true);
}

void Planner::backward_of(std::size_t op, const RmsNorm& norm, const Gradient& gradient) {
  backward_rows(op, gradient, norm.epsilon, norm.weight, kNoTensor, false);
}

Planner::Value Planner::forward_rows(std::size_t op, Value source, float epsilon,
                                     std::size_t weight, std::size_t bias, bool centred) {
  source = convert(source, plain(op_at(op).in));
  const RowNorm norm{.centred = centred,
                     .rows = floats_of(source.memory) / op_at(op).in.back(),
                     .width = op_at(op).in.back(),
                     .epsilon = epsilon};
  Saved& saved = saved_[op];
  saved.source = source;
  saved.extra = make_floats(2 * norm.rows);
  Value result = make(source.memory.get_desc());
  const bool has_bias = bias != kNoTensor;
  call(
      [norm, from = source.memory, weight = parameter(weight).memory,
       bias = has_bias ? parameter(bias).memory : memory{}, has_bias, to = result.memory,
       figures = saved.extra.memory] {
        row_norm(norm, floats(from), floats(weight), has_bias ? floats(bias) : nullptr, floats(to),
                 floats(figures));
      },
      {source, result, saved.extra});
  return result;
}

void Planner::backward_rows(std::size_t op, const Gradient& gradient, float epsilon,
                            std::size_t weight, std::size_t bias, bool centred) {
  const Saved& saved = saved_[op];
  const Gradient above = convert(gradient, saved.source.memory.get_desc());
  const Value result = writable(above);
  const RowNorm norm{.centred = centred,
                     .rows = floats_of(result.memory) / op_at(op).in.back(),
                     .width = op_at(op).in.back(),
                     .epsilon = epsilon};
  const bool has_bias = bias != kNoTensor;
  call(
      [norm, from = saved.source.memory, weights = parameter(weight).memory,
       figures = saved.extra.memory, above = above.value.memory, to = result.memory,
       dweight = parameter_gradient(weight).memory,
       dbias = has_bias ? parameter_gradient(bias).memory : memory{}, has_bias] {
        row_norm_backward(norm, floats(from), floats(weights), floats(figures), floats(above),
                          floats(to), floats(dweight), has_bias ? floats(dbias) : nullptr);
      },
      {saved.source, saved.extra, above.value, result});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const Embedding& embedding,
                                   const Value& source) {
  const Shape& out = op_at(op).out;
  saved_[op].source = source;
  Value result = make(plain(out));
  call([count = static_cast<std::size_t>(batch_) * out[0], width = std::size_t{out[1]},
        from = source.memory, weight = parameter(embedding.weight).memory,
        to = result.memory] { embed(count, width, tokens(from), floats(weight), floats(to)); },
       {source, result});
  return result;
}

void Planner::backward_of(std::size_t op, const Embedding& embedding, const Gradient& gradient) {
  const Shape& out = op_at(op).out;
  const Value& source = saved_[op].source;
  const Value above = convert(gradient.value, plain(out));
  const bool accumulate = written_[embedding.weight];
  call(
      [count = static_cast<std::size_t>(batch_) * out[0], width = std::size_t{out[1]},
       vocabulary = std::size_t{graph_.vocabulary}, accumulate, from = source.memory,
       above = above.memory, dweight = parameter_gradient(embedding.weight).memory] {
        embed_backward(count, width, vocabulary, accumulate, tokens(from), floats(above),
                       floats(dweight));
      },
      {source, above});
}

Planner::Value Planner::forward_of(std::size_t op, const Positions& positions, Value source) {
  source = convert(source, plain(op_at(op).in));
  Value result = may_overwrite(op_at(op).inputs.front()) ? source : make(source.memory.get_desc());
  call([count = static_cast<std::size_t>(batch_), row = elements(op_at(op).in),
        from = source.memory, weight = parameter(positions.weight).memory,
        to = result.memory] { add_row(count, row, floats(from), floats(weight), floats(to)); },
       {source, result});
  return result;
}

void Planner::backward_of(std::size_t op, const Positions& positions, Gradient gradient) {
  gradient = convert(gradient, plain(op_at(op).in));
  call(
      [count = static_cast<std::size_t>(batch_), row = elements(op_at(op).in),
       above = gradient.value.memory, dweight = parameter_gradient(positions.weight).memory] {
        sum_rows(count, row, floats(above), floats(dweight));
      },
      {gradient.value});
  give(op, gradient);
}

Planner::Value Planner::forward_of(std::size_t op, const Attention& attention, Value source) {
  source = convert(source, plain(op_at(op).in));
  const AttentionKernel kernel(attention, static_cast<std::size_t>(batch_), op_at(op).in[0], bf16_);
  Saved& saved = saved_[op];
  saved.source = source;
  saved.extra = make_floats(kernel.figure_floats());
  Value result = make(plain(op_at(op).out));
  const Value scratch = make_floats(kernel.scratch_floats(threads_));
  call(
      [kernel, from = source.memory, to = result.memory, figures = saved.extra.memory,
       scratch = scratch.memory] {
        kernel.forward(floats(from), floats(to), floats(figures), floats(scratch));
      },
      {source, result, saved.extra, scratch});
  return result;
}

void Planner::backward_of(std::size_t op, const Attention& attention, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const AttentionKernel kernel(attention, static_cast<std::size_t>(batch_), op_at(op).in[0], bf16_);
  const Saved& saved = saved_[op];
  const Value above = convert(gradient.value, plain(op_at(op).out));
  const Value result = make(saved.source.memory.get_desc());
  const Value scratch = make_floats(kernel.scratch_floats(threads_));
  call(
      [kernel, from = saved.source.memory, made = kept_result(op).memory,
       figures = saved.extra.memory, above = above.memory, to = result.memory,
       scratch = scratch.memory] {
        kernel.backward(floats(from), floats(made), floats(figures), floats(above), floats(to),
                        floats(scratch));
      },
      {saved.source, kept_result(op), saved.extra, above, result, scratch});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const SwiGlu&, Value source) {
  source = convert(source, plain(op_at(op).in));
  saved_[op].source = source;
  Value result = make(plain(op_at(op).out));
  call([count = floats_of(result.memory) / op_at(op).out.back(),
        width = std::size_t{op_at(op).out.back()}, from = source.memory,
        to = result.memory] { swiglu(count, width, floats(from), floats(to)); },
       {source, result});
  return result;
}

void Planner::backward_of(std::size_t op, const SwiGlu&, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const Saved& saved = saved_[op];
  const Value above = convert(gradient.value, plain(op_at(op).out));
  const Value result = make(saved.source.memory.get_desc());
  call(
      [count = floats_of(above.memory) / op_at(op).out.back(),
       width = std::size_t{op_at(op).out.back()}, from = saved.source.memory, above = above.memory,
       to = result.memory] {
        swiglu_backward(count, width, floats(from), floats(above), floats(to));
      },
      {saved.source, above, result});
  give(op, {result});
}

}  // namespace starling::compute::cpu
