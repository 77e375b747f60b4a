// Products of matrices by cuBLASLt: sums in single precision, of factors in single precision (no
// TF32) or in bfloat16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cuda/kernels/gemm.hpp"
#include "cuda/kernels/work.hpp"
#include "cuda/libraries/checked.hpp"

namespace starling::compute::cuda {

/// A product with its algorithm; its addresses stay.
struct BlasGemm {
  using Descriptor = std::unique_ptr<cublasLtMatmulDescOpaque_t, Freed<cublasLtMatmulDescDestroy>>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Freed<cublasLtMatrixLayoutDestroy>>;

  Gemm gemm;
  Descriptor descriptor;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;       ///< bytes
  std::optional<KernelWork> rest;  ///< bias and ReLU, where the algorithm leaves them to a kernel
};

/// cuBLASLt as one queue uses it: made by it, on its thread, for its device, and gone with it.
class Blas {
 public:
  [[nodiscard]] static base::Result<Blas> create();

  /// Chooses an algorithm: the same one for equal products, of those that add up partial sums apart
  /// from the result. Where there is none, one without bias and ReLU, then one that adds up in the
  /// result (in a fixed order, too, as cuBLAS says).
  [[nodiscard]] base::Result<BlasGemm> prepare(const Gemm& gemm) const;
  /// The product without its rest. `workspace` has at least the bytes that prepare asked for.
  [[nodiscard]] base::Status run(const BlasGemm& gemm, void* workspace, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cublasLtContext* handle) const noexcept { cublasLtDestroy(handle); }
  };
  using Handle = std::unique_ptr<cublasLtContext, Destroy>;

  /// An algorithm for what is described, to `made`; false where cuBLAS has none.
  [[nodiscard]] base::Result<bool> choose(BlasGemm& made, std::uint32_t reductions) const;

  explicit Blas(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace starling::compute::cuda
