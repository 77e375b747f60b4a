// The planner's part for images: convolutions, batch norms and pools.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "compute/cpu/batch_norm.hpp"
#include "compute/cpu/gemm_bf16.hpp"
#include "compute/cpu/max_pool.hpp"
#include "compute/cpu/planner.hpp"

namespace starling::compute::cpu {

using dnnl::memory;

namespace {

using Tag = memory::format_tag;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kAverage = dnnl::algorithm::pooling_avg_exclude_padding;

constexpr auto kFloat32 = memory::data_type::f32;

/// A layout that oneDNN may choose.
memory::desc any(const memory::dims& sides, memory::data_type type = kFloat32) {
  return {sides, type, Tag::any};
}

/// make(type) for bfloat16 if that is requested and oneDNN does it with the instructions of our
/// products, otherwise for float32.
template <class Make>
auto described(bool bf16, const Make& make) {
  if (bf16) {
    auto desc = make(memory::data_type::bf16);
    const std::string_view name = desc.impl_info_str();
    if (name.find(bf16_kernels().front()->name) != std::string_view::npos) return desc;
  }
  return make(kFloat32);
}

memory::dims both(std::uint32_t side) { return {side, side}; }

/// A convolution's arguments for oneDNN.
struct ConvolutionSides {
  memory::dims weight;  ///< OIHW, or GOIHW for several groups
  memory::dims stride, dilation, padding;
};

ConvolutionSides convolution_sides(const Graph& graph, const Conv2d& conv) {
  memory::dims weight = sides_of(graph.tensors[conv.weight].shape);
  if (conv.groups > 1) {
    weight.front() /= conv.groups;
    weight.insert(weight.begin(), conv.groups);
  }
  return {std::move(weight), both(conv.stride), both(conv.dilation - 1), both(conv.padding)};
}

memory::desc bias_of(const Graph& graph, const Conv2d& conv) {
  if (conv.bias == kNoTensor) return {};
  return dense(sides_of(graph.tensors[conv.bias].shape));
}

/// A layout that our kernels support, with this many channels side by side.
struct PlaneLayout {
  Tag tag;
  std::size_t block;
};

/// The layout of images if it is one of these, otherwise the plain one, for a conversion.
PlaneLayout plane_layout(const memory::desc& desc) {
  for (const PlaneLayout layout :
       {PlaneLayout{Tag::aBcd8b, 8}, PlaneLayout{Tag::aBcd16b, 16},
        PlaneLayout{Tag::acdb, static_cast<std::size_t>(desc.dims()[1])}}) {
    if (desc == dense(desc.dims(), layout.tag)) return layout;
  }
  return {Tag::abcd, 1};
}

// With fewer channels, or sides of the result that leave most of a tile empty, the transforms cost
// more than they save.
constexpr std::uint32_t kWinogradChannelsMin = 16;
constexpr std::uint32_t kWinogradSideMin = 3;

/// The convolution for Winograd's algorithm, if that is possible and faster.
std::optional<WinogradShape> winograd_shape(const Op& op, const Conv2d& conv,
                                            const memory::desc& source) {
  const std::uint32_t in = op.in[0];
  const std::uint32_t out = op.out[0];
  if (conv.kernel != 3 || conv.stride != 1 || conv.dilation != 1 || conv.groups != 1 ||
      conv.padding > 2 || std::min(in, out) < kWinogradChannelsMin ||
      std::min(op.out[1], op.out[2]) < kWinogradSideMin) {
    return std::nullopt;
  }
  // Any other layout is converted: a plain one, and one with all channels side by side, as an image
  // of one point has.
  const std::size_t block = plane_layout(source).block == 16 ? 16 : 8;
  if (in % block != 0 || out % block != 0) return std::nullopt;
  return WinogradShape{.samples = static_cast<std::size_t>(source.dims().front()),
                       .in_channels = in,
                       .out_channels = out,
                       .height = op.in[1],
                       .width = op.in[2],
                       .padding = conv.padding,
                       .block = block};
}

/// Whether oneDNN's convolution in bfloat16 is faster than the alternatives in float32. It beats
/// oneDNN's own, unless there is one channel, which is paired with zeros. It beats Winograd's,
/// which multiplies a fourth as often, if the transforms take most of the time: those of values
/// (few channels) or those of weights (few tiles). Measured on Zen 4 with AVX-512.
bool gains_from_rounding(const Op& op, const Conv2d& conv,
                         const std::optional<WinogradShape>& winograd) {
  if (bf16_kernels().front()->suits_every_convolution) return true;
  if (!winograd) return op.in[0] > conv.groups;
  const auto [few, many] = std::minmax(winograd->in_channels, winograd->out_channels);
  return (few <= 16 && many <= 32) || winograd->tiles() <= std::min<std::size_t>(few / 8, 64);
}

memory::desc blocked(const memory::dims& sides, std::size_t block) {
  ASSERT(block == 8 || block == 16);
  return dense(sides, block == 16 ? Tag::aBcd16b : Tag::aBcd8b);
}

MaxPoolShape max_pool_shape(const Op& op, const MaxPool2d& pool, const memory& source) {
  const std::size_t block = plane_layout(source.get_desc()).block;
  return {.planes = floats_of(source) / op.in[1] / op.in[2] / block,
          .block = block,
          .height = op.in[1],
          .width = op.in[2],
          .out_height = op.out[1],
          .out_width = op.out[2],
          .kernel = pool.kernel,
          .stride = pool.stride,
          .padding = pool.padding};
}

/// Windows of an average pool for oneDNN.
struct AverageSides {
  memory::dims kernel, stride;
  memory::dims far;  ///< padding at the far sides: negative if windows leave a rest
  Shape out;
};

AverageSides average_sides(const Op& op) {
  const memory::dim height = op.in[1];
  const memory::dim width = op.in[2];
  const auto* const pool = std::get_if<AveragePool2d>(&op.kind);
  if (pool == nullptr) return {{height, width}, both(1), {0, 0}, {op.in[0], 1, 1}};
  const auto far = [pool](memory::dim side, memory::dim places) {
    return (places - 1) * pool->stride + pool->kernel - side;
  };
  return {both(pool->kernel),
          both(pool->stride),
          {far(height, op.out[1]), far(width, op.out[2])},
          op.out};
}

std::int32_t* integers(const memory& values) {
  return static_cast<std::int32_t*>(values.get_data_handle());
}

BatchNormShape batch_norm_shape(const Op& op, const BatchNorm& norm, bool relu,
                                const memory& source) {
  const memory::desc desc = source.get_desc();
  const bool image = op.in.size() == 3;
  const std::size_t block = image ? plane_layout(desc).block : op.in[0];
  const std::size_t points = image ? std::size_t{op.in[1]} * op.in[2] : 1;
  const auto samples = static_cast<std::size_t>(desc.dims().front());
  return {.samples = samples,
          .planes = floats_of(source) / samples / points / block,
          .points = points,
          .block = block,
          .channels = op.in[0],
          .epsilon = norm.epsilon,
          .momentum = norm.momentum,
          .relu = relu};
}

}  // namespace

Planner::Value Planner::forward_of(std::size_t op, const Conv2d& conv, const Value& source) {
  Saved& saved = saved_[op];
  saved.winograd = winograd_shape(op_at(op), conv, source.memory.get_desc());
  const bool bf16 = bf16_ && gains_from_rounding(op_at(op), conv, saved.winograd);
  const ConvolutionSides sides = convolution_sides(graph_, conv);
  const auto desc = described(bf16, [&](memory::data_type type) {
    return dnnl::convolution_forward::primitive_desc(
        {kTraining, kDirect, any(dims(op_at(op).in), type), any(sides.weight, type),
         bias_of(graph_, conv), any(dims(op_at(op).out)), sides.stride, sides.dilation,
         sides.padding, sides.padding},
        attributes(flow_.does_relu(op)), plan_.engine());
  });
  if (desc.src_desc().data_type() != kFloat32) saved.winograd = {};
  if (saved.winograd) return forward_winograd(op, conv, source);
  saved.convolution = desc;
  saved.source = convert(source, desc.src_desc());
  saved.weight = convert(parameter(conv.weight, dense(sides.weight)), desc.weights_desc());
  Value result = make(desc.dst_desc());
  if (conv.bias == kNoTensor) {
    call(dnnl::convolution_forward(desc), desc.scratchpad_desc(),
         {{DNNL_ARG_SRC, saved.source}, {DNNL_ARG_WEIGHTS, saved.weight}, {DNNL_ARG_DST, result}});
  } else {
    call(dnnl::convolution_forward(desc), desc.scratchpad_desc(),
         {{DNNL_ARG_SRC, saved.source},
          {DNNL_ARG_WEIGHTS, saved.weight},
          {DNNL_ARG_BIAS, parameter(conv.bias)},
          {DNNL_ARG_DST, result}});
  }
  return result;
}

void Planner::backward_of(std::size_t op, const Conv2d& conv, const Gradient& gradient) {
  if (saved_[op].winograd) return backward_winograd(op, conv, gradient);
  const ConvolutionSides sides = convolution_sides(graph_, conv);
  const Saved& saved = saved_[op];
  const bool bf16 = bf16_ && gains_from_rounding(op_at(op), conv, {});
  Value above = gradient.value;  // in the last primitive's layout
  {
    const auto desc = described(bf16, [&](memory::data_type type) {
      return dnnl::convolution_backward_weights::primitive_desc(
          {kDirect, any(dims(op_at(op).in), type), any(sides.weight), bias_of(graph_, conv),
           any(dims(op_at(op).out), type), sides.stride, sides.dilation, sides.padding,
           sides.padding},
          attributes(), plan_.engine(), saved.convolution);
    });
    const Value target = parameter_gradient(conv.weight, dense(sides.weight));
    const bool direct = desc.diff_weights_desc() == target.memory.get_desc();
    const Value blocked = direct ? target : make(desc.diff_weights_desc());
    const Value source = convert(saved.source, desc.src_desc());
    above = convert(above, desc.diff_dst_desc());
    if (conv.bias == kNoTensor) {
      call(dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
           {{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_DIFF_WEIGHTS, blocked}});
    } else {
      call(dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
           {{DNNL_ARG_SRC, source},
            {DNNL_ARG_DIFF_DST, above},
            {DNNL_ARG_DIFF_WEIGHTS, blocked},
            {DNNL_ARG_DIFF_BIAS, parameter_gradient(conv.bias)}});
    }
    if (!direct) reorder(blocked, target);
  }
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const auto desc = described(bf16, [&](memory::data_type type) {
    return dnnl::convolution_backward_data::primitive_desc(
        {kDirect, any(dims(op_at(op).in)), any(sides.weight, type), any(dims(op_at(op).out), type),
         sides.stride, sides.dilation, sides.padding, sides.padding},
        attributes(), plan_.engine(), saved.convolution);
  });
  const Value converted =
      convert(desc.diff_dst_desc() == above.memory.get_desc() ? above : gradient.value,
              desc.diff_dst_desc());
  const Value weights =
      desc.weights_desc() == saved.weight.memory.get_desc()
          ? saved.weight
          : convert(parameter(conv.weight, dense(sides.weight)), desc.weights_desc());
  const Value result = make(desc.diff_src_desc());
  call(dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_DIFF_DST, converted}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, result}});
  give(op, {result});
}

