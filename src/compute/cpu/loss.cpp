#include "compute/cpu/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

/// If an output is this far below the largest, its exponential counts as 0: it changes no sum, and
/// its gradient would be a subnormal number, with which processors take many times as long.
constexpr float kFarBelow = -80.0F;

/// A row's figures, from which loss and gradient are computed.
struct Row {
  float largest;
  float sum;  ///< of exp(output - largest); NaN if an output is NaN or infinite
};

/// Calls keep(j, exp(output j - largest)) for every output.
template <class Keep>
STARLING_INLINE Row look_at(const float* row, std::size_t classes, const Keep& keep) {
  float largest = row[0];
#pragma omp simd reduction(max : largest)
  for (std::size_t j = 0; j < classes; ++j) largest = row[j] > largest ? row[j] : largest;
  float sum = 0;
  unsigned strange = 0;
#pragma omp simd reduction(+ : sum, strange)
  for (std::size_t j = 0; j < classes; ++j) {
    const float below = row[j] - largest;
    const float power = below < kFarBelow ? 0.0F : exp_of(below);
    strange += below <= 0 ? 0U : 1U;
    keep(j, power);
    sum += power;
  }
  return {largest, strange == 0 ? sum : std::numeric_limits<float>::quiet_NaN()};
}

/// Whether the label's output is the first of the largest ones.
STARLING_INLINE bool is_hit(const float* row, std::size_t label, float largest) {
  unsigned before = 0;
#pragma omp simd reduction(+ : before)
  for (std::size_t j = 0; j < label; ++j) before += row[j] == largest ? 1U : 0U;
  return before == 0 && row[label] == largest;
}

/// With smoothing e, the target is 1 - e at the label plus e / classes at every class.
STARLING_INLINE double smooth(double loss, const float* row, std::size_t classes, float log_sum,
                              float smoothing) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::size_t j = 0; j < classes; ++j) total += static_cast<double>(row[j]);
  const double mean = static_cast<double>(log_sum) - total / static_cast<double>(classes);
  return loss + static_cast<double>(smoothing) * (mean - loss);
}

STARLING_KERNEL
void evaluate_rows(const float* outputs, const std::int32_t* labels, std::size_t count,
                   std::size_t classes, RowLoss* rows) {
  for (std::size_t i = 0; i < count; ++i) {
    const float* const row = outputs + i * classes;
    const auto label = static_cast<std::size_t>(labels[i]);
    const Row seen = look_at(row, classes, [](std::size_t, float) {});
    const float log_sum = std::log(seen.sum) + seen.largest;
    rows[i] = {static_cast<double>(log_sum - row[label]), is_hit(row, label, seen.largest)};
  }
}

STARLING_KERNEL
void train_rows(const float* outputs, const std::int32_t* labels, std::size_t count,
                std::size_t classes, RowLoss* rows, float smoothing, float share, float* gradient) {
  const float everywhere = smoothing * share / static_cast<float>(classes);
  for (std::size_t i = 0; i < count; ++i) {
    const float* const row = outputs + i * classes;
    float* const out = gradient + i * classes;
    const auto label = static_cast<std::size_t>(labels[i]);
    const Row seen = look_at(row, classes, [out](std::size_t j, float power) { out[j] = power; });
    const float log_sum = std::log(seen.sum) + seen.largest;
    const auto loss = static_cast<double>(log_sum - row[label]);
    rows[i] = {smoothing > 0 ? smooth(loss, row, classes, log_sum, smoothing) : loss,
               is_hit(row, label, seen.largest)};
    const float scale = share / seen.sum;
#pragma omp simd
    for (std::size_t j = 0; j < classes; ++j) out[j] = out[j] * scale - everywhere;
    out[label] -= (1.0F - smoothing) * share;
  }
}

Evaluation sum_of(std::span<const RowLoss> rows) {
  Evaluation evaluation{.loss_sum = 0, .count = rows.size()};
  for (const RowLoss& row : rows) {
    evaluation.loss_sum += row.loss;
    evaluation.correct += row.is_hit ? 1 : 0;
  }
  return evaluation;
}

bool are_classes(std::span<const std::int32_t> labels, std::uint32_t classes) {
  return std::ranges::all_of(labels, [classes](std::int32_t label) {
    return static_cast<std::uint32_t>(label) < classes;
  });
}

}  // namespace

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::int32_t> labels, std::uint32_t classes,
                                 std::span<RowLoss> rows) {
  ASSERT(outputs.size() >= labels.size() * classes && rows.size() >= labels.size());
  ASSERT(are_classes(labels, classes), "labels are checked where read");
  in_parallel(labels.size(), kGrain / classes + 1, [&](std::size_t first, std::size_t last) {
    evaluate_rows(outputs.data() + first * classes, labels.data() + first, last - first, classes,
                  rows.data() + first);
  });
  return sum_of(rows.first(labels.size()));
}

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::int32_t> labels, std::uint32_t classes,
                                 std::span<RowLoss> rows, float label_smoothing,
                                 std::span<float> gradient) {
  ASSERT(outputs.size() >= labels.size() * classes && rows.size() >= labels.size());
  ASSERT(gradient.size() >= labels.size() * classes);
  ASSERT(are_classes(labels, classes), "labels are checked where read");
  const float share = 1.0F / static_cast<float>(labels.size());
  in_parallel(labels.size(), kGrain / classes + 1, [&](std::size_t first, std::size_t last) {
    train_rows(outputs.data() + first * classes, labels.data() + first, last - first, classes,
               rows.data() + first, label_smoothing, share, gradient.data() + first * classes);
  });
  std::ranges::fill(gradient.subspan(labels.size() * classes), 0.0F);
  return sum_of(rows.first(labels.size()));
}

Evaluation mean_squared(std::span<const float> outputs, std::span<const float> targets,
                        std::size_t width) {
  ASSERT(outputs.size() >= targets.size() && targets.size() % width == 0);
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double difference = static_cast<double>(outputs[i]) - static_cast<double>(targets[i]);
    sum += difference * difference;
  }
  return {.loss_sum = sum / static_cast<double>(width), .count = targets.size() / width};
}

Evaluation mean_squared(std::span<const float> outputs, std::span<const float> targets,
                        std::size_t width, std::span<float> gradient) {
  const Evaluation evaluation = mean_squared(outputs, targets, width);
  const float scale = 2.0F / static_cast<float>(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    gradient[i] = scale * (outputs[i] - targets[i]);
  }
  std::ranges::fill(gradient.subspan(targets.size()), 0.0F);
  return evaluation;
}

}  // namespace starling::compute::cpu
