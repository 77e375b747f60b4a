// Products of matrices rounded to bfloat16.
#pragma once

#include <cstddef>

#include "compute/cpu/gemm.hpp"

namespace starling::compute::cpu {

/// Rows and columns of a part of a result that starts within it are best multiples of this.
inline constexpr std::size_t kBf16Tile = 32;

/// The part of the result in these rows and columns, where has_bfloat16().
void gemm_part_bf16(const Gemm& product, std::size_t row_from, std::size_t row_to,
                    std::size_t column_from, std::size_t column_to);

}  // namespace starling::compute::cpu
