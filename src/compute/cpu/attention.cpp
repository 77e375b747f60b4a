#include "compute/cpu/attention.hpp"

#include <algorithm>
#include <cmath>

#include "compute/cpu/gemm.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

/// Queries that are handled together: their scores see no key after the last of them.
constexpr std::size_t kRows = 64;

/// Turns scores into probabilities, row by row; row r sees the first `seen` + r columns, and the
/// others become zero. Leaves log(sum(exp(scores))) of each row.
STARLING_KERNEL
void softmax_rows(std::size_t rows, std::size_t columns, std::size_t seen, float* scores,
                  float* figures) {
  for (std::size_t r = 0; r < rows; ++r, scores += columns) {
    const std::size_t width = seen + r;
    float largest = scores[0];
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < width; ++i) largest = scores[i] > largest ? scores[i] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < width; ++i) {
      scores[i] = exp_of(scores[i] - largest);
      sum += scores[i];
    }
    const float share = 1.0F / sum;
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) scores[i] *= share;
    std::fill(scores + width, scores + columns, 0.0F);
    figures[r] = largest + std::log(sum);
  }
}

/// The same probabilities from these logarithms.
STARLING_KERNEL
void softmax_again(std::size_t rows, std::size_t columns, std::size_t seen, float* scores,
                   const float* figures) {
  for (std::size_t r = 0; r < rows; ++r, scores += columns) {
    const std::size_t width = seen + r;
    const float figure = figures[r];
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) scores[i] = exp_of(scores[i] - figure);
    std::fill(scores + width, scores + columns, 0.0F);
  }
}

/// The gradient of the scores from that of the probabilities, in place: p (dp - sum(p dp)), where
/// the sum is y dy over the head's features.
STARLING_KERNEL
void softmax_gradient(std::size_t rows, std::size_t columns, std::size_t size,
                      const float* probabilities, const float* y, const float* dy,
                      std::size_t stride, float* gradient) {
  for (std::size_t r = 0; r < rows; ++r) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < size; ++i) sum += y[r * stride + i] * dy[r * stride + i];
    const float* const p = probabilities + r * columns;
    float* const g = gradient + r * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) g[i] = p[i] * (g[i] - sum);
  }
}

}  // namespace

/// One thread's work space for one head.
struct AttentionKernel::Scratch {
  float* query;    ///< positions x size, scaled
  float* key;      ///< positions x size
  float* dquery;   ///< positions x size
  float* dkey;     ///< positions x size
  float* dvalue;   ///< positions x size
  float* scores;   ///< kRows x positions
  float* dscores;  ///< kRows x positions
};

