// The median of what members tell, where of two in the middle the larger one counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/assert.hpp"

namespace starling::peer {

/// Of at least one value (ASSERT).
[[nodiscard]] inline double upper_median(std::vector<double> values) {
  ASSERT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace starling::peer
