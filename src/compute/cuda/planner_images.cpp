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

// Factors that are not rounded yet are; the one that is written is what it has to be.
void Planner::convolve(std::size_t op, const Convolution& what, const Value& x, const Value& w,
                       const Value& y) {
  const Value own_x = factor(op, x);
  const Value own_w = factor(op, w);
  const Value own_y = factor(op, y);
  call(op, {own_x, own_w, own_y}, [=](const Addresses& at) {
    Convolution convolution = what;
    convolution.x = at.at(own_x);
    convolution.w = at.at(own_w);
    convolution.y = at.at(own_y);
    return convolution;
  });
}

Value Planner::forward_of(std::size_t op, const Conv2d& conv, const Value& source) {
  const Value x = kept_factor(op, source);
  saved_[op].source = x;
  const Value y = make_product(all(op_at(op).out));
  const Value weight = parameter(conv.weight);
  convolve(op, convolution_of(op, conv), x, weight, y);
  const bool has_bias = conv.bias != kNoTensor;
  const bool relu = flow_.does_relu(op);
  if (!has_bias && !relu) return y;
  const Value bias = has_bias ? parameter(conv.bias) : weight;
  const Shape& out = op_at(op).out;
  const Made made = rounds_ ? make_wanted(op, y.count) : Made{.exact = y, .rounded = {}};
  kernel(op, {y, bias, made.first(), made.second()}, y.count,
         [=, points = std::size_t{out[1]} * out[2],
          channels = std::size_t{out[0]}](const Addresses& at) -> Kernel {
           return FinishImage{points,     channels, has_bias ? at.at(bias) : nullptr,
                              relu,       y.count,  at.floats(y),
                              made.at(at)};
         });
  return keep(made);
}

void Planner::backward_of(std::size_t op, const Conv2d& conv, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const Value above = gradient.value;
  const Value dweight = parameter_gradient(conv.weight);
  Convolution what = convolution_of(op, conv);
  what.kind = Convolution::Kind::weight_gradient;
  const Value made = rounds_ ? make_rounded(dweight.count) : dweight;
  convolve(op, what, source, made, above);
  if (rounds_) {
    kernel(op, {made, dweight}, dweight.count, [=](const Addresses& at) -> Kernel {
      return Convert{dweight.count, at.floats(made), at.to(dweight)};
    });
  }
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
  const Value result = make_product(source.count);
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
  saved_[op].source = source;
  saved_[op].extra = figures;
  if (training_) {
    const Value parts = make(floats_of<Pair>(chunks(channels)));
    kernel_of_chunks(op, {source, parts}, channels,
                     [=, step = plan_.step](const Addresses& at) -> Kernel {
                       return BatchNormSums{channels, at.at<StepState>(step), at.floats(source),
                                            at.at<Pair>(parts)};
                     });
    kernel_of_channels(op, {source, parts, weight, bias, mean, variance, figures}, channels,
                       [=, step = plan_.step, epsilon = norm.epsilon,
                        momentum = norm.momentum](const Addresses& at) -> Kernel {
                         return BatchNormStatistics{channels,
                                                    at.at<StepState>(step),
                                                    epsilon,
                                                    momentum,
                                                    at.floats(source),
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
  unfinished_[op] = std::nullopt;
  if (is_left_to_sum(op)) {
    unfinished_[op] = Unfinished{source, figures};
    return source;
  }
  const Made made = make_wanted(op, source.count);
  kernel(op, {source, figures, made.first(), made.second()}, source.count,
         [=, relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
           return BatchNormApply{
               channels,   at.at<ChannelFigures>(figures), relu, source.count, at.floats(source),
               made.at(at)};
         });
  return keep(made);
}

bool Planner::is_left_to_sum(std::size_t op) const {
  if (users_[op].size() != 1 || op + 1 == graph_.ops.size()) return false;
  return std::holds_alternative<Add>(op_at(users_[op].front()).kind);
}

// `other` is what b has instead, where that is a norm's, too.
void Planner::sum_normalised(std::size_t op, const Unfinished& a, const Value& b,
                             const std::optional<Unfinished>& other, const Made& to) {
  const Unfinished second = other.value_or(Unfinished{b, a.figures});
  kernel(op, {a.source, a.figures, second.source, second.figures, to.first(), to.second()},
         a.source.count,
         [=, has_figures = other.has_value(), channels = channels_of(op_at(op)),
          relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
           return SumNormalised{channels,
                                relu,
                                a.source.count,
                                at.floats(a.source),
                                at.at<ChannelFigures>(a.figures),
                                at.floats(second.source),
                                has_figures ? at.at<ChannelFigures>(second.figures) : nullptr,
                                to.at(at)};
         });
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
  const bool relu = flow_.does_relu(op);
  kernel_of_chunks(op, {source, figures, above, parts}, channels,
                   [=, step = plan_.step](const Addresses& at) -> Kernel {
                     return BatchNormGradientSums{
                         channels,          at.at<StepState>(step), relu,
                         at.floats(source), at.floats(above),       at.at<ChannelFigures>(figures),
                         at.at<Pair>(parts)};
                   });
  kernel_of_channels(op, {parts, weight, figures, dweight, dbias}, channels,
                     [=, step = plan_.step](const Addresses& at) -> Kernel {
                       return BatchNormGradients{
                           channels,      at.at<StepState>(step),         at.at<Pair>(parts),
                           at.at(weight), at.at<ChannelFigures>(figures), at.at(dweight),
                           at.at(dbias)};
                     });
  const ValueId input = op_at(op).inputs.front();
  if (!flow_.needs_gradient(input)) return;
  const Value result = is_factor_only(input) ? make_rounded(source.count) : writable(gradient);
  kernel(op, {source, figures, above, result}, source.count,
         [=, step = plan_.step](const Addresses& at) -> Kernel {
           return BatchNormBackward{channels,
                                    at.at<StepState>(step),
                                    at.at<ChannelFigures>(figures),
                                    relu,
                                    source.count,
                                    at.floats(source),
                                    at.floats(above),
                                    at.to(result)};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const MaxPool2d& pool, const Value& source) {
  const Made made = make_wanted(op, all(op_at(op).out));
  const Value chosen = make(made.first().count);
  saved_[op].source = source;
  saved_[op].extra = chosen;
  kernel(
      op, {source, made.first(), made.second(), chosen}, chosen.count,
      [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
        return MaxPoolForward{window, at.floats(source), made.at(at), at.at<std::int32_t>(chosen)};
      });
  return keep(made);
}

void Planner::backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient) {
  const Value chosen = saved_[op].extra;
  const Value above = gradient.value;
  const Value result = make(saved_[op].source.count);
  kernel(op, {above, chosen, result}, result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           return MaxPoolBackward{window, at.floats(above), at.at<std::int32_t>(chosen),
                                  at.at(result)};
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
