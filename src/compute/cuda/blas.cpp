#include "compute/cuda/blas.hpp"

#include <cstdint>
#include <utility>

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kBlasWorkspaceMax = std::size_t{32} << 20;

/// The largest power of two, up to 256, that the address is a multiple of.
std::uint32_t alignment_of(const void* address) {
  std::uint32_t alignment = 256;
  while (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) alignment /= 2;
  return alignment;
}

template <class T>
cublasStatus_t set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t what,
                   const T& value) {
  return cublasLtMatmulDescSetAttribute(descriptor, what, &value, sizeof(value));
}

template <class T>
cublasStatus_t set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
                   const T& value) {
  return cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof(value));
}

/// The first that is not success.
cublasStatus_t first_failure(std::initializer_list<cublasStatus_t> answers) {
  for (const cublasStatus_t answer : answers) {
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
  }
  return CUBLAS_STATUS_SUCCESS;
}

Result<BlasGemm::Layout> layout_of(const ColumnMatrix& matrix, std::size_t batch,
                                   cudaDataType_t type) {
  cublasLtMatrixLayout_t raw = nullptr;
  auto made =
      checked(cublasLtMatrixLayoutCreate(&raw, type, matrix.rows, matrix.columns, matrix.stride),
              "describing a matrix");
  if (!made) return fail(made.error());
  BlasGemm::Layout layout(raw);
  if (batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(batch);
  made = checked(first_failure({cublasLtMatrixLayoutSetAttribute(
                                    raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                                cublasLtMatrixLayoutSetAttribute(
                                    raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.step,
                                    sizeof(matrix.step))}),
                 "describing a batch of matrices");
  if (!made) return fail(made.error());
  return layout;
}

Result<BlasGemm::Descriptor> descriptor_of(const Gemm& gemm, const ColumnGemm& columns) {
  cublasLtMatmulDesc_t raw = nullptr;
  auto made = checked(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "describing a product");
  if (!made) return fail(made.error());
  BlasGemm::Descriptor descriptor(raw);
  const cublasOperation_t a = columns.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = columns.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue =
      gemm.bias != nullptr ? (gemm.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                           : (gemm.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
  made = checked(first_failure({set(raw, CUBLASLT_MATMUL_DESC_TRANSA, a),
                                set(raw, CUBLASLT_MATMUL_DESC_TRANSB, b),
                                set(raw, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)}),
                 "describing a product");
  if (made && gemm.bias != nullptr) {
    made = checked(set(raw, CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias), "describing a bias");
  }
  if (!made) return fail(made.error());
  return descriptor;
}

}  // namespace

Result<Blas> Blas::create() {
  cublasLtHandle_t handle = nullptr;
  if (auto made = checked(cublasLtCreate(&handle), "its start"); !made) return fail(made.error());
  return Blas(Handle(handle));
}

Result<BlasGemm> Blas::prepare(const Gemm& gemm) const {
  const ColumnGemm columns = by_columns(gemm);
  BlasGemm made{.gemm = gemm};
  auto descriptor = descriptor_of(gemm, columns);
  if (!descriptor) return fail(descriptor.error());
  made.descriptor = std::move(*descriptor);
  for (auto [to, matrix] : {std::pair{&made.a, &columns.a}, std::pair{&made.b, &columns.b},
                            std::pair{&made.d, &columns.d}}) {
    const bool rounded = gemm.rounded && to != &made.d;
    auto layout = layout_of(*matrix, gemm.batch, rounded ? CUDA_R_16BF : CUDA_R_32F);
    if (!layout) return fail(layout.error());
    *to = std::move(*layout);
  }
  cublasLtMatmulPreference_t raw = nullptr;
  auto done = checked(cublasLtMatmulPreferenceCreate(&raw), "choosing an algorithm");
  if (!done) return fail(done.error());
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Freed<cublasLtMatmulPreferenceDestroy>>
      preference(raw);
  // Partial sums in place are added up as they come; apart from each other they have an order.
  const auto reductions = static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  const std::uint32_t result = alignment_of(gemm.result);
  done = checked(
      first_failure(
          {set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kBlasWorkspaceMax),
           set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(gemm.right.data)),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(gemm.left.data)),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result)}),
      "choosing an algorithm");
  if (!done) return fail(done.error());
  cublasLtMatmulHeuristicResult_t chosen{};
  int found = 0;
  const cublasStatus_t answer = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), made.descriptor.get(), made.a.get(), made.b.get(), made.d.get(), made.d.get(),
      raw, 1, &chosen, &found);
  if (answer != CUBLAS_STATUS_SUCCESS || found == 0 || chosen.state != CUBLAS_STATUS_SUCCESS) {
    return fail(ErrorCode::device, "cuBLAS has no algorithm for a product of {}x{} and {}x{} ({})",
                gemm.rows, gemm.depth, gemm.depth, gemm.columns, cublasLtGetStatusString(answer));
  }
  made.algorithm = chosen.algo;
  made.workspace = chosen.workspaceSize;
  return made;
}

Status Blas::run(const BlasGemm& gemm, void* workspace, cudaStream_t stream) const {
  const float one = 1;
  const float none = 0;
  return checked(cublasLtMatmul(handle_.get(), gemm.descriptor.get(), &one, gemm.gemm.right.data,
                                gemm.a.get(), gemm.gemm.left.data, gemm.b.get(), &none,
                                gemm.gemm.result, gemm.d.get(), gemm.gemm.result, gemm.d.get(),
                                &gemm.algorithm, workspace, gemm.workspace, stream),
                 "a product of matrices");
}

}  // namespace starling::compute::cuda
