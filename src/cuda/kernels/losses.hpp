// Kernels of losses: a row is a label, or a sample.
#pragma once

#include <cmath>
#include <limits>

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

/// For some logits: the largest, the first of equals, and the sum of exp(logit - largest). All
/// zeros: no logits. NaN and infinities enter the sum.
struct SoftMax {
  float most;
  float sum;
  std::uint32_t index;

  /// Of two, in either order: members of a team get the same bits. Without branches, so that loads
  /// for the next ones are in flight.
  STARLING_BOTH SoftMax& operator+=(const SoftMax& other) {
    const float own_most = sum == 0 ? kLowest : most;
    const float other_most = other.sum == 0 ? kLowest : other.most;
    const bool larger = other_most > own_most;
    const float scale = ::expf(larger ? own_most - other_most : other_most - own_most);
    const float higher_sum = larger ? other.sum : sum;
    const float lower_sum = larger ? sum : other.sum;
    const bool first_of_equals = (other_most == own_most) & (other.index < index);
    index = larger | first_of_equals ? other.index : index;
    most = larger ? other_most : own_most;
    sum = higher_sum + lower_sum * scale;
    return *this;
  }

  /// For the four from `first` on.
  static STARLING_BOTH SoftMax of(const Four& logits, std::size_t first) {
    SoftMax made{kLowest, 0, static_cast<std::uint32_t>(first)};
    for (std::size_t k = 0; k < kFour; ++k) {
      const bool larger = logits.of[k] > made.most;
      made.most = larger ? logits.of[k] : made.most;
      made.index = larger ? static_cast<std::uint32_t>(first + k) : made.index;
    }
    for (std::size_t k = 0; k < kFour; ++k) made.sum += ::expf(logits.of[k] - made.most);
    return made;
  }

  static constexpr float kLowest = std::numeric_limits<float>::lowest();
};

