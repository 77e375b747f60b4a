// Products of matrices by cuBLASLt: sums in single precision, with factors in single precision (no
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

/// A product with its algorithm; its addresses do not change.
struct BlasGemm {
  using Descriptor = std::unique_ptr<cublasLtMatmulDescOpaque_t, Freed<cublasLtMatmulDescDestroy>>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Freed<cublasLtMatrixLayoutDestroy>>;

  Gemm gemm;
  Descriptor descriptor;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;       ///< bytes
  std::optional<KernelWork> rest;  ///< bias and ReLU, if the algorithm leaves them to a kernel
};

/// cuBLASLt for one queue: made by the queue, on its thread, for its device, and destroyed with it.
class Blas {
 public:
  [[nodiscard]] static base::Result<Blas> create();

  /// Chooses an algorithm: the same one for equal products, from those that sum partial sums apart
  /// from the result. If there is none, one without bias and ReLU, then one that sums in the result
  /// (also in a fixed order, according to cuBLAS).
  [[nodiscard]] base::Result<BlasGemm> prepare(const Gemm& gemm) const;
  /// Runs the product without its rest. `workspace` has at least the bytes that prepare()
  /// requested.
  [[nodiscard]] base::Status run(const BlasGemm& gemm, void* workspace, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cublasLtContext* handle) const noexcept { cublasLtDestroy(handle); }
  };
  using Handle = std::unique_ptr<cublasLtContext, Destroy>;

  /// Puts an algorithm for the described product into `made`; false if cuBLAS has none.
  [[nodiscard]] base::Result<bool> choose(BlasGemm& made, std::uint32_t reductions) const;

  explicit Blas(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace starling::compute::cuda
