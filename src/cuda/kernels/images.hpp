// Kernels for images, NCHW: pools, batch norm's elements, and plain convolutions if cuDNN has no
// exact and repeatable engine.
#pragma once

#include <cmath>

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

/// Sides of a window that moves over images.
struct Window {
  std::size_t height = 0, width = 0;          ///< of the source
  std::size_t out_height = 0, out_width = 0;  ///< of the result
  std::size_t kernel = 0, stride = 1, padding = 0;
};

/// A place in a stack of planes.
struct Place {
  std::size_t plane, row, column;
};

STARLING_BOTH inline Place place_of(std::size_t i, std::size_t height, std::size_t width) {
  const Divided line = divide(i, width);
  const Divided plane = divide(line.quotient, height);
  return {plane.quotient, plane.rest, line.rest};
}

/// The windows, first to last, that see a row (or column) of the source.
struct Seen {
  std::size_t first, end;
};

STARLING_BOTH inline Seen seen_by(std::size_t at, const Window& w, std::size_t places) {
  const std::size_t padded = at + w.padding;
  const std::size_t first =
      padded < w.kernel ? 0 : divide(padded - w.kernel, w.stride).quotient + 1;
  const std::size_t end = divide(padded, w.stride).quotient + 1;
  return {first, end < places ? end : places};
}

/// Calls visit(window, place) for each window that sees element `i` of the source, with the
/// element's place in it, both counted row by row.
template <class Visit>
STARLING_BOTH void each_window(const Window& w, std::size_t i, const Visit& visit) {
  const Place at = place_of(i, w.height, w.width);
  const Seen rows = seen_by(at.row, w, w.out_height);
  const Seen columns = seen_by(at.column, w, w.out_width);
  for (std::size_t r = rows.first; r < rows.end; ++r) {
    for (std::size_t c = columns.first; c < columns.end; ++c) {
      const std::size_t u = at.row + w.padding - r * w.stride;
      const std::size_t v = at.column + w.padding - c * w.stride;
      visit((at.plane * w.out_height + r) * w.out_width + c, u * w.kernel + v);
    }
  }
}

/// The sum of the results of `visit` for these.
template <class Visit>
STARLING_BOTH float sum_of_windows(const Window& w, std::size_t i, const Visit& visit) {
  float sum = 0;
  each_window(w, i, [&](std::size_t window, std::size_t place) { sum += visit(window, place); });
  return sum;
}

/// Calls visit(point, number) for each element of the source that the window at a place of the
/// result sees; numbers count a window's elements row by row.
template <class Visit>
STARLING_BOTH void each_seen(const Window& w, const Place& at, const Visit& visit) {
  for (std::size_t u = 0; u < w.kernel; ++u) {
    const std::size_t row = at.row * w.stride + u;
    if (row < w.padding || row >= w.height + w.padding) continue;
    for (std::size_t v = 0; v < w.kernel; ++v) {
      const std::size_t column = at.column * w.stride + v;
      if (column < w.padding || column >= w.width + w.padding) continue;
      visit((at.plane * w.height + row - w.padding) * w.width + column - w.padding,
            static_cast<std::int32_t>(u * w.kernel + v));
    }
  }
}

/// The largest of a window's elements so far: the first of equals.
struct Winner {
  float value = 0;
  std::int32_t number = -1;  ///< none yet

  STARLING_BOTH void meet(float other, std::int32_t its_number) {
    // NaN wins: divergence must reach the loss.
    if (number >= 0 && !(other > value) && other == other) return;
    value = other;
    number = its_number;
  }
};

/// One call for each element of y. `chosen` gets the number of the window's largest element,
/// counted row by row: the first of equals. Padding never wins.
struct MaxPoolForward {
  Window w;
  Floats x;
  FloatsTo y;
  std::int32_t* chosen;

  STARLING_BOTH void operator()(std::size_t i) const {
    Winner most;
    each_seen(w, place_of(i, w.out_height, w.out_width),
              [&](std::size_t point, std::int32_t number) { most.meet(x[point], number); });
    y.put(i, most.value);
    chosen[i] = most.number;
  }
};

/// One call for each element of dx: it visits the windows that see it.
struct MaxPoolBackward {
  Window w;
  Floats dy;
  const std::int32_t* chosen;
  float* dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    dx[i] = sum_of_windows(w, i, [&](std::size_t window, std::size_t place) {
      return chosen[window] == static_cast<std::int32_t>(place) ? dy[window] : 0.0F;
    });
  }
};

