#include <algorithm>
#include <utility>

#include "compute/cuda/planner.hpp"

namespace starling::compute::cuda {

namespace {

Channels channels_of(const Op& op) {
  return {.points = op.in.size() == 3 ? std::size_t{op.in[1]} * op.in[2] : 1, .channels = op.in[0]};
}

Window window_of(const Op& op, std::size_t kernel, std::size_t stride, std::size_t padding) {
  return {.height = op.in[1],
          .width = op.in[2],
          .out_height = op.out[1],
          .out_width = op.out[2],
          .kernel = kernel,
          .stride = stride,
          .padding = padding};
}

Window window_of(const Op& op, const MaxPool2d& pool) {
  return window_of(op, pool.kernel, pool.stride, pool.padding);
}

Window window_of(const Op& op, const AveragePool2d& pool) {
  return window_of(op, pool.kernel, pool.stride, 0);
}

/// Floats in whose place so many Ts fit.
template <class T>
std::size_t floats_of(std::size_t count) {
  return count * sizeof(T) / sizeof(float);
}

}  // namespace

Convolution Planner::convolution_of(std::size_t op, const Conv2d& conv) const {
  const Shape& in = op_at(op).in;
  const Shape& out = op_at(op).out;
  Convolution result;
  result.samples = batch_;
  result.in_channels = in[0];
  result.height = in[1];
  result.width = in[2];
  result.out_channels = out[0];
  result.out_height = out[1];
  result.out_width = out[2];
  result.kernel = conv.kernel;
  result.stride = conv.stride;
  result.padding = conv.padding;
  result.dilation = conv.dilation;
  result.groups = conv.groups;
  result.rounded = rounds_;
  return result;
}

void Planner::convolve(std::size_t op, const Convolution& what, const Value& x, const Value& w,
                       const Value& y) {
  using Kind = Convolution::Kind;
  const Value& to = what.kind == Kind::forward ? y : what.kind == Kind::source_gradient ? x : w;
  const Value made = rounds_ ? make_rounded(to.count) : to;
  const auto taken = [&](const Value& value) { return &value == &to ? made : factor(op, value); };
  const Value own_x = taken(x);
  const Value own_w = taken(w);
  const Value own_y = taken(y);
  call(op, {own_x, own_w, own_y}, [=](const Addresses& at) {
    Convolution convolution = what;
    convolution.x = at.at(own_x);
    convolution.w = at.at(own_w);
    convolution.y = at.at(own_y);
    return convolution;
  });
  if (!rounds_) return;
  kernel(op, {made, to}, to.count, [made, to = Value(to)](const Addresses& at) -> Kernel {
    return Widen{at.at<std::uint16_t>(made), at.at(to)};
  });
}

Value Planner::forward_of(std::size_t op, const Conv2d& conv, const Value& source) {
  saved_[op].source = source;
  const Value result = make(all(op_at(op).out));
  const Value weight = parameter(conv.weight);
  convolve(op, convolution_of(op, conv), source, weight, result);
  const bool has_bias = conv.bias != kNoTensor;
  const bool relu = flow_.does_relu(op);
  if (!has_bias && !relu) return result;
  const Value bias = has_bias ? parameter(conv.bias) : weight;
  const Shape& out = op_at(op).out;
  kernel(
      op, {result, bias}, result.count,
      [=, points = std::size_t{out[1]} * out[2],
       channels = std::size_t{out[0]}](const Addresses& at) -> Kernel {
        return FinishImage{points, channels, has_bias ? at.at(bias) : nullptr, relu, at.at(result)};
      });
  return result;
}

void Planner::backward_of(std::size_t op, const Conv2d& conv, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const Value above = gradient.value;
  const Value dweight = parameter_gradient(conv.weight);
  Convolution what = convolution_of(op, conv);
  what.kind = Convolution::Kind::weight_gradient;
  convolve(op, what, source, dweight, above);
  if (conv.bias != kNoTensor) {
    const Shape& out = op_at(op).out;
    const Channels channels{.points = std::size_t{out[1]} * out[2], .channels = out[0]};
    const Value dbias = parameter_gradient(conv.bias);
    const Value parts = make(floats_of<double>(chunks(channels)));
    kernel_of_chunks(op, {above, parts}, channels,
                     [=, samples = batch_](const Addresses& at) -> Kernel {
                       return ChannelSums{channels, samples, at.at(above), at.at<double>(parts)};
                     });
    kernel_of_channels(
        op, {parts, dbias}, channels, [=, samples = batch_](const Addresses& at) -> Kernel {
          return JoinChannelSums{channels, samples, at.at<double>(parts), at.at(dbias)};
        });
  }
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const Value weight = parameter(conv.weight);
  const Value result = make(source.count);
  what.kind = Convolution::Kind::source_gradient;
  convolve(op, what, result, weight, above);
  give(op, {result});
}

std::size_t Planner::chunks(const Channels& channels) const {
  return channels.channels * chunks_of(channels, batch_);
}

void Planner::kernel_of_chunks(std::size_t op, std::initializer_list<Value> touched,
                               const Channels& channels, MakeKernel make) {
  kernel(op, touched, chunks(channels), std::move(make),
         std::min(batch_ * channels.points, kChannelChunk));
}

void Planner::kernel_of_channels(std::size_t op, std::initializer_list<Value> touched,
                                 const Channels& channels, MakeKernel make) {
  kernel(op, touched, channels.channels, std::move(make), chunks_of(channels, batch_));
}

Value Planner::forward_of(std::size_t op, const BatchNorm& norm, const Value& source) {
  const Channels channels = channels_of(op_at(op));
  const Value weight = parameter(norm.weight);
  const Value bias = parameter(norm.bias);
  const Value mean = running(norm.mean);
  const Value variance = running(norm.variance);
  const Value figures = make(floats_of<ChannelFigures>(channels.channels));
  const Value result = make(source.count);
  saved_[op].source = source;
  saved_[op].extra = figures;
  if (training_) {
    const Value parts = make(floats_of<Pair>(chunks(channels)));
    kernel_of_chunks(
        op, {source, parts}, channels, [=, step = plan_.step](const Addresses& at) -> Kernel {
          return BatchNormSums{channels, at.at<StepState>(step), at.at(source), at.at<Pair>(parts)};
        });
    kernel_of_channels(op, {source, parts, weight, bias, mean, variance, figures}, channels,
                       [=, step = plan_.step, epsilon = norm.epsilon,
                        momentum = norm.momentum](const Addresses& at) -> Kernel {
                         return BatchNormStatistics{channels,
                                                    at.at<StepState>(step),
                                                    epsilon,
                                                    momentum,
                                                    at.at(source),
                                                    at.at<Pair>(parts),
                                                    at.at(weight),
                                                    at.at(bias),
                                                    at.at(mean),
                                                    at.at(variance),
                                                    at.at<ChannelFigures>(figures)};
                       });
  } else {
    kernel(op, {weight, bias, mean, variance, figures}, channels.channels,
           [=, epsilon = norm.epsilon](const Addresses& at) -> Kernel {
             return BatchNormEvaluate{epsilon,     at.at(weight),   at.at(bias),
                                      at.at(mean), at.at(variance), at.at<ChannelFigures>(figures)};
           });
  }
  kernel(op, {source, figures, result}, source.count,
         [=, relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
           return BatchNormApply{channels, at.at<ChannelFigures>(figures), relu, at.at(source),
                                 at.at(result)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const BatchNorm& norm, const Gradient& gradient) {
  const Channels channels = channels_of(op_at(op));
  const Value source = saved_[op].source;
  const Value figures = saved_[op].extra;
  const Value above = gradient.value;
  const Value weight = parameter(norm.weight);
  const Value dweight = parameter_gradient(norm.weight);
  const Value dbias = parameter_gradient(norm.bias);
  const Value parts = make(floats_of<Pair>(chunks(channels)));
  kernel_of_chunks(op, {source, figures, above, parts}, channels,
                   [=, step = plan_.step](const Addresses& at) -> Kernel {
                     return BatchNormGradientSums{
                         channels,     at.at<StepState>(step),         at.at(source),
                         at.at(above), at.at<ChannelFigures>(figures), at.at<Pair>(parts)};
                   });
  kernel_of_channels(op, {parts, weight, figures, dweight, dbias}, channels,
                     [=, step = plan_.step](const Addresses& at) -> Kernel {
                       return BatchNormGradients{
                           channels,      at.at<StepState>(step),         at.at<Pair>(parts),
                           at.at(weight), at.at<ChannelFigures>(figures), at.at(dweight),
                           at.at(dbias)};
                     });
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const Value result = writable(gradient);
  kernel(op, {source, figures, above, result}, source.count,
         [=, step = plan_.step](const Addresses& at) -> Kernel {
           return BatchNormBackward{
               channels,      at.at<StepState>(step), at.at<ChannelFigures>(figures),
               at.at(source), at.at(above),           at.at(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const MaxPool2d& pool, const Value& source) {
  const Value result = make(all(op_at(op).out));
  const Value chosen = make(result.count);
  saved_[op].source = source;
  saved_[op].extra = chosen;
  kernel(op, {source, result, chosen}, result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           return MaxPoolForward{window, at.at(source), at.at(result), at.at<std::int32_t>(chosen)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient) {
  const Value chosen = saved_[op].extra;
  const Value above = gradient.value;
  const Value result = make(saved_[op].source.count);
  kernel(op, {above, chosen, result}, result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           return MaxPoolBackward{window, at.at(above), at.at<std::int32_t>(chosen), at.at(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const AveragePool2d& pool, const Value& source) {
  const Value result = make(all(op_at(op).out));
  kernel(op, {source, result}, result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           return AveragePoolForward{window, at.at(source), at.at(result)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const AveragePool2d& pool, const Gradient& gradient) {
  const Value above = gradient.value;
  const Value result = make(all(op_at(op).in));
  kernel(op, {above, result}, result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           return AveragePoolBackward{window, at.at(above), at.at(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const GlobalAveragePool&, const Value& source) {
  const Value result = make(all(op_at(op).out));
  const std::size_t points = channels_of(op_at(op)).points;
  kernel(
      op, {source, result}, result.count,
      [=](const Addresses& at) -> Kernel {
        return PlaneMeans{points, at.at(source), at.at(result)};
      },
      points);
  return result;
}

void Planner::backward_of(std::size_t op, const GlobalAveragePool&, const Gradient& gradient) {
  const Value above = gradient.value;
  const Value result = make(all(op_at(op).in));
  const std::size_t points = channels_of(op_at(op)).points;
  kernel(op, {above, result}, result.count, [=](const Addresses& at) -> Kernel {
    return SpreadMean{points, at.at(above), at.at(result)};
  });
  give(op, {result});
}

}  // namespace starling::compute::cuda
