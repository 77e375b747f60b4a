// Products of matrices rounded to bfloat16.
#pragma once

#include <cstdint>
#include <span>

#include "compute/cpu/gemm.hpp"
#include "compute/cpu/gemm_bf16_kernel.hpp"

namespace starling::compute::cpu {

/// The kernels that this processor and its system can run, the fastest first; none without
/// has_bfloat16().
[[nodiscard]] std::span<const Bf16Kernel* const> bf16_kernels() noexcept;

/// gemm() with one of these kernels; see there.
void gemm_bf16(const Bf16Kernel& kernel, const Gemm& product, std::uint32_t threads);

}  // namespace starling::compute::cpu
