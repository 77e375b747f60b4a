// Functions of one element that a network may apply. A separate header, since device compilers read
// it.
#pragma once

#include <cstdint>

namespace starling::compute {

enum class ActivationKind : std::uint8_t {
  relu,
  gelu,       ///< x Phi(x), by the error function
  gelu_tanh,  ///< GPT-2's approximation of it
  silu,       ///< x / (1 + exp(-x))
};

}  // namespace starling::compute
