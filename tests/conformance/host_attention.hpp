// Attention in one call, on the processor: what FusedAttention says, step by step.
#pragma once

#include "compute/cuda/attention.hpp"

namespace starling::conformance {

void attend(const compute::cuda::FusedAttention& attention);

}  // namespace starling::conformance
