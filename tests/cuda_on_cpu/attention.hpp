// Attention in one call, on the processor: FusedAttention's formulas, step by step.
#pragma once

#include "cuda/kernels/attention.hpp"

namespace starling::cuda_on_cpu {

void attend(const compute::cuda::FusedAttention& attention);

}  // namespace starling::cuda_on_cpu
