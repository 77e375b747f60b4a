#include "cuda/libraries/blas.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kBlasWorkspaceMax = std::size_t{32} << 20;
/// Algorithms to request: some of the first may be unsuitable.
constexpr int kAlgorithmsMax = 8;
/// Partial sums have their own memory, and an order; or they are added in the result, one after
/// another.
constexpr std::uint32_t kApart =
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
constexpr std::uint32_t kInPlace = CUBLASLT_REDUCTION_SCHEME_MASK;

/// For a rounded result, whose partial sums are not rounded.
constexpr std::uint32_t kApartExact = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

/// The largest power of two, up to 256, that divides the address.
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

/// The first answer that is not success.
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

/// `biased`: the product also adds the bias.
Result<BlasGemm::Descriptor> descriptor_of(const Gemm& gemm, bool biased) {
  const ColumnGemm columns = by_columns(gemm);
  cublasLtMatmulDesc_t raw = nullptr;
  auto made = checked(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "describing a product");
  if (!made) return fail(made.error());
  BlasGemm::Descriptor descriptor(raw);
  const cublasOperation_t a = columns.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = columns.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  made = checked(first_failure({set(raw, CUBLASLT_MATMUL_DESC_TRANSA, a),
                                set(raw, CUBLASLT_MATMUL_DESC_TRANSB, b),
                                set(raw, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)}),
                 "describing a product");
  if (made && biased) {
    // Its type is the result's.
    const void* const bias = gemm.result_rounded ? static_cast<const void*>(gemm.rounded_bias)
                                                 : static_cast<const void*>(gemm.bias);
    made = checked(set(raw, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), "describing a bias");
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
  for (auto [to, matrix] : {std::pair{&made.a, &columns.a}, std::pair{&made.b, &columns.b},
                            std::pair{&made.d, &columns.d}}) {
    const bool rounded = to == &made.d ? gemm.result_rounded : gemm.rounded;
    auto layout = layout_of(*matrix, gemm.batch, rounded ? CUDA_R_16BF : CUDA_R_32F);
    if (!layout) return fail(layout.error());
    *to = std::move(*layout);
  }
  const std::optional<KernelWork> rest = rest_of(gemm);
  // cuBLASLt's ReLU turns NaN into zero, so a failure of training would go unnoticed.
  const bool may_bias = gemm.bias != nullptr && !gemm.relu;
  const std::uint32_t apart = gemm.result_rounded ? kApartExact : kApart;
  struct Attempt {
    bool biased;
    std::uint32_t reductions;
  };
  for (const auto [biased, reductions] :
       {Attempt{true, apart}, Attempt{false, apart}, Attempt{false, kInPlace}}) {
    if (biased && !may_bias) continue;
    auto descriptor = descriptor_of(gemm, biased);
    if (!descriptor) return fail(descriptor.error());
    made.descriptor = std::move(*descriptor);
    const auto chosen = choose(made, reductions);
    if (!chosen) return fail(chosen.error());
    if (!*chosen) continue;
    if (!biased && rest) {
      ASSERT(gemm.batch == 1 && gemm.result_stride == gemm.columns, "a layer's result is dense");
      made.rest = rest;
    }
    return made;
  }
  return fail(ErrorCode::device,
              "cuBLAS has no algorithm for a product of {}x{} and {}x{} in {}: make the layer's "
              "sides multiples of 8{}",
              gemm.rows, gemm.depth, gemm.depth, gemm.columns, gemm.rounded ? "bf16" : "float32",
              gemm.rounded ? ", or set train.precision to \"float32\"" : "");
}

Result<bool> Blas::choose(BlasGemm& made, std::uint32_t reductions) const {
  cublasLtMatmulPreference_t raw = nullptr;
  auto done = checked(cublasLtMatmulPreferenceCreate(&raw), "choosing an algorithm");
  if (!done) return fail(done.error());
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Freed<cublasLtMatmulPreferenceDestroy>>
      preference(raw);
  const Gemm& gemm = made.gemm;
  const std::uint32_t result = alignment_of(gemm.result);
  const std::uint32_t also = gemm.also == nullptr ? result : alignment_of(gemm.also);
  done = checked(
      first_failure(
          {set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kBlasWorkspaceMax),
           set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(gemm.right.data)),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(gemm.left.data)),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, also),
           set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result)}),
      "choosing an algorithm");
  if (!done) return fail(done.error());
  std::array<cublasLtMatmulHeuristicResult_t, kAlgorithmsMax> proposed{};
  int count = 0;
  const cublasStatus_t answer = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), made.descriptor.get(), made.a.get(), made.b.get(), made.d.get(), made.d.get(),
      raw, kAlgorithmsMax, proposed.data(), &count);
  if (answer == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  done = checked(answer, "choosing an algorithm");
  if (!done) return fail(done.error());
  const auto end = proposed.begin() + std::clamp(count, 0, kAlgorithmsMax);
  const auto first = std::find_if(
      proposed.begin(), end, [](const auto& one) { return one.state == CUBLAS_STATUS_SUCCESS; });
  if (first == end) return false;
  made.algorithm = first->algo;
  made.workspace = first->workspaceSize;
  return true;
}

Status Blas::run(const BlasGemm& gemm, void* workspace, cudaStream_t stream) const {
  const float one = 1;
  const void* const also = gemm.gemm.also;
  const float share = also == nullptr ? 0.0F : 1.0F;
  return checked(
      cublasLtMatmul(handle_.get(), gemm.descriptor.get(), &one, gemm.gemm.right.data, gemm.a.get(),
                     gemm.gemm.left.data, gemm.b.get(), &share,
                     also == nullptr ? gemm.gemm.result : also, gemm.d.get(), gemm.gemm.result,
                     gemm.d.get(), &gemm.algorithm, workspace, gemm.workspace, stream),
      "a product of matrices");
}

}  // namespace starling::compute::cuda