Planner::Value Planner::forward_winograd(std::size_t op, const Conv2d& conv, const Value& source) {
  Saved& saved = saved_[op];
  const WinogradShape shape = *saved.winograd;
  saved.source = convert(source, blocked(dims(op_at(op).in), shape.block));
  const Value weights = make_floats(winograd_weights_size(shape));
  const Value scratch = make_floats(winograd_scratch_size(shape, threads_));
  Value result = make(blocked(dims(op_at(op).out), shape.block));
  const memory bias = conv.bias == kNoTensor ? memory() : parameter(conv.bias).memory;
  call(
      [shape, threads = threads_, relu = flow_.does_relu(op), from = saved.source.memory,
       weight = parameter(conv.weight).memory, bias, weights = weights.memory,
       scratch = scratch.memory, to = result.memory] {
        winograd_weights(shape, WinogradPass::forward, floats(weight), floats(weights));
        winograd_forward(shape, floats(from), floats(weights), bias ? floats(bias) : nullptr, relu,
                         floats(to), floats(scratch), threads);
      },
      {saved.source, weights, scratch, result});
  return result;
}

void Planner::backward_winograd(std::size_t op, const Conv2d& conv, Gradient gradient) {
  const Saved& saved = saved_[op];
  const WinogradShape shape = *saved.winograd;
  gradient = convert(gradient, blocked(dims(op_at(op).out), shape.block));
  const Value above = gradient.value;
  {
    const Value scratch = make_floats(winograd_gradient_scratch_size(shape, threads_));
    const memory dbias = conv.bias == kNoTensor ? memory() : parameter_gradient(conv.bias).memory;
    call(
        [shape, threads = threads_, from = saved.source.memory, above = above.memory,
         dweight = parameter_gradient(conv.weight).memory, dbias, scratch = scratch.memory] {
          winograd_backward_weights(shape, floats(from), floats(above), floats(dweight),
                                    dbias ? floats(dbias) : nullptr, floats(scratch), threads);
        },
        {saved.source, above, scratch});
  }
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const WinogradShape back = shape.backward();
  const Value weights = make_floats(winograd_weights_size(back));
  const Value scratch = make_floats(winograd_scratch_size(back, threads_));
  const Value result = make(saved.source.memory.get_desc());
  call(
      [back, threads = threads_, above = above.memory, weight = parameter(conv.weight).memory,
       weights = weights.memory, scratch = scratch.memory, to = result.memory] {
        winograd_weights(back, WinogradPass::backward, floats(weight), floats(weights));
        winograd_forward(back, floats(above), floats(weights), nullptr, false, floats(to),
                         floats(scratch), threads);
      },
      {above, weights, scratch, result});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const BatchNorm& norm, Value source) {
  const bool image = op_at(op).in.size() == 3;
  source =
      convert(source, image ? dense(dims(op_at(op).in), plane_layout(source.memory.get_desc()).tag)
                            : plain(op_at(op).in));
  const BatchNormShape shape =
      batch_norm_shape(op_at(op), norm, flow_.does_relu(op), source.memory);
  const Value weight = parameter(norm.weight);
  const Value bias = parameter(norm.bias);
  const Value mean = running(norm.mean);
  const Value variance = running(norm.variance);
  if (!training_) {
    Value result =
        may_overwrite(op_at(op).inputs.front()) ? source : make(source.memory.get_desc());
    call(
        [shape, from = source.memory, weight = weight.memory, bias = bias.memory,
         mean = mean.memory, variance = variance.memory, to = result.memory] {
          batch_norm_evaluate(shape, floats(from), {floats(weight), floats(bias)}, floats(mean),
                              floats(variance), floats(to));
        },
        {source, result});
    return result;
  }
  Saved& saved = saved_[op];
  saved.source = source;
  saved.extra = make_floats(2 * shape.channels);
  Value result = make(source.memory.get_desc());
  call(
      [shape, step = &plan_.step(), from = source.memory, weight = weight.memory,
       bias = bias.memory, mean = mean.memory, variance = variance.memory, to = result.memory,
       figures = saved.extra.memory] {
        batch_norm_train(shape, step->count, floats(from), {floats(weight), floats(bias)},
                         floats(mean), floats(variance), floats(to), floats(figures));
      },
      {source, result, saved.extra});
  return result;
}

