#include "compute/cpu/batch_norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/integer.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

/// The most channels that are handled together; a block is cut into groups of this size.
constexpr std::size_t kLanes = 64;
/// A value for each channel of a group of kWidth, or of any number up to kLanes if kWidth is 0.
template <std::size_t kWidth>
using Lanes = std::array<float, kWidth == 0 ? kLanes : kWidth>;
template <std::size_t kWidth>
using Sums = std::array<double, kWidth == 0 ? kLanes : kWidth>;

/// Some channels of one plane.
struct Group {
  std::size_t plane;
  std::size_t lane;     ///< in the block
  std::size_t channel;  ///< of the first lane
  std::size_t lanes;    ///< existing lanes: at most kLanes
};

std::size_t groups_of_plane(const BatchNormShape& s) { return base::ceil_div(s.block, kLanes); }

Group group_of(const BatchNormShape& s, std::size_t index) {
  const std::size_t per_plane = groups_of_plane(s);
  const std::size_t plane = index / per_plane;
  const std::size_t lane = index % per_plane * kLanes;
  const std::size_t channel = plane * s.block + lane;
  const std::size_t lanes = std::min(kLanes, s.block - lane);
  return {plane, lane, channel, channel >= s.channels ? 0 : std::min(lanes, s.channels - channel)};
}

/// First element of a group in a sample.
STARLING_INLINE std::size_t offset_of(const BatchNormShape& s, const Group& g, std::size_t sample) {
  return (sample * s.planes + g.plane) * s.points * s.block + g.lane;
}

// Each visits the points of a group: for the usual blocks with a loop over lanes of constant
// length, so that it is vectorised, and along the points if a plane has only one channel.

/// Calls visit(lane, element) for the elements of one sample's part of a group.
template <std::size_t kWidth, class Visit>
STARLING_INLINE void each_point(const BatchNormShape& s, std::size_t begin, std::size_t lanes,
                                const Visit& visit) {
  for (std::size_t p = 0; p < s.points; ++p) {
    const std::size_t at = begin + p * s.block;
    const std::size_t width = kWidth > 0 ? kWidth : lanes;
#pragma omp simd
    for (std::size_t l = 0; l < width; ++l) visit(l, at + l);
  }
}

template <std::size_t kWidth>
STARLING_INLINE void sums_of(const BatchNormShape& s, const Group& g, std::size_t count,
                             const float* x, const Lanes<kWidth>& mean, bool squares,
                             Sums<kWidth>& sums) {
  sums.fill(0);
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t begin = offset_of(s, g, n);
    Lanes<kWidth> part{};
    if (kWidth == 1) {
      float sum = 0;
      const float centre = mean[0];
      const float* const from = x + begin;
      if (squares) {  // NOLINT(bugprone-branch-clone): it ignores the pragmas
#pragma omp simd reduction(+ : sum)
        for (std::size_t p = 0; p < s.points; ++p) sum += (from[p] - centre) * (from[p] - centre);
      } else {
#pragma omp simd reduction(+ : sum)
        for (std::size_t p = 0; p < s.points; ++p) sum += from[p];
      }
      part[0] = sum;
    } else if (squares) {
      each_point<kWidth>(s, begin, g.lanes, [&](std::size_t l, std::size_t i) {
        part[l] += (x[i] - mean[l]) * (x[i] - mean[l]);
      });
    } else {
      each_point<kWidth>(s, begin, g.lanes, [&](std::size_t l, std::size_t i) { part[l] += x[i]; });
    }
    for (std::size_t l = 0; l < g.lanes; ++l) sums[l] += static_cast<double>(part[l]);
  }
}

/// y = x * scale + shift, then the ReLU.
template <std::size_t kWidth>
STARLING_INLINE void apply(const BatchNormShape& s, const Group& g, const float* x,
                           const Lanes<kWidth>& scale, const Lanes<kWidth>& shift, float* y) {
  const float least = s.relu ? 0.0F : -INFINITY;
  for (std::size_t n = 0; n < s.samples; ++n) {
    const std::size_t begin = offset_of(s, g, n);
    if (kWidth == 1) {
      const float a = scale[0];
      const float b = shift[0];
#pragma omp simd
      for (std::size_t i = begin; i < begin + s.points; ++i) {
        const float value = x[i] * a + b;
        y[i] = value < least ? least : value;
      }
    } else {
      each_point<kWidth>(s, begin, g.lanes, [&](std::size_t l, std::size_t i) {
        const float value = x[i] * scale[l] + shift[l];
        y[i] = value < least ? least : value;
      });
    }
  }
}

