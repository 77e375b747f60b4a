// Kernels whose teams work on a row together: norms, sums of channels, softmax.
#pragma once

#include <cmath>

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/images.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

/// Mean of each plane of an image.
struct PlaneMeans {
  static constexpr bool kByRows = true;
  std::size_t points;
  const float* x;
  float* y;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const float* const plane = x + row * points;
    const float sum = team.sum(points, [=](std::size_t i) { return plane[i]; });
    if (team.leads()) y[row] = sum / static_cast<float>(points);
  }
};

/// The sum over `count` elements of `f` of their values in each of the sources, where number i lies
/// at at(i); `is_wide`: four neighbours always lie side by side, aligned.
template <class Team, class At, class F, class... Sources>
STARLING_BOTH Pair sum_of(const Team& team, std::size_t count, bool is_wide, const At& at,
                          const F& f, const Sources&... from) {
  if (!is_wide) {
    return team.sum(count, [&](std::size_t i) { return f(from[at(i)]...); });
  }
  return team.sum(count / kFour, [&](std::size_t i) {
    const auto add_up = [&f](const auto&... read) {
      Pair sum = f(read.of[0]...);
      for (std::size_t k = 1; k < kFour; ++k) sum += f(read.of[k]...);
      return sum;
    };
    return add_up(from.four(at(i * kFour))...);
  });
}

/// The same over a row's elements, with which the sources begin.
template <class Team, class F, class... Sources>
STARLING_BOTH Pair sum_of_row(const Team& team, std::size_t width, const F& f,
                              const Sources&... from) {
  return sum_of(
      team, width, width % kFour == 0, [](std::size_t i) { return i; }, f, from...);
}

/// A value's distance from an origin, and the square of that.
struct DistanceFrom {
  double origin;

  STARLING_BOTH Pair operator()(float value) const {
    const double difference = static_cast<double>(value) - origin;
    return {difference, difference * difference};
  }
};

/// Writes the results of `f` for them.
template <class Team, class F, class... Sources>
STARLING_BOTH void map_row(const Team& team, std::size_t width, const FloatsTo& to, const F& f,
                           const Sources&... from) {
  if (width % kFour != 0) {
    return team.each(width, [&](std::size_t i) { to.put(i, f(from[i]...)); });
  }
  team.each(width / kFour, [&](std::size_t i) {
    map_four(
        i * kFour, width, to, [&f](std::size_t, auto... values) { return f(values...); }, from...);
  });
}

/// Layer norm and RMS norm; leaves mean and 1 / deviation of each row. The variance takes one pass,
/// in double precision, like batch norm's (BatchNormSums).
struct RowNormForward {
  static constexpr bool kByRows = true;
  static constexpr bool kCrowded = true;
  bool centred;  ///< layer norm: the mean is subtracted
  std::size_t width;
  float epsilon;
  Floats x;
  const float* weight;
  const float* bias;  ///< null: none
  FloatsTo y;
  float* figures;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    x.visit([&](auto own) { norm(team, row, own.from(row * width)); });
  }

 private:
  template <class Team, class Source>
  STARLING_BOTH void norm(const Team& team, std::size_t row, const Source& from) const {
    const auto number = static_cast<double>(width);
    const double origin = centred ? static_cast<double>(from[0]) : 0.0;
    const Pair sums = sum_of_row(team, width, DistanceFrom{origin}, from);
    const double from_origin = centred ? sums.first / number : 0.0;
    const double squares = (sums.second - sums.first * from_origin) / number;
    const auto mean = static_cast<float>(origin + from_origin);
    const float variance = squares < 0 ? 0.0F : static_cast<float>(squares);  // NaN stays
    const float inverse = 1.0F / ::sqrtf(variance + epsilon);
    const bool has_bias = bias != nullptr;
    map_row(
        team, width, y.from(row * width),
        [=](float value, float factor, float shift) {
          const float normed = (value - mean) * inverse * factor;
          return has_bias ? normed + shift : normed;
        },
        from, FloatsAs<float>{weight}, FloatsAs<float>{has_bias ? bias : weight});
    if (!team.leads()) return;
    figures[2 * row] = mean;
    figures[2 * row + 1] = inverse;
  }
};