void Planner::backward_of(std::size_t op, const BatchNorm& norm, Gradient gradient) {
  const Saved& saved = saved_[op];
  gradient = convert(gradient, saved.source.memory.get_desc());
  const Value result = writable(gradient);
  const BatchNormShape shape =
      batch_norm_shape(op_at(op), norm, flow_.does_relu(op), saved.source.memory);
  const Value& made = shape.relu ? kept_result(op) : saved.source;  // only used for the ReLU
  call(
      [shape, step = &plan_.step(), from = saved.source.memory, made = made.memory,
       weight = parameter(norm.weight).memory, figures = saved.extra.memory,
       above = gradient.value.memory, to = result.memory,
       dweight = parameter_gradient(norm.weight).memory,
       dbias = parameter_gradient(norm.bias).memory] {
        batch_norm_backward(shape, step->count, floats(from), floats(made), floats(weight),
                            floats(figures), floats(above), floats(to), floats(dweight),
                            floats(dbias));
      },
      {saved.source, made, saved.extra, gradient.value, result});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const MaxPool2d& pool, Value source) {
  const PlaneLayout layout = plane_layout(source.memory.get_desc());
  source = convert(source, dense(dims(op_at(op).in), layout.tag));
  Saved& saved = saved_[op];
  saved.source = source;
  Value result = make(dense(dims(op_at(op).out), layout.tag));
  saved.extra = make({dims(op_at(op).out), memory::data_type::s32, layout.tag});
  const ValueId input = op_at(op).inputs.front();
  const bool after_relu = input != kGraphInput && pool_undoes(input);
  call(
      [shape = max_pool_shape(op_at(op), pool, source.memory), after_relu, from = source.memory,
       to = result.memory, chosen = saved.extra.memory] {
        max_pool_forward(shape, after_relu, floats(from), floats(to), integers(chosen));
      },
      {source, result, saved.extra});
  return result;
}

