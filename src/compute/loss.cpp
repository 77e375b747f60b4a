#include "compute/loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/assert.hpp"

namespace starling::compute {

namespace {

/// Loss and hits of one row; leaves exp(output - largest) in `powers` and returns their sum.
float add_row(std::span<const float> row, std::uint8_t label, std::span<float> powers,
              Evaluation& evaluation) {
  ASSERT(label < row.size(), "labels are checked where they are read");
  const auto largest = std::ranges::max_element(row);
  float sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    powers[i] = std::exp(row[i] - *largest);
    sum += powers[i];
  }
  evaluation.loss_sum += static_cast<double>(std::log(sum) - (row[label] - *largest));
  evaluation.correct += largest - row.begin() == label ? 1 : 0;
  ++evaluation.count;
  return sum;
}

}  // namespace

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::uint8_t> labels, std::uint32_t classes) {
  ASSERT(outputs.size() >= labels.size() * classes && classes <= kMaxClasses);
  Evaluation evaluation;
  std::array<float, kMaxClasses> powers;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    add_row(outputs.subspan(i * classes, classes), labels[i], powers, evaluation);
  }
  return evaluation;
}

Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                 std::span<const std::uint8_t> labels, std::uint32_t classes,
                                 std::span<float> gradient) {
  ASSERT(outputs.size() >= labels.size() * classes && gradient.size() >= labels.size() * classes);
  Evaluation evaluation;
  const float count = static_cast<float>(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<float> row = gradient.subspan(i * classes, classes);
    const float sum = add_row(outputs.subspan(i * classes, classes), labels[i], row, evaluation);
    for (float& value : row) value = value / sum / count;
    row[labels[i]] -= 1.0F / count;
  }
  std::ranges::fill(gradient.subspan(labels.size() * classes), 0.0F);
  return evaluation;
}

}  // namespace starling::compute
