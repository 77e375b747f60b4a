// Kernels between the flat vectors of a replica and the tensors that a network works on, and the
// update rules (train/optimizer.hpp has their sources), each in one pass over all parameters.
#pragma once

#include <cmath>

#include "compute/cuda/shared.hpp"
#include "compute/update.hpp"

namespace starling::compute::cuda {

/// A tensor: its first element in the flat vector, and in the network's copy.
struct TensorPlace {
  std::size_t flat;
  std::size_t aligned;
  bool decays;
};

/// All tensors, in order of both.
struct TensorPlaces {
  const TensorPlace* places;
  std::size_t count;

  /// The tensor of an element of the flat vector.
  [[nodiscard]] STARLING_BOTH const TensorPlace& of(std::size_t i) const {
    std::size_t low = 0;
    std::size_t high = count;
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      if (places[middle].flat <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return places[low];
  }
};

/// To the network's copy: y, or with r (where it is not null) x. One call a parameter.
struct SpreadParameters {
  TensorPlaces tensors;
  const float* y;
  const float* r;
  float* to;

  STARLING_BOTH void operator()(std::size_t i) const {
    const TensorPlace& place = tensors.of(i);
    to[place.aligned + (i - place.flat)] = r == nullptr ? y[i] : y[i] + r[i];
  }
};

/// sum = share * gradient, or that added to the sum. One call an element.
struct AddShare {
  const float* gradient;
  float* sum;
  float share;
  bool add;

  STARLING_BOTH void operator()(std::size_t i) const {
    const float part = share * gradient[i];
    sum[i] = add ? sum[i] + part : part;
  }
};

/// Sums of the squares of rows of a vector; not finite where an element is not.
struct RowSquares {
  static constexpr bool kByRows = true;
  static constexpr std::size_t kRow = 65536;  ///< elements
  const float* values;
  std::size_t n;
  double* sums;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t begin = row * kRow;
    const std::size_t size = n - begin < kRow ? n - begin : kRow;
    const float* const from = values + begin;
    const double sum = team.sum(size, [=](std::size_t i) {
      const auto value = static_cast<double>(from[i]);
      return value * value;
    });
    if (team.leads()) sums[row] = sum;
  }
};

/// One call a parameter; the gradient lies as the network's copy does.
struct UpdateSgd {
  TensorPlaces tensors;
  SgdUpdate by;
  const float* gradient;
  float* p;
  float* v;

  STARLING_BOTH void operator()(std::size_t i) const {
    const TensorPlace& place = tensors.of(i);
    const float decay = place.decays ? by.decay : 0.0F;
    const float g = by.scale * gradient[place.aligned + (i - place.flat)] + decay * p[i];
    v[i] = by.momentum * v[i] + g;
    p[i] -= by.lr * (by.nesterov ? g + by.momentum * v[i] : v[i]);
  }
};

/// One call a parameter.
struct UpdateAdam {
  TensorPlaces tensors;
  AdamUpdate by;
  const float* gradient;
  float* p;
  float* m;
  float* s;

  STARLING_BOTH void operator()(std::size_t i) const {
    const TensorPlace& place = tensors.of(i);
    const float g = by.scale * gradient[place.aligned + (i - place.flat)];
    m[i] = by.beta1 * m[i] + (1.0F - by.beta1) * g;
    s[i] = by.beta2 * s[i] + (1.0F - by.beta2) * (g * g);
    const float kept = p[i] * (place.decays ? by.keep_decayed : 1.0F);
    p[i] = kept - by.step * m[i] / (::sqrtf(s[i]) * by.root_scale + by.epsilon);
  }
};

}  // namespace starling::compute::cuda