/// One call for each element of y; no padding.
struct AveragePoolForward {
  Window w;
  const float* x;
  float* y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Place at = place_of(i, w.out_height, w.out_width);
    const float* const image = x + at.plane * w.height * w.width;
    float sum = 0;
    for (std::size_t u = 0; u < w.kernel; ++u) {
      for (std::size_t v = 0; v < w.kernel; ++v) {
        sum += image[(at.row * w.stride + u) * w.width + at.column * w.stride + v];
      }
    }
    y[i] = sum / static_cast<float>(w.kernel * w.kernel);
  }
};

/// One call for each element of dx.
struct AveragePoolBackward {
  Window w;
  const float* dy;
  float* dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const float sum =
        sum_of_windows(w, i, [&](std::size_t window, std::size_t) { return dy[window]; });
    dx[i] = sum / static_cast<float>(w.kernel * w.kernel);
  }
};

/// Spreads the gradient of a plane's mean: one call for each element of dx.
struct SpreadMean {
  std::size_t points;
  const float* dy;
  float* dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    dx[i] = dy[divide(i, points).quotient] / static_cast<float>(points);
  }
};

/// Batch norm's figures of a channel, which its kernels leave for each other.
struct ChannelFigures {
  float mean;
  float inverse;  ///< 1 / deviation
  float scale;    ///< y = x scale + shift
  float shift;
  float dy_factor;  ///< dx = dy_factor dy + x_factor (x - mean) + rest
  float x_factor;
  float rest;
};

/// The layout of images, for the place of an element.
struct Channels {
  std::size_t points;  ///< of a channel in a sample
  std::size_t channels;
  bool last = false;  ///< they come last in memory

  [[nodiscard]] STARLING_BOTH std::size_t of(std::size_t i) const {
    return divide(divide(i, points).quotient, channels).rest;
  }
  /// A channel's first element.
  [[nodiscard]] STARLING_BOTH std::size_t first_of(std::size_t channel) const {
    return last ? channel : channel * points;
  }
};

/// A batch norm's result before its ReLU: the same bits wherever it is recomputed.
STARLING_BOTH inline float normalised(const ChannelFigures& figure, float x) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(x, figure.scale, figure.shift);
#else
  return x * figure.scale + figure.shift;
#endif
}

/// The part of a gradient that passes that ReLU.
STARLING_BOTH inline float passed(const ChannelFigures& figure, float x, float above) {
  return normalised(figure, x) > 0 ? above : 0.0F;
}

/// The figures of the channels of four elements, usually one channel.
class FourFigures {
 public:
  STARLING_BOTH FourFigures(const Channels& channels, const ChannelFigures* figures, std::size_t i)
      : channels_(channels), figures_(figures), i_(i) {
    const Divided plane = divide(i, channels.points);
    common_ = plane.rest + kFour <= channels.points;
    first_ = figures[divide(plane.quotient, channels.channels).rest];
  }
  STARLING_BOTH ChannelFigures operator[](std::size_t k) const {
    return common_ ? first_ : figures_[channels_.of(i_ + k)];
  }

 private:
  const Channels& channels_;
  const ChannelFigures* figures_;
  std::size_t i_;
  bool common_;
  ChannelFigures first_;
};

struct BatchNormApply {
  static constexpr std::size_t kWide = kFour;
  Channels channels;
  const ChannelFigures* figures;
  bool relu;
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const FourFigures of(channels, figures, i);
    map_four(
        i, n, y,
        [&](std::size_t k, float value) {
          const float result = normalised(of[k], value);
          return relu && result < 0 ? 0.0F : result;
        },
        x);
  }
};

/// to = a + b, then the ReLU, if there is one; a term with figures is normalised first.
struct SumNormalised {
  static constexpr std::size_t kWide = kFour;
  Channels channels;
  bool relu;
  std::size_t n;
  Floats a;
  const ChannelFigures* a_figures;
  Floats b;
  const ChannelFigures* b_figures;  ///< null: b is added as it is
  FloatsTo to;

  STARLING_BOTH void operator()(std::size_t i) const {
    const FourFigures of_a(channels, a_figures, i);
    const FourFigures of_b(channels, b_figures == nullptr ? a_figures : b_figures, i);
    map_four(
        i, n, to,
        [&](std::size_t k, float one, float other) {
          if (b_figures != nullptr) other = normalised(of_b[k], other);
          const float sum = normalised(of_a[k], one) + other;
          return relu && sum < 0 ? 0.0F : sum;
        },
        a, b);
  }
};

