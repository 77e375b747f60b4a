#include <algorithm>
#include <utility>

#include "base/integer.hpp"
#include "cuda/plans/planner.hpp"

namespace starling::compute::cuda {

namespace {

/// `last`: as in the op's source.
Channels channels_of(const Op& op, bool last) {
  return {.points = op.in.size() == 3 ? std::size_t{op.in[1]} * op.in[2] : 1,
          .channels = op.in[0],
          .last = last};
}

/// A lane has about this many points: its channels' figures are read once for all of them.
constexpr std::size_t kPointsOfLane = 16;

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

/// The number of floats that take the room of `count` Ts.
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
  result.last = rounds_;
  return result;
}

// Images already have the right form; a gradient may have to be rounded, and weights to be laid
// out, too.
void Planner::convolve(std::size_t op, const Convolution& what, const Value& x, const Value& w,
                       const Value& y) {
  const auto side = static_cast<std::uint32_t>(what.kernel);
  const Shape window{static_cast<std::uint32_t>(what.group_in()), side, side};
  const Value own_x = factor(op, x);
  const Value own_w = formed(op, w, rounds_, rounds_, window);
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
  const Value y = make_image(all(op_at(op).out));
  const Value weight = parameter(conv.weight);
  convolve(op, convolution_of(op, conv), x, weight, y);
  const bool has_bias = conv.bias != kNoTensor;
  const bool relu = flow_.does_relu(op);
  if (!has_bias && !relu) return y;
  const Value bias = has_bias ? parameter(conv.bias) : weight;
  const Shape& out = op_at(op).out;
  const Made made = rounds_ ? make_wanted(op, y.count) : Made{.exact = y, .rounded = {}};
  kernel(op, {y, bias, made.first(), made.second()}, y.count,
         [=, points = y.last ? std::size_t{1} : std::size_t{out[1]} * out[2],
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
  const Value made = rounds_ ? make_image(dweight.count) : dweight;
  convolve(op, what, source, made, above);
  if (rounds_) convert(op, made, dweight, what.group_in(), what.kernel * what.kernel);
  const Shape& out = op_at(op).out;
  const Channels channels{.points = std::size_t{out[1]} * out[2], .channels = out[0]};
  if (conv.bias != kNoTensor && above.last) {
    sum_columns(op, {.rows = batch_ * channels.points,
                     .columns = channels.channels,
                     .dy = above,
                     .plain = parameter_gradient(conv.bias),
                     .normed = {},
                     .source = above,
                     .figures = above});
  } else if (conv.bias != kNoTensor) {
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
  const Value result = make_image(source.count);
  what.kind = Convolution::Kind::source_gradient;
  convolve(op, what, result, weight, above);
  give(op, {result});
}

std::size_t Planner::chunks(const Channels& channels) const {
  return channels.channels * chunks_of(channels, batch_);
}

void Planner::kernel_of_chunks(std::size_t op, std::initializer_list<Value> touched,
                               const Channels& channels, MakeKernel make) {
  if (channels.last) {
    return kernel(op, touched, chunks_of(channels, batch_) * TeamShape(channels.channels).teams,
                  std::move(make), kTeamLanes * kFour);
  }
  kernel(op, touched, chunks(channels), std::move(make),
         std::min(batch_ * channels.points, kChannelChunk));
}

Lanes Planner::lanes_of(const Channels& channels) const {
  const std::size_t points = batch_ * channels.points;
  return {points, channels.channels, base::ceil_div(points, kPointsOfLane)};
}

void Planner::kernel_of_channels(std::size_t op, std::initializer_list<Value> touched,
                                 const Channels& channels, MakeKernel make) {
  kernel(op, touched, channels.channels, std::move(make), chunks_of(channels, batch_));
}

Value Planner::forward_of(std::size_t op, const BatchNorm& norm, const Value& source) {
  const Channels channels = channels_of(op_at(op), source.last);
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
                       const auto* const state = at.at<StepState>(step);
                       auto* const sums = at.at<Pair>(parts);
                       if (channels.last)
                         return NormSumsLast{channels, state, at.floats(source), sums};
                       return BatchNormSums{channels, state, at.floats(source), sums};
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
  return normalise(op, channels, source, figures);
}

Value Planner::normalise(std::size_t op, const Channels& channels, const Value& source,
                         const Value& figures) {
  const Made made = make_wanted(op, source.count);
  const bool relu = flow_.does_relu(op);
  const Lanes lanes = lanes_of(channels);
  kernel(op, {source, figures, made.first(), made.second()},
         channels.last ? lanes.calls() : source.count, [=](const Addresses& at) -> Kernel {
           const auto* const of = at.at<ChannelFigures>(figures);
           if (channels.last) return NormLast{lanes, of, relu, at.floats(source), made.at(at)};
           return BatchNormApply{channels, of, relu, source.count, at.floats(source), made.at(at)};
         });
  return keep(made);
}

bool Planner::is_sum_of_images(std::size_t op) const {
  return works_last(op) && std::holds_alternative<Add>(op_at(op).kind);
}

bool Planner::is_mean_of_images(std::size_t op) const {
  return works_last(op) && std::holds_alternative<GlobalAveragePool>(op_at(op).kind);
}

bool Planner::is_left_to_sum(std::size_t op) const {
  if (users_[op].size() != 1 || op + 1 == graph_.ops.size()) return false;
  return std::holds_alternative<Add>(op_at(users_[op].front()).kind);
}

// `other` is set instead if b is also a norm's result.
void Planner::sum_normalised(std::size_t op, const Unfinished& a, const Value& b,
                             const std::optional<Unfinished>& other, const Made& to) {
  const Unfinished second = other.value_or(Unfinished{b, a.figures});
  const Channels channels = channels_of(op_at(op), a.source.last);
  const Lanes lanes = lanes_of(channels);
  const std::size_t count = a.source.count;
  kernel(op, {a.source, a.figures, second.source, second.figures, to.first(), to.second()},
         channels.last ? lanes.calls() : count,
         [=, has_figures = other.has_value(),
          relu = flow_.does_relu(op)](const Addresses& at) -> Kernel {
           const Floats first = at.floats(a.source);
           const Floats added = at.floats(second.source);
           const auto* const of = at.at<ChannelFigures>(a.figures);
           const auto* const of_added =
               has_figures ? at.at<ChannelFigures>(second.figures) : nullptr;
           if (channels.last) return SumLast{lanes, relu, first, of, added, of_added, to.at(at)};
           return SumNormalised{channels, relu, count, first, of, added, of_added, to.at(at)};
         });
}

void Planner::backward_of(std::size_t op, const BatchNorm& norm, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const Channels channels = channels_of(op_at(op), source.last);
  const Value figures = saved_[op].extra;
  const Value above = gradient.value;
  const Value weight = parameter(norm.weight);
  const Value dweight = parameter_gradient(norm.weight);
  const Value dbias = parameter_gradient(norm.bias);
  const Value parts = make(floats_of<Pair>(chunks(channels)));
  const bool relu = flow_.does_relu(op);
  kernel_of_chunks(op, {source, figures, above, parts}, channels,
                   [=, step = plan_.step](const Addresses& at) -> Kernel {
                     const auto* const state = at.at<StepState>(step);
                     const auto* const of = at.at<ChannelFigures>(figures);
                     const Floats x = at.floats(source);
                     const Floats dy = at.floats(above);
                     auto* const sums = at.at<Pair>(parts);
                     if (channels.last) {
                       return NormGradientSumsLast{channels, state, relu, x, dy, of, sums};
                     }
                     return BatchNormGradientSums{channels, state, relu, x, dy, of, sums};
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
  const Value result = writable_for(input, gradient);
  const Lanes lanes = lanes_of(channels);
  kernel(op, {source, figures, above, result}, channels.last ? lanes.calls() : source.count,
         [=, step = plan_.step](const Addresses& at) -> Kernel {
           const auto* const state = at.at<StepState>(step);
           const auto* const of = at.at<ChannelFigures>(figures);
           const Floats x = at.floats(source);
           const Floats dy = at.floats(above);
           const FloatsTo dx = at.to(result);
           if (channels.last) {
             return NormBackwardLast{lanes, channels.points, state, of, relu, x, dy, dx};
           }
           return BatchNormBackward{channels, state, of, relu, source.count, x, dy, dx};
         });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const MaxPool2d& pool, const Value& source) {
  const Made made = make_wanted(op, all(op_at(op).out));
  const Value chosen = make(made.first().count);
  saved_[op].source = source;
  saved_[op].extra = chosen;
  const std::size_t channels = op_at(op).in[0];
  const std::size_t calls = chosen.count / channels * groups_of(channels);
  kernel(op, {source, made.first(), made.second(), chosen}, source.last ? calls : chosen.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           const Floats x = at.floats(source);
           auto* const places = at.at<std::int32_t>(chosen);
           if (source.last) {
             return MaxPoolForwardLast{window, channels, x, made.at(at), places};
           }
           return MaxPoolForward{window, x, made.at(at), places};
         });
  return keep(made);
}

void Planner::backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const Value chosen = saved_[op].extra;
  const Value above = gradient.value;
  const Value result = laid(make(source.count), source.last);
  const std::size_t channels = op_at(op).in[0];
  const std::size_t calls = result.count / channels * groups_of(channels);
  kernel(op, {above, chosen, result}, source.last ? calls : result.count,
         [=, window = window_of(op_at(op), pool)](const Addresses& at) -> Kernel {
           const Floats dy = at.floats(above);
           const auto* const places = at.at<std::int32_t>(chosen);
           if (source.last) return MaxPoolBackwardLast{window, channels, dy, places, at.to(result)};
           return MaxPoolBackward{window, dy, places, at.at(result)};
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
  const auto [points, channels, last] = channels_of(op_at(op), source.last);
  saved_[op].source = source;
  kernel(
      op, {source, result}, result.count,
      [=, points = points, channels = channels, last = last](const Addresses& at) -> Kernel {
        if (last) return PointMeansLast{points, channels, at.floats(source), at.at(result)};
        return PlaneMeans{points, at.at(source), at.at(result)};
      },
      points);
  return result;
}

void Planner::backward_of(std::size_t op, const GlobalAveragePool&, const Gradient& gradient) {
  const Value above = gradient.value;
  const bool is_last = saved_[op].source.last;
  const Value result = laid(make(all(op_at(op).in)), is_last);
  const auto [points, channels, last] = channels_of(op_at(op), is_last);
  kernel(op, {above, result}, result.count,
         [=, points = points, channels = channels, last = last](const Addresses& at) -> Kernel {
           if (last) return SpreadMeanLast{points, channels, at.at(above), at.at(result)};
           return SpreadMean{points, at.at(above), at.at(result)};
         });
  give(op, {result});
}

}  // namespace starling::compute::cuda
