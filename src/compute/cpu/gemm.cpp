#include "compute/cpu/gemm.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include "base/assert.hpp"

namespace starling::compute::cpu {

void gemm(Turn turn_a, Turn turn_b, std::size_t m, std::size_t n, std::size_t k, float alpha,
          const float* a, std::size_t stride_a, const float* b, std::size_t stride_b, float beta,
          float* c, std::size_t stride_c) {
  const auto letter = [](Turn turn) { return turn == Turn::yes ? 'T' : 'N'; };
  const auto size = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  const dnnl_status_t status =
      dnnl_sgemm(letter(turn_a), letter(turn_b), size(m), size(n), size(k), alpha, a,
                 size(stride_a), b, size(stride_b), beta, c, size(stride_c));
  ASSERT(status == dnnl_success, "sizes and strides fit together");
}

}  // namespace starling::compute::cpu
