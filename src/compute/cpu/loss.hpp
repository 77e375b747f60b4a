// Losses and their gradients, in plain rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/program.hpp"

namespace starling::compute::cpu {

/// The figures of a row in softmax_cross_entropy, so that rows are summed in order with any number
/// of threads.
struct RowLoss {
  double loss = 0;
  bool is_hit = false;
};

/// Sums loss and hits over labels.size() rows of `classes` outputs each. The sum over the rows is
/// in double precision, in order; that of a row's exponentials is in floats. This is evaluation's
/// loss, with labels that are not smoothed. `rows` has one element per label.
[[nodiscard]] Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                               std::span<const std::int32_t> labels,
                                               std::uint32_t classes, std::span<RowLoss> rows);

/// Training's loss: smooths the labels, and writes the gradient of the mean loss with respect to
/// the outputs. Rows of `gradient` beyond labels.size() (the rest of a short batch) become zero.
[[nodiscard]] Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                               std::span<const std::int32_t> labels,
                                               std::uint32_t classes, std::span<RowLoss> rows,
                                               float label_smoothing, std::span<float> gradient);

/// Mean squared difference of `width` outputs a sample to their targets, summed over the samples;
/// `correct` stays 0.
[[nodiscard]] Evaluation mean_squared(std::span<const float> outputs,
                                      std::span<const float> targets, std::size_t width);

/// The same with the gradient of the mean over the samples; its rest becomes zero.
[[nodiscard]] Evaluation mean_squared(std::span<const float> outputs,
                                      std::span<const float> targets, std::size_t width,
                                      std::span<float> gradient);

}  // namespace starling::compute::cpu
