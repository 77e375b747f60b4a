// Kernels between the flat vectors of a replica and the tensors that a network works on, and what
// a step does with a gradient: its norm, and the update rules (train/optimizer.hpp has their
// sources), each in one pass over all parameters.
#pragma once

#include <cmath>

#include "compute/cuda/shared.hpp"

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

/// What kernels leave of a step of a replica that is trained here.
struct StepFigures {
  float loss = 0;         ///< of the pieces so far
  float scale = 1;        ///< of the gradient, to clip it
  double squares = 0;     ///< sum over the gradient's elements
  bool is_finite = true;  ///< loss and gradient: otherwise nothing is applied
};

/// sum = share * gradient, or that added to the sum. One call an element.
struct AddShare {
  const StepState* step;
  const float* gradient;
  float* sum;

  STARLING_BOTH void operator()(std::size_t i) const {
    const float part = step->share * gradient[i];
    sum[i] = step->add ? sum[i] + part : part;
  }
};

/// The same of the mean loss. One call.
struct AddLoss {
  const StepState* step;
  const Totals* totals;
  std::size_t terms;  ///< of the loss, a sample
  StepFigures* figures;

  STARLING_BOTH void operator()(std::size_t) const {
    const float part = step->share * mean_loss(totals->loss_sum, step->count * terms);
    figures->loss = step->add ? figures->loss + part : part;
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

/// Works out from the rows' sums of squares what is applied of the gradient. One row.
struct FinishNorm {
  static constexpr bool kByRows = true;
  const StepState* step;
  const double* sums;
  std::size_t rows;
  StepFigures* figures;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t) const {
    const double* const from = sums;
    const double squares = team.sum(rows, [=](std::size_t i) { return from[i]; });
    if (!team.leads()) return;
    figures->squares = squares;
    figures->scale = clip_factor(::sqrt(squares), step->update.clip);
    figures->is_finite = std::isfinite(figures->loss) && std::isfinite(squares);
  }
};

/// One call a parameter; the gradient lies as the network's copy does.
struct UpdateSgd {
  TensorPlaces tensors;
  const StepState* step;
  const StepFigures* figures;
  const float* gradient;
  float* p;
  float* v;

  STARLING_BOTH void operator()(std::size_t i) const {
    if (!figures->is_finite) return;
    const SgdUpdate by = step->update.sgd;
    const TensorPlace& place = tensors.of(i);
    const float decay = place.decays ? by.decay : 0.0F;
    const float g = figures->scale * gradient[place.aligned + (i - place.flat)] + decay * p[i];
    v[i] = by.momentum * v[i] + g;
    p[i] -= by.lr * (by.nesterov ? g + by.momentum * v[i] : v[i]);
  }
};

/// One call a parameter.
struct UpdateAdam {
  TensorPlaces tensors;
  const StepState* step;
  const StepFigures* figures;
  const float* gradient;
  float* p;
  float* m;
  float* s;

  STARLING_BOTH void operator()(std::size_t i) const {
    if (!figures->is_finite) return;
    const AdamUpdate by = step->update.adamw;
    const TensorPlace& place = tensors.of(i);
    const float g = figures->scale * gradient[place.aligned + (i - place.flat)];
    m[i] = by.beta1 * m[i] + (1.0F - by.beta1) * g;
    s[i] = by.beta2 * s[i] + (1.0F - by.beta2) * (g * g);
    const float kept = p[i] * (place.decays ? by.keep_decayed : 1.0F);
    p[i] = kept - by.step * m[i] / (::sqrtf(s[i]) * by.root_scale + by.epsilon);
  }
};

}  // namespace starling::compute::cuda