template <std::size_t kWidth>
STARLING_INLINE void train_group(const BatchNormShape& s, const Group& g, std::size_t count,
                                 const float* x, const BatchNormWeights& weights,
                                 float* running_mean, float* running_variance, float* y,
                                 float* figures) {
  const double elements = static_cast<double>(count * s.points);
  Sums<kWidth> sums;
  Lanes<kWidth> mean{};
  Lanes<kWidth> scale{};
  Lanes<kWidth> shift{};
  sums_of<kWidth>(s, g, count, x, mean, false, sums);
  for (std::size_t l = 0; l < g.lanes; ++l) mean[l] = static_cast<float>(sums[l] / elements);
  sums_of<kWidth>(s, g, count, x, mean, true, sums);
  for (std::size_t l = 0; l < g.lanes; ++l) {
    const std::size_t c = g.channel + l;
    const auto variance = static_cast<float>(sums[l] / elements);
    const auto unbiased = static_cast<float>(sums[l] / std::max(elements - 1, 1.0));
    running_mean[c] += s.momentum * (mean[l] - running_mean[c]);
    running_variance[c] += s.momentum * (unbiased - running_variance[c]);
    const float inverse = 1.0F / std::sqrt(variance + s.epsilon);
    figures[2 * c] = mean[l];
    figures[2 * c + 1] = inverse;
    scale[l] = inverse * weights.weight[c];
    shift[l] = weights.bias[c] - mean[l] * scale[l];
  }
  apply<kWidth>(s, g, x, scale, shift, y);
}

template <std::size_t kWidth>
STARLING_INLINE void evaluate_group(const BatchNormShape& s, const Group& g, const float* x,
                                    const BatchNormWeights& weights, const float* running_mean,
                                    const float* running_variance, float* y) {
  Lanes<kWidth> scale{};
  Lanes<kWidth> shift{};
  for (std::size_t l = 0; l < g.lanes; ++l) {
    const std::size_t c = g.channel + l;
    scale[l] = weights.weight[c] / std::sqrt(running_variance[c] + s.epsilon);
    shift[l] = weights.bias[c] - running_mean[c] * scale[l];
  }
  apply<kWidth>(s, g, x, scale, shift, y);
}

/// The coefficients of dx for the channels of a group: a dy + b (x - mean) + c.
template <std::size_t kWidth>
struct GradientLines {
  Lanes<kWidth> mean{};
  Lanes<kWidth> a{};
  Lanes<kWidth> b{};
  Lanes<kWidth> c{};
};

template <std::size_t kWidth>
STARLING_INLINE void apply_lines(const BatchNormShape& s, const Group& g, std::size_t count,
                                 const GradientLines<kWidth>& lines, const float* x, const float* y,
                                 const float* dy, float* dx) {
  const bool relu = s.relu;
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t begin = offset_of(s, g, n);
    if (kWidth == 1) {
#pragma omp simd
      for (std::size_t i = begin; i < begin + s.points; ++i) {
        const float gradient = relu && !(y[i] > 0) ? 0.0F : dy[i];
        dx[i] = lines.a[0] * gradient + lines.b[0] * (x[i] - lines.mean[0]) + lines.c[0];
      }
    } else {
      each_point<kWidth>(s, begin, g.lanes, [&](std::size_t l, std::size_t i) {
        const float gradient = relu && !(y[i] > 0) ? 0.0F : dy[i];
        dx[i] = lines.a[l] * gradient + lines.b[l] * (x[i] - lines.mean[l]) + lines.c[l];
      });
    }
  }
  for (std::size_t n = count; n < s.samples; ++n) {
    each_point<kWidth>(s, offset_of(s, g, n), g.lanes,
                       [&](std::size_t, std::size_t i) { dx[i] = 0.0F; });
  }
}

// With h = (x - mean) / deviation and the sums over all elements of the channel:
// dweight = sum(dy h), dbias = sum(dy), dx = weight / deviation (dy - dbias / N - h dweight / N).
template <std::size_t kWidth>
STARLING_INLINE void backward_group(const BatchNormShape& s, const Group& g, std::size_t count,
                                    const float* x, const float* y, const float* weight,
                                    const float* figures, const float* dy, float* dx,
                                    float* dweight, float* dbias) {
  GradientLines<kWidth> lines;
  const Lanes<kWidth>& mean = lines.mean;
  Lanes<kWidth> inverse{};
  for (std::size_t l = 0; l < g.lanes; ++l) {
    lines.mean[l] = figures[2 * (g.channel + l)];
    inverse[l] = figures[2 * (g.channel + l) + 1];
  }
  const bool relu = s.relu;
  Sums<kWidth> sums{};
  Sums<kWidth> products{};
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t begin = offset_of(s, g, n);
    Lanes<kWidth> sum{};
    Lanes<kWidth> product{};
    if (kWidth == 1) {
      float one = 0;
      float two = 0;
      const float centre = mean[0];
#pragma omp simd reduction(+ : one, two)
      for (std::size_t i = begin; i < begin + s.points; ++i) {
        const float gradient = relu && !(y[i] > 0) ? 0.0F : dy[i];
        one += gradient;
        two += gradient * (x[i] - centre);
      }
      sum[0] = one;
      product[0] = two;
    } else {
      each_point<kWidth>(s, begin, g.lanes, [&](std::size_t l, std::size_t i) {
        const float gradient = relu && !(y[i] > 0) ? 0.0F : dy[i];
        sum[l] += gradient;
        product[l] += gradient * (x[i] - mean[l]);
      });
    }
    for (std::size_t l = 0; l < g.lanes; ++l) {
      sums[l] += static_cast<double>(sum[l]);
      products[l] += static_cast<double>(product[l]);
    }
  }
  const double elements = static_cast<double>(count * s.points);
  for (std::size_t l = 0; l < g.lanes; ++l) {
    const std::size_t channel = g.channel + l;
    const double deviation = static_cast<double>(inverse[l]);
    const double scale = static_cast<double>(weight[channel]) * deviation;
    const double slope = -scale * deviation * deviation * products[l] / elements;
    dweight[channel] = static_cast<float>(products[l] * deviation);
    dbias[channel] = static_cast<float>(sums[l]);
    lines.a[l] = static_cast<float>(scale);
    lines.b[l] = static_cast<float>(slope);
    lines.c[l] = static_cast<float>(-scale * sums[l] / elements);
  }
  apply_lines<kWidth>(s, g, count, lines, x, y, dy, dx);
}