void Planner::backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient) {
  const Saved& saved = saved_[op];
  const Value above = convert(gradient.value, saved.result.memory.get_desc());
  const Value result = make(saved.source.memory.get_desc());
  call(
      [shape = max_pool_shape(op_at(op), pool, saved.source.memory), from = above.memory,
       to = result.memory, chosen = saved.extra.memory] {
        max_pool_backward(shape, floats(from), integers(chosen), floats(to));
      },
      {above, result, saved.extra});
  give(op, {result});
}

Planner::Value Planner::forward_of(std::size_t op, const AveragePool2d&, const Value& source) {
  return pool_average(op, source);
}

Planner::Value Planner::forward_of(std::size_t op, const GlobalAveragePool&, const Value& source) {
  const Shape& in = op_at(op).in;
  const Value result = pool_average(op, source);
  return reshape(convert(result, plain({in[0], 1, 1})), dims(op_at(op).out));
}

void Planner::backward_of(std::size_t op, const AveragePool2d&, const Gradient& gradient) {
  give(op, {pool_average_backward(op, gradient.value)});
}

void Planner::backward_of(std::size_t op, const GlobalAveragePool&, const Gradient& gradient) {
  const Value flat = convert(gradient.value, plain(op_at(op).out));
  give(op, {pool_average_backward(op, reshape(flat, dims({op_at(op).in[0], 1, 1})))});
}