/// With h = (x - mean) / deviation and g = dy * weight: dx = (g - mean(g) - h mean(g h)) /
/// deviation, without the mean of g if it is not centred. dx may be dy, or `also`.
struct RowNormBackward {
  static constexpr bool kByRows = true;
  static constexpr bool kCrowded = true;
  bool centred;
  std::size_t width;
  Floats x;
  const float* weight;
  const float* figures;
  Floats dy;
  Floats also;  ///< added to dx; no data: nothing
  FloatsTo dx;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t begin = row * width;
    x.visit([&](auto source) {
      dy.visit([&](auto above) { go_back(team, row, source.from(begin), above.from(begin)); });
    });
  }

 private:
  template <class Team, class Source, class Above>
  STARLING_BOTH void go_back(const Team& team, std::size_t row, const Source& from,
                             const Above& above) const {
    const float mean = figures[2 * row];
    const float inverse = figures[2 * row + 1];
    const Pair sums = sum_of_row(
        team, width,
        [=](float value, float gradient, float factor) {
          const float scaled = gradient * factor;
          return Pair{static_cast<double>(scaled),
                      static_cast<double>(scaled * ((value - mean) * inverse))};
        },
        from, above, FloatsAs<float>{weight});
    const auto number = static_cast<double>(width);
    const float sum = centred ? static_cast<float>(sums.first / number) : 0.0F;
    const auto product = static_cast<float>(sums.second / number);
    const auto own = [=](float value, float gradient, float factor) {
      const float h = (value - mean) * inverse;
      return inverse * (gradient * factor - sum - h * product);
    };
    const FloatsTo to = dx.from(row * width);
    const FloatsAs<float> factors{weight};
    if (also.data == nullptr) return map_row(team, width, to, own, from, above, factors);
    map_row(
        team, width, to,
        [own](float value, float gradient, float factor, float other) {
          return own(value, gradient, factor) + other;
        },
        from, above, factors, also.from(row * width));
  }
};

/// Sums the slices of ColumnSums: a row is four columns of a sum.
struct JoinColumns {
  static constexpr bool kByRows = true;
  std::size_t columns;
  std::size_t fours;  ///< rows of each sum
  std::size_t slices;
  const Four* parts;  ///< of the first sum, then of the second one
  float* first;
  float* second;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const Divided at = divide(row, fours);
    const Four* const from = parts + at.quotient * slices * fours + at.rest;
    const std::size_t step = fours;
    const Four sums = team.sum(slices, [=](std::size_t slice) { return from[slice * step]; });
    if (!team.leads()) return;
    float* const to = at.quotient == 0 ? first : second;
    const std::size_t column = at.rest * kFour;
    for (std::size_t k = 0; k < kFour && column + k < columns; ++k) to[column + k] = sums.of[k];
  }
};

/// The most elements of a channel that a team sums. The first layers of a network have over a
/// million per channel, and fewer channels than a GPU has processors, so several teams share a
/// channel, and a second kernel adds their sums. A channel with at most this many elements is one
/// chunk.
inline constexpr std::size_t kChannelChunk = 8192;

/// The same if channels come last: a team's lanes form rows with one lane per group of eight
/// channels, and these rows of lanes share the points of a chunk. If there are more groups than
/// lanes, several teams share them.
inline constexpr std::size_t kTeamLanes = 256;
struct TeamShape {
  static constexpr std::size_t kPointsOfLane = 32;

  std::size_t groups;  ///< side by side
  std::size_t lanes;   ///< for each
  std::size_t teams;   ///< for a chunk

  STARLING_BOTH explicit TeamShape(std::size_t channels) {
    const std::size_t all = groups_of(channels);
    groups = all < kTeamLanes ? all : kTeamLanes;
    lanes = kTeamLanes / groups;
    teams = (all + groups - 1) / groups;
  }
  /// The points of a chunk.
  [[nodiscard]] STARLING_BOTH std::size_t points() const { return lanes * kPointsOfLane; }
};

STARLING_BOTH inline std::size_t chunks_of(const Channels& channels, std::size_t samples) {
  const std::size_t size = channels.last ? TeamShape(channels.channels).points() : kChannelChunk;
  return (samples * channels.points + size - 1) / size;
}

/// Some of a channel's elements in the first samples of a batch of images.
struct ChannelChunk {
  std::size_t channel;
  std::size_t count;      ///< elements; none after the samples
  std::size_t first;      ///< of the channel in the sample in which the chunk begins
  std::uint32_t skipped;  ///< points of that sample that belong to the chunk before
  std::uint32_t points;
  std::size_t sample;  ///< elements of a sample