/// Lanes beyond the channels of a padded block: oneDNN expects zeros there.
void clear_padding(const BatchNormShape& s, float* values) {
  const std::size_t padded = s.planes * s.block - s.channels;
  if (padded == 0) return;
  const std::size_t used = s.block - padded;  // of the last plane
  for (std::size_t n = 0; n < s.samples; ++n) {
    float* const plane = values + (n * s.planes + s.planes - 1) * s.points * s.block;
    for (std::size_t p = 0; p < s.points; ++p) {
      std::fill(plane + p * s.block + used, plane + (p + 1) * s.block, 0.0F);
    }
  }
}

/// Calls work(width) with the width of a group as a constant if it is a usual one, otherwise with
/// 0.
template <class Work>
STARLING_INLINE void for_width(const BatchNormShape& s, const Group& g, const Work& work) {
  if (s.block == 1) return work(std::integral_constant<std::size_t, 1>());
  if (g.lanes == 64) return work(std::integral_constant<std::size_t, 64>());
  if (g.lanes == 16) return work(std::integral_constant<std::size_t, 16>());
  if (g.lanes == 8) return work(std::integral_constant<std::size_t, 8>());
  return work(std::integral_constant<std::size_t, 0>());
}

STARLING_KERNEL
void train_one(const BatchNormShape& s, const Group& g, std::size_t count, const float* x,
               const BatchNormWeights& weights, float* running_mean, float* running_variance,
               float* y, float* figures) {
  for_width(
      s, g, [&](auto width) __attribute__((always_inline)) {
        train_group<width()>(s, g, count, x, weights, running_mean, running_variance, y, figures);
      });
}

STARLING_KERNEL
void evaluate_one(const BatchNormShape& s, const Group& g, const float* x,
                  const BatchNormWeights& weights, const float* running_mean,
                  const float* running_variance, float* y) {
  for_width(
      s, g, [&](auto width) __attribute__((always_inline)) {
        evaluate_group<width()>(s, g, x, weights, running_mean, running_variance, y);
      });
}

STARLING_KERNEL
void backward_one(const BatchNormShape& s, const Group& g, std::size_t count, const float* x,
                  const float* y, const float* weight, const float* figures, const float* dy,
                  float* dx, float* dweight, float* dbias) {
  for_width(
      s, g, [&](auto width) __attribute__((always_inline)) {
        backward_group<width()>(s, g, count, x, y, weight, figures, dy, dx, dweight, dbias);
      });
}

template <class Work>
void each_group(const BatchNormShape& shape, const Work& work) {
  in_parallel(shape.planes * groups_of_plane(shape), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (const Group group = group_of(shape, i); group.lanes > 0) work(group);
    }
  });
}

}  // namespace

void batch_norm_train(const BatchNormShape& shape, std::size_t count, const float* x,
                      const BatchNormWeights& weights, float* running_mean, float* running_variance,
                      float* y, float* figures) {
  each_group(shape, [&](const Group& group) {
    train_one(shape, group, count, x, weights, running_mean, running_variance, y, figures);
  });
  clear_padding(shape, y);
}

void batch_norm_evaluate(const BatchNormShape& shape, const float* x,
                         const BatchNormWeights& weights, const float* running_mean,
                         const float* running_variance, float* y) {
  each_group(shape, [&](const Group& group) {
    evaluate_one(shape, group, x, weights, running_mean, running_variance, y);
  });
  clear_padding(shape, y);
}

void batch_norm_backward(const BatchNormShape& shape, std::size_t count, const float* x,
                         const float* y, const float* weight, const float* figures, const float* dy,
                         float* dx, float* dweight, float* dbias) {
  each_group(shape, [&](const Group& group) {
    backward_one(shape, group, count, x, y, weight, figures, dy, dx, dweight, dbias);
  });
  clear_padding(shape, dx);
}

}  // namespace starling::compute::cpu