/// Softmax cross-entropy of each label's row (as softmax_cross_entropy of cpu/loss.hpp): its loss,
/// whether it is right, and in training the gradient of the mean. Rows after the step's are zero,
/// and so are gaps between rows.
struct CrossEntropy {
  static constexpr bool kByRows = true;
  std::size_t classes;
  std::size_t stride;     ///< from one row to the next, of outputs and gradient
  std::size_t positions;  ///< labels a sample
  float smoothing;
  const StepState* step;
  const float* outputs;
  const std::int32_t* labels;
  double* losses;
  std::uint32_t* right;
  FloatsTo gradient;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t count = step->count * positions;
    if (row >= count) {
      put(team, row, [](std::size_t, float) { return 0.0F; });
      if (!team.leads()) return;
      losses[row] = 0;
      right[row] = 0;
      return;
    }
    const float* const own = outputs + row * stride;
    const auto label = static_cast<std::size_t>(labels[row]);
    const SoftMax all = soft_max(team, own);
    const float log_sum = ::logf(all.sum) + all.most;
    auto loss = static_cast<double>(log_sum - own[label]);
    if (smoothing > 0) {
      const double sum =
          team.sum(classes, [=](std::size_t i) { return static_cast<double>(log_sum - own[i]); });
      loss += static_cast<double>(smoothing) * (sum / static_cast<double>(classes) - loss);
    }
    const float share = 1.0F / static_cast<float>(count);
    const float scale = 1.0F / all.sum;
    const float everywhere = smoothing / static_cast<float>(classes);
    const float at_label = 1.0F - smoothing;
    put(team, row, [=](std::size_t i, float logit) {
      const float target = everywhere + (i == label ? at_label : 0.0F);
      return (::expf(logit - all.most) * scale - target) * share;
    });
    if (!team.leads()) return;
    losses[row] = loss;
    right[row] = all.index == label ? 1 : 0;
  }

 private:
  /// The number of whole, aligned fours in a row.
  [[nodiscard]] STARLING_BOTH std::size_t whole_fours() const {
    return stride % kFour == 0 ? classes / kFour : 0;
  }

  /// Over whole fours, without a branch between loads, and over the rest, which all members take.
  template <class Team>
  [[nodiscard]] STARLING_BOTH SoftMax soft_max(const Team& team, const float* row) const {
    const std::size_t whole = whole_fours();
    if (whole == 0) {
      return team.sum((classes + kFour - 1) / kFour, [=, this](std::size_t i) {
        return SoftMax::of(four(row, i * kFour), i * kFour);
      });
    }
    SoftMax all = team.sum(whole, [=](std::size_t i) {
      return SoftMax::of(FloatsAs<float>{row}.four(i * kFour), i * kFour);
    });
    const std::size_t end = whole * kFour;
    if (end < classes) all += SoftMax::of(four(row, end), end);
    return all;
  }

  /// A row's logits from `i` on; after its end, values that add nothing.
  [[nodiscard]] STARLING_BOTH Four four(const float* row, std::size_t i) const {
    Four some{};
    for (std::size_t k = 0; k < kFour; ++k) {
      some.of[k] = i + k < classes ? row[i + k] : -std::numeric_limits<float>::infinity();
    }
    return some;
  }

  /// The gradient's row: the results of `f` for the logits, and zeros in the gap. Starts at the
  /// row's end: of a long row, the part read last is still in the cache.
  template <class Team, class F>
  STARLING_BOTH void put(const Team& team, std::size_t row, const F& f) const {
    if (!gradient.is_wanted()) return;
    const float* const own = outputs + row * stride;
    const FloatsTo to = gradient.from(row * stride);
    const std::size_t whole = whole_fours();
    const std::size_t fours = (stride + kFour - 1) / kFour;
    team.each(fours - whole, [&](std::size_t i) {
      for (std::size_t k = (whole + i) * kFour; k < (whole + i + 1) * kFour && k < stride; ++k) {
        to.put(k, k < classes ? f(k, own[k]) : 0.0F);
      }
    });
    const auto put_four = [&](std::size_t first, const Four& logits) {
      to.put_four(first, {f(first, logits.of[0]), f(first + 1, logits.of[1]),
                          f(first + 2, logits.of[2]), f(first + 3, logits.of[3])});
    };
    // Two at a time, so that two loads are in flight.
    const FloatsAs<float> from{own};
    team.each(whole / 2, [&](std::size_t i) {
      const std::size_t first = (whole / 2 - 1 - i) * 2 * kFour;
      const Four one = from.four(first);
      const Four other = from.four(first + kFour);
      put_four(first, one);
      put_four(first + kFour, other);
    });
    if (whole % 2 == 0 || !team.leads()) return;
    put_four((whole - 1) * kFour, from.four((whole - 1) * kFour));
  }
};

/// Mean squared difference of each sample's outputs to its targets, and in training the gradient
/// of the mean over the samples.
struct MeanSquared {
  static constexpr bool kByRows = true;
  std::size_t width;
  const StepState* step;
  const float* outputs;
  const float* targets;
  double* losses;
  std::uint32_t* right;
  float* gradient;  ///< null: none

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const std::size_t count = step->count;
    const float* const own = outputs + row * width;
    const float* const wanted = targets + row * width;
    const bool given = row < count;
    if (gradient != nullptr) {
      float* const to = gradient + row * width;
      const float scale = 2.0F / static_cast<float>(count * width);
      team.each(width, [=](std::size_t i) { to[i] = given ? scale * (own[i] - wanted[i]) : 0.0F; });
    }
    const double sum = team.sum(given ? width : 0, [=](std::size_t i) {
      const double difference = static_cast<double>(own[i]) - static_cast<double>(wanted[i]);
      return difference * difference;
    });
    if (!team.leads()) return;
    losses[row] = sum / static_cast<double>(width);
    right[row] = 0;
  }
};

/// Sums the rows' losses; one row.
struct AddUp {
  static constexpr bool kByRows = true;
  std::size_t rows;
  const double* losses;
  const std::uint32_t* right;
  Totals* totals;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t) const {
    const double* const from = losses;
    const std::uint32_t* const hits = right;
    const double sum = team.sum(rows, [=](std::size_t i) { return from[i]; });
    const auto correct =
        team.sum(rows, [=](std::size_t i) { return static_cast<unsigned long long>(hits[i]); });
    if (!team.leads()) return;
    totals->loss_sum = sum;
    totals->correct = correct;
  }
};

}  // namespace starling::compute::cuda