  /// In 32 bits, without the branch of `divide`: loads of several elements can be in flight.
  [[nodiscard]] STARLING_BOTH std::size_t at(std::size_t i) const {
    const std::uint32_t place = skipped + static_cast<std::uint32_t>(i);
    const std::uint32_t samples = place / points;
    return first + samples * sample + (place - samples * points);
  }
};

/// Rows are the first chunk of each channel, then the second of each, and so on: teams that work at
/// the same time read the same samples.
STARLING_BOTH inline ChannelChunk chunk_of(const Channels& channels, std::size_t samples,
                                           std::size_t row) {
  const Divided at = divide(row, channels.channels);
  const std::size_t begin = at.quotient * kChannelChunk;
  const std::size_t all = samples * channels.points;
  const std::size_t left = begin < all ? all - begin : 0;
  const Divided place = divide(begin, channels.points);
  const std::size_t sample = channels.channels * channels.points;
  return {.channel = at.rest,
          .count = left < kChannelChunk ? left : kChannelChunk,
          .first = place.quotient * sample + at.rest * channels.points,
          .skipped = static_cast<std::uint32_t>(place.rest),
          .points = static_cast<std::uint32_t>(channels.points),
          .sample = sample};
}

/// The sum over a chunk's elements of `f` of their values in one or two images.
template <class Team, class F, class... Images>
STARLING_BOTH Pair sum_of_elements(const Team& team, const ChannelChunk& chunk, const F& f,
                                   const Images&... from) {
  return sum_of(
      team, chunk.count, chunk.points % kFour == 0, [&chunk](std::size_t i) { return chunk.at(i); },
      f, from...);
}

/// The sum of the results of the teams for a channel's chunks.
template <class T, class Team>
STARLING_BOTH T sum_of_chunks(const Team& team, const Channels& channels, std::size_t samples,
                              const T* parts, std::size_t channel) {
  const std::size_t step = channels.channels;
  return team.sum(chunks_of(channels, samples),
                  [=](std::size_t chunk) { return parts[chunk * step + channel]; });
}

/// Sums of each channel's chunks: gradients of convolutions' biases. Over all samples: those after
/// the step's have gradients of zero.
struct ChannelSums {
  static constexpr bool kByRows = true;
  Channels channels;
  std::size_t samples;
  const float* dy;
  double* parts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const ChannelChunk chunk = chunk_of(channels, samples, row);
    const float* const above = dy;
    const double sum = team.sum(
        chunk.count, [=](std::size_t i) { return static_cast<double>(above[chunk.at(i)]); });
    if (team.leads()) parts[row] = sum;
  }
};

/// Then the sums of each channel.
struct JoinChannelSums {
  static constexpr bool kByRows = true;
  Channels channels;
  std::size_t samples;
  const double* parts;
  float* to;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t channel) const {
    const double sum = sum_of_chunks(team, channels, samples, parts, channel);
    if (team.leads()) to[channel] = static_cast<float>(sum);
  }
};

/// Sums over each chunk of the distances of the step's elements from the first one of their
/// channel, and of the squares of these. One pass is enough for the variance: none of N elements
/// lies further than sqrt(N) deviations from the mean, so at worst it loses about N roundings of a
/// double to cancellation, wherever the mean lies.
struct BatchNormSums {
  static constexpr bool kByRows = true;
  Channels channels;
  const StepState* step;
  Floats x;
  Pair* parts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const ChannelChunk chunk = chunk_of(channels, step->count, row);
    if (chunk.count == 0) return;
    const auto origin = static_cast<double>(x[chunk.channel * channels.points]);
    const Pair sums = sum_of_elements(team, chunk, DistanceFrom{origin}, x);
    if (team.leads()) parts[row] = sums;
  }
};