/// Scale and shift of evaluation: one call for each channel.
struct BatchNormEvaluate {
  float epsilon;
  const float* weight;
  const float* bias;
  const float* running_mean;
  const float* running_variance;
  ChannelFigures* figures;

  STARLING_BOTH void operator()(std::size_t c) const {
    const float scale = weight[c] / ::sqrtf(running_variance[c] + epsilon);
    figures[c].scale = scale;
    figures[c].shift = bias[c] - running_mean[c] * scale;
  }
};

/// dx may be dy; it is zero after the step's samples.
struct BatchNormBackward {
  static constexpr std::size_t kWide = kFour;
  Channels channels;
  const StepState* step;
  const ChannelFigures* figures;
  bool relu;  ///< dy is that of a ReLU behind the norm
  std::size_t n;
  Floats x;
  Floats dy;
  FloatsTo dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::size_t end = step->count * channels.channels * channels.points;
    const FourFigures of(channels, figures, i);
    map_four(
        i, n, dx,
        [&](std::size_t k, float value, float above) {
          if (i + k >= end) return 0.0F;
          const ChannelFigures figure = of[k];
          if (relu) above = passed(figure, value, above);
          return figure.dy_factor * above + figure.x_factor * (value - figure.mean) + figure.rest;
        },
        x, dy);
  }
};

/// Sides and addresses of a convolution: y = x * w, and its gradients. Weights are OIHW, where I
/// counts one group's inputs.
struct Convolution {
  enum class Kind : std::uint8_t { forward, source_gradient, weight_gradient };

  Kind kind = Kind::forward;
  std::size_t samples = 0;
  std::size_t in_channels = 0, height = 0, width = 0;
  std::size_t out_channels = 0, out_height = 0, out_width = 0;
  std::size_t kernel = 0, stride = 1, padding = 0, dilation = 1, groups = 1;
  void* x = nullptr;  ///< `kind` says which of the three is written; the others are read
  void* w = nullptr;
  void* y = nullptr;
  bool rounded = false;  ///< all three are bfloat16; sums are still float32
  bool last = false;     ///< channels come last in all three: NHWC, and OHWI

  [[nodiscard]] STARLING_BOTH std::size_t group_in() const { return in_channels / groups; }
  [[nodiscard]] STARLING_BOTH std::size_t group_out() const { return out_channels / groups; }
  [[nodiscard]] STARLING_BOTH std::size_t x_size() const {
    return samples * in_channels * height * width;
  }
  [[nodiscard]] STARLING_BOTH std::size_t w_size() const {
    return out_channels * group_in() * kernel * kernel;
  }
  [[nodiscard]] STARLING_BOTH std::size_t y_size() const {
    return samples * out_channels * out_height * out_width;
  }

  friend bool operator==(const Convolution&, const Convolution&) = default;
};

/// One call for each written element. Each sums a few hundred products by itself: correct, not
/// fast. T: float or bfloat16's bits.
template <class T>
struct PlainConvolution {
  Convolution c;

  [[nodiscard]] std::size_t count() const {
    switch (c.kind) {
      case Convolution::Kind::forward:
        return c.y_size();
      case Convolution::Kind::source_gradient:
        return c.x_size();
      case Convolution::Kind::weight_gradient:
        return c.w_size();
    }
    return 0;
  }

  STARLING_BOTH void operator()(std::size_t i) const {
    switch (c.kind) {
      case Convolution::Kind::forward:
        return forward(i);
      case Convolution::Kind::source_gradient:
        return source_gradient(i);
      case Convolution::Kind::weight_gradient:
        return weight_gradient(i);
    }
  }

 private:
  STARLING_BOTH static void write(void* to, std::size_t i, float sum) {
    store(sum, static_cast<T*>(to)[i]);
  }

  /// A place in a stack of images, or in the weights, whose outputs stand for samples.
  struct Spot {
    std::size_t sample, channel, row, column;
  };

