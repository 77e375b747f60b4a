// Kernels that compute each element separately.
#pragma once

#include <cmath>

#include "compute/activation.hpp"
#include "compute/dropout.hpp"
#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

STARLING_BOTH inline float logistic(float x) {
#ifdef __CUDA_ARCH__
  return __fdividef(1.0F, 1.0F + ::expf(-x));
#else
  return 1.0F / (1.0F + ::expf(-x));
#endif
}

/// gelu_tanh: 0.5 (1 + tanh(u / 2)) = logistic(u), with u = 2 sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr float kTanhScale = 1.59576912F;
inline constexpr float kTanhCube = 0.044715F;

STARLING_BOTH inline float activated(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::relu:
      return x < 0 ? 0.0F : x;
    case ActivationKind::gelu:
      return 0.5F * x * ::erfcf(-0.70710678F * x);
    case ActivationKind::gelu_tanh:
      return x * logistic(kTanhScale * (x + kTanhCube * x * x * x));
    case ActivationKind::silu:
      return x * logistic(x);
  }
  return x;
}

/// The derivative; for a ReLU, x may also be the result.
STARLING_BOTH inline float slope(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::relu:
      return x > 0 ? 1.0F : 0.0F;
    case ActivationKind::gelu:
      return 0.5F * ::erfcf(-0.70710678F * x) + x * 0.39894228F * ::expf(-0.5F * x * x);
    case ActivationKind::gelu_tanh: {
      // Beyond 16 it is 0 or 1, but 0 times powers of x that overflow is not. NaN stays NaN.
      x = x < -16.0F ? -16.0F : x > 16.0F ? 16.0F : x;
      const float s = logistic(kTanhScale * (x + kTanhCube * x * x * x));
      return s + x * s * (1.0F - s) * kTanhScale * (1.0F + 3.0F * kTanhCube * x * x);
    }
    case ActivationKind::silu: {
      const float s = logistic(x);
      return s + x * s * (1.0F - s);
    }
  }
  return 0;
}

struct Activate {
  static constexpr std::size_t kWide = kEight;
  ActivationKind kind;
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    map_eight(
        i, n, y, [this](std::size_t, float value) { return activated(kind, value); }, x);
  }
};

/// From float32 to bfloat16, for products, or back.
struct Convert {
  static constexpr std::size_t kWide = kEight;
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    map_eight(
        i, n, y, [](std::size_t, float value) { return value; }, x);
  }
};

/// The same for rows of a matrix, which then begin `stride` elements apart, a multiple of four. The
/// elements between them, and after the last one, become zero.
struct RoundRows {
  static constexpr std::size_t kWide = kFour;
  std::size_t rows;
  std::size_t width;
  std::size_t stride;
  Floats x;
  std::uint16_t* y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, stride);
    const std::size_t from = at.quotient * width + at.rest;
    const std::size_t end = at.quotient < rows ? width : 0;
    Four four{};
    if (width % kFour == 0 && at.rest < end) {
      four = x.four(from);
    } else {
      for (std::size_t k = 0; k < kFour && at.rest + k < end; ++k) four.of[k] = x[from + k];
    }
    FloatsTo{.rounded = y}.put_four(i, four);
  }
};

/// dx may be dy, or `also`.
struct ActivateBackward {
  static constexpr std::size_t kWide = kEight;
  ActivationKind kind;
  std::size_t n;
  Floats seen;  ///< the source; for a ReLU, the result
  Floats dy;
  Floats also;  ///< added to dy; no data: nothing
  FloatsTo dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto sloped = [this](float at, float gradient) {
      const float factor = slope(kind, at);
      return factor == 0 ? 0.0F : factor * gradient;
    };
    if (also.data == nullptr) {
      return map_eight(
          i, n, dx, [&](std::size_t, float at, float above) { return sloped(at, above); }, seen,
          dy);
    }
    map_eight(
        i, n, dx, [&](std::size_t, float at, float a, float b) { return sloped(at, a + b); }, seen,
        dy, also);
  }
};

/// The place in x of a for an element of y = silu(a) b, or of its gradient; b lies `width` after
/// it.
STARLING_BOTH inline std::size_t gate_of(std::size_t i, std::size_t width) {
  const Divided at = divide(i, width);
  return at.quotient * 2 * width + at.rest;
}

/// Over the elements of y.
struct SwiGluForward {
  static constexpr std::size_t kWide = kFour;
  std::size_t width;  ///< of a row of y; x has twice that
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto made = [](float a, float b) { return a * logistic(a) * b; };
    if (width % kFour == 0) {
      const std::size_t first = gate_of(i, width);
      const Four a = x.four(first);
      const Four b = x.four(first + width);
      Four four{};
      for (std::size_t k = 0; k < kFour; ++k) four.of[k] = made(a.of[k], b.of[k]);
      return y.put_four(i, four);
    }
    for (std::size_t k = i; k < i + kFour && k < n; ++k) {
      const std::size_t first = gate_of(k, width);
      y.put(k, made(x[first], x[first + width]));
    }
  }
};

