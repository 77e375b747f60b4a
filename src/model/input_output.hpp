// What the data decides of a model: what goes in, and what has to come out.
#pragma once

#include <cstdint>

#include "compute/graph.hpp"

namespace starling::model {

struct InputOutput {
  /// Shape of a sample: {features}, {channels, height, width} or {positions, features}, or
  /// {positions} of tokens.
  compute::Shape input;
  std::uint32_t vocabulary = 0;  ///< tokens are below it; 0: samples are floats
  /// Classes of the labels, or values of a target; 0: not known, whatever the last layer gives.
  std::uint32_t outputs = 0;
};

}  // namespace starling::model