  /// The spot of element `i` of images with these sides.
  [[nodiscard]] STARLING_BOTH Spot spot_of(std::size_t i, std::size_t channels, std::size_t height,
                                           std::size_t width) const {
    if (c.last) {
      const Divided point = divide(i, channels);
      const Place at = place_of(point.quotient, height, width);
      return {at.plane, point.rest, at.row, at.column};
    }
    const Place at = place_of(i, height, width);
    const Divided plane = divide(at.plane, channels);
    return {plane.quotient, plane.rest, at.row, at.column};
  }
  [[nodiscard]] STARLING_BOTH float value_at(const void* images, const Spot& at,
                                             std::size_t channels, std::size_t height,
                                             std::size_t width) const {
    const std::size_t i =
        c.last ? ((at.sample * height + at.row) * width + at.column) * channels + at.channel
               : ((at.sample * channels + at.channel) * height + at.row) * width + at.column;
    return value_of(static_cast<const T*>(images)[i]);
  }
  [[nodiscard]] STARLING_BOTH float x_at(const Spot& at) const {
    return value_at(c.x, at, c.in_channels, c.height, c.width);
  }
  [[nodiscard]] STARLING_BOTH float w_at(const Spot& at) const {
    return value_at(c.w, at, c.group_in(), c.kernel, c.kernel);
  }
  [[nodiscard]] STARLING_BOTH float y_at(const Spot& at) const {
    return value_at(c.y, at, c.out_channels, c.out_height, c.out_width);
  }

  STARLING_BOTH void forward(std::size_t i) const {
    const Spot at = spot_of(i, c.out_channels, c.out_height, c.out_width);
    const std::size_t first = at.channel / c.group_out() * c.group_in();
    float sum = 0;
    for (std::size_t k = 0; k < c.group_in(); ++k) {
      for (std::size_t u = 0; u < c.kernel; ++u) {
        const std::size_t row = at.row * c.stride + u * c.dilation;
        if (row < c.padding || row >= c.height + c.padding) continue;
        for (std::size_t v = 0; v < c.kernel; ++v) {
          const std::size_t column = at.column * c.stride + v * c.dilation;
          if (column < c.padding || column >= c.width + c.padding) continue;
          sum += x_at({at.sample, first + k, row - c.padding, column - c.padding}) *
                 w_at({at.channel, k, u, v});
        }
      }
    }
    write(c.y, i, sum);
  }

  STARLING_BOTH void source_gradient(std::size_t i) const {
    const Spot at = spot_of(i, c.in_channels, c.height, c.width);
    const std::size_t group = at.channel / c.group_in();
    const std::size_t k = at.channel - group * c.group_in();
    float sum = 0;
    for (std::size_t o = group * c.group_out(); o < (group + 1) * c.group_out(); ++o) {
      for (std::size_t u = 0; u < c.kernel; ++u) {
        const Seat row = seat_of(at.row, u, c.out_height);
        if (!row.taken) continue;
        for (std::size_t v = 0; v < c.kernel; ++v) {
          const Seat column = seat_of(at.column, v, c.out_width);
          if (!column.taken) continue;
          sum += y_at({at.sample, o, row.at, column.at}) * w_at({o, k, u, v});
        }
      }
    }
    write(c.x, i, sum);
  }

  STARLING_BOTH void weight_gradient(std::size_t i) const {
    const Spot at = spot_of(i, c.group_in(), c.kernel, c.kernel);
    const std::size_t o = at.sample;
    const std::size_t k = o / c.group_out() * c.group_in() + at.channel;
    float sum = 0;
    for (std::size_t n = 0; n < c.samples; ++n) {
      for (std::size_t r = 0; r < c.out_height; ++r) {
        const std::size_t row = r * c.stride + at.row * c.dilation;
        if (row < c.padding || row >= c.height + c.padding) continue;
        for (std::size_t s = 0; s < c.out_width; ++s) {
          const std::size_t column = s * c.stride + at.column * c.dilation;
          if (column < c.padding || column >= c.width + c.padding) continue;
          sum += x_at({n, k, row - c.padding, column - c.padding}) * y_at({n, o, r, s});
        }
      }
    }
    write(c.w, i, sum);
  }

  /// The result whose window has element `u` at `at`.
  struct Seat {
    std::size_t at;
    bool taken;
  };

  [[nodiscard]] STARLING_BOTH Seat seat_of(std::size_t at, std::size_t u,
                                           std::size_t places) const {
    if (at + c.padding < u * c.dilation) return {0, false};
    const Divided place = divide(at + c.padding - u * c.dilation, c.stride);
    return {place.quotient, place.rest == 0 && place.quotient < places};
  }
};

}  // namespace starling::compute::cuda