Planner::Value Planner::pool_average(std::size_t op, const Value& source) {
  const AverageSides sides = average_sides(op_at(op));
  Saved& saved = saved_[op];
  saved.source = source;
  saved.pooling = dnnl::pooling_forward::primitive_desc({kTraining,
                                                         kAverage,
                                                         source.memory.get_desc(),
                                                         any(dims(sides.out)),
                                                         sides.stride,
                                                         sides.kernel,
                                                         {0, 0},
                                                         sides.far},
                                                        attributes(), plan_.engine());
  Value result = make(saved.pooling.dst_desc());
  call(dnnl::pooling_forward(saved.pooling), saved.pooling.scratchpad_desc(),
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, result}});
  return result;
}

Planner::Value Planner::pool_average_backward(std::size_t op, const Value& gradient) {
  const AverageSides sides = average_sides(op_at(op));
  const Saved& saved = saved_[op];
  const Value above = convert(gradient, saved.pooling.dst_desc());
  Value result = make(saved.source.memory.get_desc());
  const dnnl::pooling_backward::primitive_desc desc({kAverage,
                                                     result.memory.get_desc(),
                                                     saved.pooling.dst_desc(),
                                                     sides.stride,
                                                     sides.kernel,
                                                     {0, 0},
                                                     sides.far},
                                                    attributes(), plan_.engine(), saved.pooling);
  call(dnnl::pooling_backward(desc), desc.scratchpad_desc(),
       {{DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

}  // namespace starling::compute::cpu
