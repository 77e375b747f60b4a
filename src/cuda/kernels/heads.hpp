// Kernels around attention's products: queries, keys and values of each head side by side, rotated
// by their positions, and back.
//
// Activations have, at each position, `heads` queries, then `kv_heads` keys, then as many values,
// of `size` features each. The products need one matrix {positions, size} per head. Query heads
// that share a key head follow each other, so that their matrices form one, with the positions of
// each.
#pragma once

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

struct HeadSides {
  std::size_t positions;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t size;
  const float* cosines;  ///< positions x size / 2; null: no rotary positions
  const float* sines;

  [[nodiscard]] STARLING_BOTH std::size_t in() const { return (heads + 2 * kv_heads) * size; }
};

/// A feature of a head at a position of a sample.
struct HeadPlace {
  std::size_t sample, position, head, feature;
};

STARLING_BOTH inline HeadPlace head_place(std::size_t i, std::size_t positions, std::size_t heads,
                                          std::size_t size) {
  const Divided feature = divide(i, size);
  const Divided head = divide(feature.quotient, heads);
  const Divided position = divide(head.quotient, positions);
  return {position.quotient, position.rest, head.rest, feature.rest};
}

/// The index of the place in matrices of heads.
STARLING_BOTH inline std::size_t in_matrices(const HeadPlace& p, std::size_t positions,
                                             std::size_t heads, std::size_t size) {
  return ((p.sample * heads + p.head) * positions + p.position) * size + p.feature;
}

/// A query's or key's element rotated by its position, or back if `direction` is -1.
STARLING_BOTH inline float turned(const HeadSides& s, const HeadPlace& p, const Floats& x,
                                  std::size_t i, float direction) {
  const float value = x[i];
  if (s.cosines == nullptr) return value;
  const std::size_t half = s.size / 2;
  const bool first = p.feature < half;
  const std::size_t angle = p.position * half + (first ? p.feature : p.feature - half);
  const float other = first ? -x[i + half] : x[i - half];
  return value * s.cosines[angle] + direction * other * s.sines[angle];
}

/// One call for each element of x.
struct SplitHeads {
  HeadSides s;
  float scale;  ///< of queries
  const float* x;
  float* query;
  float* key;
  float* value;

  STARLING_BOTH void operator()(std::size_t i) const {
    HeadPlace p = head_place(i, s.positions, s.heads + 2 * s.kv_heads, s.size);
    if (p.head >= s.heads + s.kv_heads) {
      p.head -= s.heads + s.kv_heads;
      value[in_matrices(p, s.positions, s.kv_heads, s.size)] = x[i];
      return;
    }
    const float there = turned(s, p, {x}, i, 1);
    if (p.head < s.heads) {
      query[in_matrices(p, s.positions, s.heads, s.size)] = scale * there;
    } else {
      p.head -= s.heads;
      key[in_matrices(p, s.positions, s.kv_heads, s.size)] = there;
    }
  }
};

/// The same for the gradient, rotated the other way. One call for each element of dx.
struct MergeGradients {
  HeadSides s;
  float scale;
  const float* dquery;
  const float* dkey;
  const float* dvalue;
  float* dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    HeadPlace p = head_place(i, s.positions, s.heads + 2 * s.kv_heads, s.size);
    if (p.head >= s.heads + s.kv_heads) {
      p.head -= s.heads + s.kv_heads;
      dx[i] = dvalue[in_matrices(p, s.positions, s.kv_heads, s.size)];
      return;
    }
    const bool is_query = p.head < s.heads;
    if (!is_query) p.head -= s.heads;
    const std::size_t at = in_matrices(p, s.positions, is_query ? s.heads : s.kv_heads, s.size);
    const float back = turned(s, p, {is_query ? dquery : dkey}, at, -1);
    dx[i] = is_query ? scale * back : back;
  }
};

/// Rotates them in place, for an attention of one call. One call for each element.
struct TurnHeads {
  HeadSides s;
  float direction;  ///< -1: back
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const HeadPlace p = head_place(i, s.positions, s.heads + 2 * s.kv_heads, s.size);
    y.put(i, p.head < s.heads + s.kv_heads ? turned(s, p, x, i, direction) : x[i]);
  }
};

/// From matrices of heads to rows of positions. One call for each element.
struct MergeHeads {
  std::size_t positions;
  std::size_t heads;
  std::size_t size;
  const float* matrices;
  float* rows;

  STARLING_BOTH void operator()(std::size_t i) const {
    const HeadPlace p = head_place(i, positions, heads, size);
    rows[i] = matrices[in_matrices(p, positions, heads, size)];
  }
};

/// From rows of positions to matrices of heads. One call for each element.
struct SplitRows {
  std::size_t positions;
  std::size_t heads;
  std::size_t size;
  const float* rows;
  float* matrices;

  STARLING_BOTH void operator()(std::size_t i) const {
    const HeadPlace p = head_place(i, positions, heads, size);
    matrices[in_matrices(p, positions, heads, size)] = rows[i];
  }
};

}  // namespace starling::compute::cuda
