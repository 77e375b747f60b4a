// Products of matrices by cuBLASLt: sums in single precision, of factors in single precision (no
// TF32) or in bfloat16.
#pragma once

#include <cstddef>
#include <memory>

#include "compute/cuda/checked.hpp"
#include "compute/cuda/gemm.hpp"

namespace starling::compute::cuda {

/// A product with its algorithm; its addresses stay.
struct BlasGemm {
  using Descriptor = std::unique_ptr<cublasLtMatmulDescOpaque_t, Freed<cublasLtMatmulDescDestroy>>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Freed<cublasLtMatrixLayoutDestroy>>;

  Gemm gemm;
  Descriptor descriptor;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;  ///< bytes
};

class Blas {
 public:
  [[nodiscard]] static base::Result<Blas> create();

  /// Chooses an algorithm: the same one for equal products, and only of those that add up in a
  /// fixed order.
  [[nodiscard]] base::Result<BlasGemm> prepare(const Gemm& gemm) const;
  /// `workspace` has at least the bytes that prepare asked for.
  [[nodiscard]] base::Status run(const BlasGemm& gemm, void* workspace, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cublasLtContext* handle) const noexcept { cublasLtDestroy(handle); }
  };
  using Handle = std::unique_ptr<cublasLtContext, Destroy>;

  explicit Blas(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace starling::compute::cuda
