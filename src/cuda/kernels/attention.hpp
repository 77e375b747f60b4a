// Causal attention as one call, with factors in bfloat16: no matrix of scores outlives it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace starling::compute::cuda {

/// The sizes of an attention over some samples.
struct AttentionSizes {
  std::size_t samples = 0;
  std::size_t positions = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t size = 0;  ///< of a head

  /// Features of a position: queries, keys and values in a row (heads.hpp), and results.
  [[nodiscard]] std::size_t in() const { return (heads + 2 * kv_heads) * size; }
  [[nodiscard]] std::size_t out() const { return heads * size; }
  /// Rows of the scores: one for each query.
  [[nodiscard]] std::size_t row_count() const { return samples * heads * positions; }
  [[nodiscard]] std::size_t score_count() const { return row_count() * positions; }
  /// The factor of the scores.
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(size)); }

  friend bool operator==(const AttentionSizes&, const AttentionSizes&) = default;
};

/// Forward, for each query q of a head, with the keys k and values v of its positions up to q's:
///
///     s = scale q k,  log_sum = log(sum(exp(s))),  p = exp(s - log_sum),  y = p v
///
/// Backward takes x, y and the log_sums of forward again, and y's gradient:
///
///     ds = p (dy v - dy y),  dq = scale ds k,  dk = scale ds q,  dv = p dy
///
/// where dk and dv are sums over the queries. Matrices of products are rounded to bfloat16, like
/// results; sums, and s, are float32.
struct FusedAttention {
  enum class Kind : std::uint8_t { forward, backward };

  Kind kind = Kind::forward;
  AttentionSizes sizes;
  const std::uint16_t* x = nullptr;  ///< {samples, positions, in}
  std::uint16_t* y = nullptr;        ///< {samples, positions, out}; backward reads it
  float* log_sums = nullptr;         ///< {samples, heads, positions}; backward reads them
  const std::uint16_t* dy = nullptr;
  std::uint16_t* dx = nullptr;
};

}  // namespace starling::compute::cuda
