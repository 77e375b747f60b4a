#include "compute/loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"

namespace starling::compute {

namespace {

/// A row's figures that loss and gradient are made of.
struct Row {
  std::size_t largest;  ///< index of the largest output, the first of equals
  float sum;            ///< of exp(output - largest output)
};

Row look_at(std::span<const float> row) {
  const auto largest = std::ranges::max_element(row);
  float sum = 0;
  for (const float output : row) sum += std::exp(output - *largest);
  return {static_cast<std::size_t>(largest - row.begin()), sum};
}

/// With smoothing e, the target is 1 - e at the label plus e / classes at every class.
void add_row(std::span<const float> row, std::int32_t label, float smoothing, const Row& seen,
             Evaluation& evaluation) {
  const float log_sum = std::log(seen.sum) + row[seen.largest];
  double loss = static_cast<double>(log_sum - row[static_cast<std::size_t>(label)]);
  if (smoothing > 0) {
    double mean = 0;
    for (const float output : row) mean += static_cast<double>(log_sum - output);
    mean /= static_cast<double>(row.size());
    loss += static_cast<double>(smoothing) * (mean - loss);
  }
  evaluation.loss_sum += loss;
  evaluation.correct += seen.largest == static_cast<std::size_t>(label) ? 1 : 0;
  ++evaluation.count;
}

}  // namespace

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::int32_t> labels, std::uint32_t classes) {
  ASSERT(outputs.size() >= labels.size() * classes);
  Evaluation evaluation;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row = outputs.subspan(i * classes, classes);
    ASSERT(static_cast<std::uint32_t>(labels[i]) < classes, "labels are checked where read");
    add_row(row, labels[i], 0, look_at(row), evaluation);
  }
  return evaluation;
}

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::int32_t> labels, std::uint32_t classes,
                                 float label_smoothing, std::span<float> gradient) {
  ASSERT(outputs.size() >= labels.size() * classes && gradient.size() >= labels.size() * classes);
  Evaluation evaluation;
  const float count = static_cast<float>(labels.size());
  const float everywhere = label_smoothing / static_cast<float>(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row = outputs.subspan(i * classes, classes);
    ASSERT(static_cast<std::uint32_t>(labels[i]) < classes, "labels are checked where read");
    const Row seen = look_at(row);
    add_row(row, labels[i], label_smoothing, seen, evaluation);
    float* out = gradient.data() + i * classes;
    for (std::size_t j = 0; j < classes; ++j) {
      out[j] = (std::exp(row[j] - row[seen.largest]) / seen.sum - everywhere) / count;
    }
    out[labels[i]] -= (1.0F - label_smoothing) / count;
  }
  std::ranges::fill(gradient.subspan(labels.size() * classes), 0.0F);
  return evaluation;
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

}  // namespace starling::compute
