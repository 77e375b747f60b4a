// Products of float32 matrices, row by row.
#pragma once

#include <cstddef>

namespace starling::compute::cpu {

enum class Turn : bool { no, yes };  ///< whether a matrix is taken transposed

/// c = alpha a b + beta c, where a (after its turn) is m x k and b k x n; the strides are those of
/// the stored rows. Uses the threads of the calling thread; inside a parallel region one.
void gemm(Turn turn_a, Turn turn_b, std::size_t m, std::size_t n, std::size_t k, float alpha,
          const float* a, std::size_t stride_a, const float* b, std::size_t stride_b, float beta,
          float* c, std::size_t stride_c);

}  // namespace starling::compute::cpu
