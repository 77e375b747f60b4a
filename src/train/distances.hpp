// How far replicas are apart, for reports and checks.
#pragma once

#include <vector>

namespace starling::train {

/// |x_i - mean| / |mean| of each vector x_i, all of one size; empty for fewer than two.
[[nodiscard]] std::vector<double> distances(const std::vector<std::vector<float>>& all);

}  // namespace starling::train