/// Over the elements of dy.
struct SwiGluBackward {
  static constexpr std::size_t kWide = kFour;
  std::size_t width;
  std::size_t n;
  Floats x;
  Floats dy;
  FloatsTo dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto of_gate = [](float a, float b, float gradient) {
      return slope(ActivationKind::silu, a) * b * gradient;
    };
    const auto of_gated = [](float a, float gradient) { return a * logistic(a) * gradient; };
    if (width % kFour == 0) {
      const std::size_t first = gate_of(i, width);
      const Four a = x.four(first);
      const Four b = x.four(first + width);
      const Four above = dy.four(i);
      Four gate{};
      Four gated{};
      for (std::size_t k = 0; k < kFour; ++k) {
        gate.of[k] = of_gate(a.of[k], b.of[k], above.of[k]);
        gated.of[k] = of_gated(a.of[k], above.of[k]);
      }
      dx.put_four(first, gate);
      return dx.put_four(first + width, gated);
    }
    for (std::size_t k = i; k < i + kFour && k < n; ++k) {
      const std::size_t first = gate_of(k, width);
      dx.put(first, of_gate(x[first], x[first + width], dy[k]));
      dx.put(first + width, of_gated(x[first], dy[k]));
    }
  }
};

/// Forward, and backward with dy for x. y may be x.
struct Drop {
  static constexpr std::size_t kWide = kEight;
  std::uint64_t op;
  std::uint32_t threshold;
  float keep;  ///< 1 / (1 - rate)
  const StepState* step;
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::uint64_t seed = step->seed;
    map_eight(
        i, n, y,
        [=, this](std::size_t k, float value) {
          return dropout_bits(seed, op, i + k) < threshold ? 0.0F : value * keep;
        },
        x);
  }
};

/// to = a + b, then the ReLU, if there is one; may be in place.
struct Sum {
  static constexpr std::size_t kWide = kEight;
  std::size_t n;
  Floats a;
  Floats b;
  bool relu;
  FloatsTo to;

  STARLING_BOTH void operator()(std::size_t i) const {
    map_eight(
        i, n, to,
        [this](std::size_t, float one, float other) {
          const float sum = one + other;
          return relu && sum < 0 ? 0.0F : sum;
        },
        a, b);
  }
};

/// y = x + a repeated row.
struct AddRow {
  std::size_t row;
  const float* x;
  const float* weight;
  float* y;

  STARLING_BOTH void operator()(std::size_t i) const { y[i] = x[i] + weight[divide(i, row).rest]; }
};

/// The steps after a convolution, possibly in place: a bias per channel, then a ReLU. In a matrix,
/// channels are columns, with one point each.
struct FinishImage {
  static constexpr std::size_t kWide = kFour;
  std::size_t points;  ///< of a channel
  std::size_t channels;
  const float* bias;  ///< null: none
  bool relu;
  std::size_t n;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    map_four(
        i, n, y,
        [=, this](std::size_t k, float value) {
          if (bias != nullptr) value += bias[divide(divide(i + k, points).quotient, channels).rest];
          return relu && value < 0 ? 0.0F : value;
        },
        x);
  }
};

/// One call for each element of y.
struct Embed {
  std::size_t width;
  const std::int32_t* tokens;
  const float* weight;
  float* y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, width);
    y[i] = weight[static_cast<std::size_t>(tokens[at.quotient]) * width + at.rest];
  }
};

/// For the sums of the gradients of equal tokens. The host has sorted a batch's tokens; first
/// chunks of these are summed, so that a frequent token is not a single long sum, then the chunks.
/// In fixed order.
struct EmbedSums {
  static constexpr std::size_t kChunk = 64;  ///< places

  std::size_t width;
  std::size_t positions;  ///< tokens a sample
  const StepState* step;
  const std::int32_t* tokens;  ///< ascending
  bool add;                    ///< to dweight; otherwise dweight is zero
  float* parts;  ///< {chunks, 2, width}: of a chunk's first and last token, if they begin before
                 ///< the chunk or continue after it
  float* dweight;

  [[nodiscard]] STARLING_BOTH std::size_t count() const { return step->count * positions; }
  /// Whether the token at a place equals the one before it.
  [[nodiscard]] STARLING_BOTH bool goes_on(std::size_t place) const {
    return place > 0 && place < count() && tokens[place - 1] == tokens[place];
  }
  [[nodiscard]] STARLING_BOTH float& part(std::size_t chunk, std::size_t which,
                                          std::size_t i) const {
    return parts[(2 * chunk + which) * width + i];
  }
  STARLING_BOTH void put(float sum, std::int32_t token, std::size_t i) const {
    float& to = dweight[static_cast<std::size_t>(token) * width + i];
    to = add ? to + sum : sum;
  }
};

