// Products of matrices rounded to bfloat16.
#pragma once

#include <cstdint>
#include <span>

#include "compute/cpu/gemm.hpp"
#include "compute/cpu/gemm_bf16_kernel.hpp"

namespace starling::compute::cpu {

/// Those that this processor and its system can run, the fastest first; none where there is not
/// has_bfloat16().
[[nodiscard]] std::span<const Bf16Kernel* const> bf16_kernels() noexcept;

/// gemm() by one of these, with what is said there.
void gemm_bf16(const Bf16Kernel& kernel, const Gemm& product, std::uint32_t threads);

}  // namespace starling::compute::cpu