AttentionKernel::AttentionKernel(const Attention& attention, std::size_t samples,
                                 std::size_t positions, bool bf16)
    : samples_(samples),
      positions_(positions),
      heads_(attention.heads),
      kv_heads_(attention.kv_heads),
      size_(attention.head_size),
      bf16_(bf16) {
  if (attention.rotary_base <= 0) return;
  const std::size_t half = size_ / 2;
  cosines_.resize(positions * half);
  sines_.resize(positions * half);
  for (std::size_t t = 0; t < positions; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(static_cast<double>(attention.rotary_base),
                                    -2.0 * static_cast<double>(i) / static_cast<double>(size_));
      cosines_[t * half + i] = static_cast<float>(std::cos(angle));
      sines_[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

std::size_t AttentionKernel::scratch_floats() const noexcept {
  return 5 * positions_ * size_ + 2 * kRows * positions_;
}

std::size_t AttentionKernel::scratch_floats(std::size_t threads) const noexcept {
  return threads * scratch_floats();
}

std::size_t AttentionKernel::figure_floats() const noexcept {
  return samples_ * heads_ * positions_;
}

AttentionKernel::Scratch AttentionKernel::scratch_at(float* memory) const noexcept {
  const std::size_t matrix = positions_ * size_;
  Scratch scratch{};
  for (float** part :
       {&scratch.query, &scratch.key, &scratch.dquery, &scratch.dkey, &scratch.dvalue}) {
    *part = memory;
    memory += matrix;
  }
  scratch.scores = memory;
  scratch.dscores = memory + kRows * positions_;
  return scratch;
}

// A head's rows side by side, scaled, and rotated by their positions if requested.
void AttentionKernel::load(const float* from, std::size_t stride, bool turned, float scale,
                           float* to) const {
  const std::size_t half = size_ / 2;
  for (std::size_t t = 0; t < positions_; ++t, from += stride, to += size_) {
    if (!turned || cosines_.empty()) {
      for (std::size_t i = 0; i < size_; ++i) to[i] = scale * from[i];
      continue;
    }
    const float* const c = cosines_.data() + t * half;
    const float* const s = sines_.data() + t * half;
    for (std::size_t i = 0; i < half; ++i) {
      to[i] = scale * (from[i] * c[i] - from[half + i] * s[i]);
      to[half + i] = scale * (from[half + i] * c[i] + from[i] * s[i]);
    }
  }
}

// The same for the gradient: rotated the other way.
void AttentionKernel::store(const float* from, bool turned, float scale, float* to,
                            std::size_t stride) const {
  const std::size_t half = size_ / 2;
  for (std::size_t t = 0; t < positions_; ++t, from += size_, to += stride) {
    if (!turned || cosines_.empty()) {
      for (std::size_t i = 0; i < size_; ++i) to[i] = scale * from[i];
      continue;
    }
    const float* const c = cosines_.data() + t * half;
    const float* const s = sines_.data() + t * half;
    for (std::size_t i = 0; i < half; ++i) {
      to[i] = scale * (from[i] * c[i] + from[half + i] * s[i]);
      to[half + i] = scale * (from[half + i] * c[i] - from[i] * s[i]);
    }
  }
}

void AttentionKernel::forward(const float* x, float* y, float* figures, float* scratch) const {
  const std::size_t in = (heads_ + 2 * kv_heads_) * size_;
  const std::size_t out = heads_ * size_;
  const std::size_t shared = heads_ / kv_heads_;
  const float scale = 1.0F / std::sqrt(static_cast<float>(size_));
  in_parallel(samples_ * kv_heads_, 1, [&](std::size_t first, std::size_t last) {
    const Scratch own =
        scratch_at(scratch + static_cast<std::size_t>(omp_get_thread_num()) * scratch_floats());
    for (std::size_t task = first; task < last; ++task) {
      const std::size_t sample = task / kv_heads_;
      const std::size_t group = task % kv_heads_;
      const float* const source = x + sample * positions_ * in;
      const float* const value = source + (heads_ + kv_heads_ + group) * size_;
      load(source + (heads_ + group) * size_, in, true, 1.0F, own.key);
      for (std::size_t head = group * shared; head < (group + 1) * shared; ++head) {
        load(source + head * size_, in, true, scale, own.query);
        float* const result = y + sample * positions_ * out + head * size_;
        float* const row_figures = figures + (sample * heads_ + head) * positions_;
        for (std::size_t row = 0; row < positions_; row += kRows) {
          const std::size_t rows = std::min(kRows, positions_ - row);
          const std::size_t keys = row + rows;
          gemm({.rows = rows,
                .columns = keys,
                .depth = size_,
                .left = {own.query + row * size_, size_},
                .right = {own.key, size_, true},
                .result = own.scores,
                .result_stride = keys,
                .bfloat16 = bf16_});
          softmax_rows(rows, keys, row + 1, own.scores, row_figures + row);
          gemm({.rows = rows,
                .columns = size_,
                .depth = keys,
                .left = {own.scores, keys},
                .right = {value, in},
                .result = result + row * out,
                .result_stride = out,
                .bfloat16 = bf16_});
        }
      }
    }
  });
}

// The part for up to kRows queries from `row` on, with these rows of a head's y and dy.
void AttentionKernel::backward_rows(std::size_t row, const Scratch& own, const float* value,
                                    const float* result, const float* figures,
                                    const float* above) const {
  const std::size_t in = (heads_ + 2 * kv_heads_) * size_;
  const std::size_t out = heads_ * size_;
  const std::size_t rows = std::min(kRows, positions_ - row);
  const std::size_t keys = row + rows;
  const float* const query = own.query + row * size_;
  gemm({.rows = rows,
        .columns = keys,
        .depth = size_,
        .left = {query, size_},
        .right = {own.key, size_, true},
        .result = own.scores,
        .result_stride = keys,
        .bfloat16 = bf16_});
  softmax_again(rows, keys, row + 1, own.scores, figures);
  gemm({.rows = keys,
        .columns = size_,
        .depth = rows,
        .left = {own.scores, keys, true},
        .right = {above, out},
        .result = own.dvalue,
        .result_stride = size_,
        .add = true,
        .bfloat16 = bf16_});
  gemm({.rows = rows,
        .columns = keys,
        .depth = size_,
        .left = {above, out},
        .right = {value, in, true},
        .result = own.dscores,
        .result_stride = keys,
        .bfloat16 = bf16_});
  softmax_gradient(rows, keys, size_, own.scores, result, above, out, own.dscores);
  gemm({.rows = rows,
        .columns = size_,
        .depth = keys,
        .left = {own.dscores, keys},
        .right = {own.key, size_},
        .result = own.dquery + row * size_,
        .result_stride = size_,
        .bfloat16 = bf16_});
  gemm({.rows = keys,
        .columns = size_,
        .depth = rows,
        .left = {own.dscores, keys, true},
        .right = {query, size_},
        .result = own.dkey,
        .result_stride = size_,
        .add = true,
        .bfloat16 = bf16_});
}

void AttentionKernel::backward(const float* x, const float* y, const float* figures,
                               const float* dy, float* dx, float* scratch) const {
  const std::size_t in = (heads_ + 2 * kv_heads_) * size_;
  const std::size_t out = heads_ * size_;
  const std::size_t shared = heads_ / kv_heads_;
  const float scale = 1.0F / std::sqrt(static_cast<float>(size_));
  in_parallel(samples_ * kv_heads_, 1, [&](std::size_t first, std::size_t last) {
    const Scratch own =
        scratch_at(scratch + static_cast<std::size_t>(omp_get_thread_num()) * scratch_floats());
    for (std::size_t task = first; task < last; ++task) {
      const std::size_t sample = task / kv_heads_;
      const std::size_t group = task % kv_heads_;
      const float* const source = x + sample * positions_ * in;
      float* const gradient = dx + sample * positions_ * in;
      const std::size_t key_at = (heads_ + group) * size_;
      const std::size_t value_at = (heads_ + kv_heads_ + group) * size_;
      const float* const value = source + value_at;
      load(source + key_at, in, true, 1.0F, own.key);
      std::fill_n(own.dkey, positions_ * size_, 0.0F);
      std::fill_n(own.dvalue, positions_ * size_, 0.0F);
      for (std::size_t head = group * shared; head < (group + 1) * shared; ++head) {
        load(source + head * size_, in, true, scale, own.query);
        const float* const result = y + sample * positions_ * out + head * size_;
        const float* const above = dy + sample * positions_ * out + head * size_;
        const float* const row_figures = figures + (sample * heads_ + head) * positions_;
        for (std::size_t row = 0; row < positions_; row += kRows) {
          backward_rows(row, own, value, result + row * out, row_figures + row, above + row * out);
        }
        store(own.dquery, true, scale, gradient + head * size_, in);
      }
      store(own.dkey, true, 1.0F, gradient + key_at, in);
      store(own.dvalue, false, 1.0F, gradient + value_at, in);
    }
  });
}

}  // namespace starling::compute::cpu