/// Sums within chunks. If a token begins there, its first element's call sums all of it. One call
/// for each element of dy.
struct EmbedBackward {
  EmbedSums sums;
  const std::int32_t* places;  ///< each token's place in the batch, ascending among equal ones
  const float* dy;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, sums.width);
    const std::size_t first = at.quotient;
    const std::size_t count = sums.count();
    if (first >= count) return;
    const Divided chunk = divide(first, EmbedSums::kChunk);
    const bool began_before = sums.goes_on(first);
    if (began_before && chunk.rest > 0) return;
    const std::size_t end = first - chunk.rest + EmbedSums::kChunk;
    float sum = 0;
    std::size_t k = first;
    do {
      sum += dy[static_cast<std::size_t>(places[k]) * sums.width + at.rest];
    } while (++k < end && sums.goes_on(k));
    if (began_before || sums.goes_on(k)) {
      sums.part(chunk.quotient, chunk.rest > 0 ? 1 : 0, at.rest) = sum;
    } else {
      sums.put(sum, sums.tokens[first], at.rest);
    }
  }
};

/// Then the sums of the tokens that continue after the chunk in which they begin. One call for each
/// element of each chunk.
struct EmbedJoin {
  EmbedSums sums;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, sums.width);
    const std::size_t chunk = at.quotient;
    const std::size_t begin = chunk * EmbedSums::kChunk;
    std::size_t next = begin + EmbedSums::kChunk;
    if (!sums.goes_on(next)) return;
    const std::int32_t token = sums.tokens[next];
    const bool fills = sums.tokens[begin] == token;
    if (fills && sums.goes_on(begin)) return;  // it began before
    float sum = sums.part(chunk, fills ? 0 : 1, at.rest);
    for (; next < sums.count() && sums.tokens[next] == token; next += EmbedSums::kChunk) {
      sum += sums.part(next / EmbedSums::kChunk, 0, at.rest);
    }
    sums.put(sum, token, at.rest);
  }
};

/// Sums over the rows of a matrix, a slice of them at a time, and sums of the same elements
/// multiplied by their normalised sources: one call for four columns of each slice.
struct ColumnSums {
  std::size_t rows;
  std::size_t columns;
  std::size_t stride;  ///< from one row to the next
  std::size_t fours;   ///< of the columns
  std::size_t slices;
  Floats dy;
  Floats x;              ///< no data: plain sums only
  const float* figures;  ///< mean and 1 / deviation of each row of x
  Four* plain;           ///< slices x fours; null: not needed
  Four* normed;          ///< the same

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, fours);
    const std::size_t column = at.rest * kFour;
    const std::size_t begin = rows * at.quotient / slices;
    const std::size_t end = rows * (at.quotient + 1) / slices;
    Four sums{};
    Four products{};
    const auto add_up = [=, this, &sums, &products](const auto& four_of, const auto& above,
                                                    const auto& source) {
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
      for (std::size_t r = begin; r < end; ++r) {
        const Four gradient = four_of(above, r * stride + column);
        const Four value = four_of(source, r * stride + column);
        sums += gradient;
        const float mean = figures[2 * r];
        const float inverse = figures[2 * r + 1];
        for (std::size_t k = 0; k < kFour; ++k) {
          products.of[k] += gradient.of[k] * ((value.of[k] - mean) * inverse);
        }
      }
    };
    const auto add_up_plain = [=, this, &sums](const auto& four_of, const auto& above) {
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
      for (std::size_t r = begin; r < end; ++r) sums += four_of(above, r * stride + column);
    };
    const auto by_element = [=, this](const Floats& from, std::size_t first) {
      Four some{};
      for (std::size_t k = 0; k < kFour && column + k < columns; ++k) some.of[k] = from[first + k];
      return some;
    };
    const auto at_once = [](const auto& from, std::size_t first) { return from.four(first); };
    const bool is_wide = stride % kFour == 0;
    if (x.data == nullptr) {
      is_wide ? dy.visit([&](auto above) { add_up_plain(at_once, above); })
              : add_up_plain(by_element, dy);
    } else if (is_wide) {
      dy.visit([&](auto above) { x.visit([&](auto source) { add_up(at_once, above, source); }); });
    } else {
      add_up(by_element, dy, x);
    }
    if (plain != nullptr) plain[i] = sums;
    if (normed != nullptr) normed[i] = products;
  }
};

}  // namespace starling::compute::cuda