/// Mean and variance of each channel from those sums; moves the running ones.
struct BatchNormStatistics {
  static constexpr bool kByRows = true;
  Channels channels;
  const StepState* step;
  float epsilon;
  float momentum;
  Floats x;
  const Pair* parts;
  const float* weight;
  const float* bias;
  float* running_mean;
  float* running_variance;
  ChannelFigures* figures;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t channel) const {
    const Pair sums = sum_of_chunks(team, channels, step->count, parts, channel);
    if (!team.leads()) return;
    const auto number = static_cast<double>(step->count * channels.points);
    const double from_origin = sums.first / number;
    const auto mean =
        static_cast<float>(static_cast<double>(x[channels.first_of(channel)]) + from_origin);
    const double difference = sums.second - sums.first * from_origin;
    const double squares = difference < 0 ? 0.0 : difference;  // NaN stays NaN
    const auto variance = static_cast<float>(squares / number);
    const auto unbiased = static_cast<float>(squares / (number > 1 ? number - 1 : 1.0));
    running_mean[channel] += momentum * (mean - running_mean[channel]);
    running_variance[channel] += momentum * (unbiased - running_variance[channel]);
    const float inverse = 1.0F / ::sqrtf(variance + epsilon);
    ChannelFigures& figure = figures[channel];
    figure.mean = mean;
    figure.inverse = inverse;
    figure.scale = inverse * weight[channel];
    figure.shift = bias[channel] - mean * figure.scale;
  }
};

/// Sums of dy and of dy (x - mean) over each chunk of the step's elements.
struct BatchNormGradientSums {
  static constexpr bool kByRows = true;
  Channels channels;
  const StepState* step;
  bool relu;  ///< dy is that of a ReLU behind the norm
  Floats x;
  Floats dy;
  const ChannelFigures* figures;
  Pair* parts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const ChannelChunk chunk = chunk_of(channels, step->count, row);
    if (chunk.count == 0) return;
    const ChannelFigures figure = figures[chunk.channel];
    const Pair sums = sum_of_elements(
        team, chunk,
        [figure, has_relu = relu](float value, float above) {
          if (has_relu) above = passed(figure, value, above);
          return Pair{static_cast<double>(above),
                      static_cast<double>(above * (value - figure.mean))};
        },
        x, dy);
    if (team.leads()) parts[row] = sums;
  }
};

/// With h = (x - mean) / deviation: dweight = sum(dy h), dbias = sum(dy), and for the elements
/// dx = weight / deviation (dy - dbias / N - h dweight / N).
struct BatchNormGradients {
  static constexpr bool kByRows = true;
  Channels channels;
  const StepState* step;
  const Pair* parts;
  const float* weight;
  ChannelFigures* figures;
  float* dweight;
  float* dbias;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t channel) const {
    const Pair sums = sum_of_chunks(team, channels, step->count, parts, channel);
    if (!team.leads()) return;
    const auto number = static_cast<double>(step->count * channels.points);
    ChannelFigures& figure = figures[channel];
    const auto inverse = static_cast<double>(figure.inverse);
    const double scale = static_cast<double>(weight[channel]) * inverse;
    dweight[channel] = static_cast<float>(sums.second * inverse);
    dbias[channel] = static_cast<float>(sums.first);
    figure.dy_factor = static_cast<float>(scale);
    figure.x_factor = static_cast<float>(-scale * inverse * inverse * sums.second / number);
    figure.rest = static_cast<float>(-scale * sums.first / number);
  }
};

/// Softmax of each query's scores up to its own position, in place; beyond, zeros.
struct CausalSoftmax {
  static constexpr bool kByRows = true;
  std::size_t positions;
  float* scores;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t visible = divide(row, positions).rest + 1;
    float* const own = scores + row * positions;
    const float most = team.largest(visible, [=](std::size_t i) { return own[i]; }).value;
    const float sum = team.sum(visible, [=](std::size_t i) { return ::expf(own[i] - most); });
    team.each(positions,
              [=](std::size_t i) { own[i] = i < visible ? ::expf(own[i] - most) / sum : 0.0F; });
  }
};

/// The gradient of the scores from that of the probabilities, in place: p (dp - sum(p dp)).
struct CausalSoftmaxBackward {
  static constexpr bool kByRows = true;
  std::size_t positions;
  const float* probabilities;
  float* gradient;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t visible = divide(row, positions).rest + 1;
    const float* const p = probabilities + row * positions;
    float* const own = gradient + row * positions;
    const float sum = team.sum(visible, [=](std::size_t i) { return p[i] * own[i]; });
    team.each(positions,
              [=](std::size_t i) { own[i] = i < visible ? p[i] * (own[i] - sum) : 0.0F; });
  }
};

}  // namespace starling::compute::cuda
