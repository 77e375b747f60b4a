// Kernels between the flat vectors of a replica and the tensors that a network works on, and a
// step's kernels for a gradient: its norm, and the update rules (train/optimizer.hpp has their
// sources), each in one pass over all parameters.
#pragma once

#include <cmath>

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

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
  std::size_t end;  ///< elements of the flat vector

  /// For the four elements of the flat vector from `i` on, a multiple of four: calls wide(at,
  /// decays) if they also lie side by side, and aligned, in the network's copy, from `at` on, and
  /// otherwise one(k, at, decays) for each that exists.
  template <class Wide, class One>
  STARLING_BOTH void visit_four(std::size_t i, const Wide& wide, const One& one) const {
    const std::size_t tensor = of(i);
    const TensorPlace& place = places[tensor];
    const std::size_t at = place.aligned + (i - place.flat);
    const std::size_t next = tensor + 1 < count ? places[tensor + 1].flat : end;
    if (i + kFour <= next && at % kFour == 0) return wide(at, place.decays);
    for (std::size_t k = i; k < i + kFour && k < end; ++k) {
      const TensorPlace& own = places[of(k)];
      one(k, own.aligned + (k - own.flat), own.decays);
    }
  }

 private:
  /// The tensor of an element of the flat vector.
  [[nodiscard]] STARLING_BOTH std::size_t of(std::size_t i) const {
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
    return low;
  }
};

/// Copies y, or x if r is not null, to the network's copy. Over parameters.
struct SpreadParameters {
  static constexpr std::size_t kWide = kFour;
  TensorPlaces tensors;
  const float* y;
  const float* r;
  float* to;

  STARLING_BOTH void operator()(std::size_t i) const {
    tensors.visit_four(
        i,
        [&](std::size_t at, bool) {
          Four own = Floats{y}.four(i);
          if (r != nullptr) own += Floats{r}.four(i);
          FloatsTo{.exact = to}.put_four(at, own);
        },
        [&](std::size_t k, std::size_t at, bool) { to[at] = r == nullptr ? y[k] : y[k] + r[k]; });
  }
};

/// The kernels' results for a step of a replica that is trained here.
struct StepFigures {
  float loss = 0;         ///< of the pieces so far
  float scale = 1;        ///< of the gradient, to clip it
  double squares = 0;     ///< sum over the gradient's elements
  bool is_finite = true;  ///< loss and gradient: otherwise nothing is applied
};

/// sum = share * gradient, or adds that to the sum. Over elements, a multiple of four.
struct AddShare {
  static constexpr std::size_t kWide = kFour;
  const StepState* step;
  const float* gradient;
  float* sum;

  STARLING_BOTH void operator()(std::size_t i) const {
    Four parts = Floats{gradient}.four(i);
    for (float& part : parts.of) part = step->share * part;
    if (step->add) {
      const Four known = Floats{sum}.four(i);
      for (std::size_t k = 0; k < kFour; ++k) parts.of[k] = known.of[k] + parts.of[k];
    }
    FloatsTo{.exact = sum}.put_four(i, parts);
  }
};

/// The same for the mean loss. One call.
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

/// Sums of the squares of rows of a vector; not finite if an element is not.
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

/// Works out the gradient's scale from the rows' sums of squares. One row.
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

/// Over parameters; the gradient is laid out like the network's copy.
struct UpdateSgd {
  static constexpr std::size_t kWide = kFour;
  TensorPlaces tensors;
  const StepState* step;
  const StepFigures* figures;
  const float* gradient;
  float* p;
  float* v;

  STARLING_BOTH void operator()(std::size_t i) const {
    if (!figures->is_finite) return;
    const SgdUpdate by = step->update.sgd;
    const float scale = figures->scale;
    const auto apply = [by, scale](bool decays, float above, float& own_p, float& own_v) {
      const float g = scale * above + (decays ? by.decay : 0.0F) * own_p;
      own_v = by.momentum * own_v + g;
      own_p -= by.lr * (by.nesterov ? g + by.momentum * own_v : own_v);
    };
    tensors.visit_four(
        i,
        [&](std::size_t at, bool decays) {
          const Four above = Floats{gradient}.four(at);
          Four own_p = Floats{p}.four(i);
          Four own_v = Floats{v}.four(i);
          for (std::size_t k = 0; k < kFour; ++k) {
            apply(decays, above.of[k], own_p.of[k], own_v.of[k]);
          }
          FloatsTo{.exact = p}.put_four(i, own_p);
          FloatsTo{.exact = v}.put_four(i, own_v);
        },
        [&](std::size_t k, std::size_t at, bool decays) {
          apply(decays, gradient[at], p[k], v[k]);
        });
  }
};

/// Over parameters.
struct UpdateAdam {
  static constexpr std::size_t kWide = kFour;
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
    const float scale = figures->scale;
    const auto apply = [by, scale](bool decays, float above, float& own_p, float& own_m,
                                   float& own_s) {
      const float g = scale * above;
      own_m = by.beta1 * own_m + (1.0F - by.beta1) * g;
      own_s = by.beta2 * own_s + (1.0F - by.beta2) * (g * g);
      const float kept = own_p * (decays ? by.keep_decayed : 1.0F);
      own_p = kept - by.step * own_m / (::sqrtf(own_s) * by.root_scale + by.epsilon);
    };
    tensors.visit_four(
        i,
        [&](std::size_t at, bool decays) {
          const Four above = Floats{gradient}.four(at);
          Four own_p = Floats{p}.four(i);
          Four own_m = Floats{m}.four(i);
          Four own_s = Floats{s}.four(i);
          for (std::size_t k = 0; k < kFour; ++k) {
            apply(decays, above.of[k], own_p.of[k], own_m.of[k], own_s.of[k]);
          }
          FloatsTo{.exact = p}.put_four(i, own_p);
          FloatsTo{.exact = m}.put_four(i, own_m);
          FloatsTo{.exact = s}.put_four(i, own_s);
        },
        [&](std::size_t k, std::size_t at, bool decays) {
          apply(decays, gradient[at], p[k], m[k], s[k]);
        });
  }
};

}  // namespace starling::compute::cuda
