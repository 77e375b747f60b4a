// The parts of a model that the data determines: its input and its output.
#pragma once

#include <cstdint>

#include "compute/graph.hpp"

namespace starling::model {

struct InputOutput {
  /// Shape of a sample: {features}, {channels, height, width} or {positions, features}, or
  /// {positions} of tokens.
  compute::Shape input;
  std::uint32_t vocabulary = 0;  ///< tokens are below it; 0: samples are floats
  /// Classes of the labels, or values of a target; 0: not known, so any output of the last layer
  /// fits.
  std::uint32_t outputs = 0;
};

}  // namespace starling::model
