// Softmax cross-entropy on the host: a few outputs a sample, not worth a device's attention.
#pragma once

#include <cstdint>
#include <span>

#include "compute/program.hpp"

namespace starling::compute {

/// Adds up loss and hits over labels.size() rows of `classes` outputs each. The sum runs in
/// double precision, in order.
[[nodiscard]] Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                               std::span<const std::uint8_t> labels,
                                               std::uint32_t classes);

/// The same, and writes the gradient of the mean loss with respect to the outputs. Rows of
/// `gradient` beyond labels.size() (the rest of a short batch) become zero.
[[nodiscard]] Evaluation softmax_cross_entropy(std::span<const float> outputs,
                                               std::span<const std::uint8_t> labels,
                                               std::uint32_t classes, std::span<float> gradient);

}  // namespace starling::compute
