// How an algorithm is chosen for a product. cuBLASLt wants a GPU for that, so its two calls that do
// are ours here; those that describe a product are its own.
#include "cuda/libraries/blas.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::compute::cuda;

namespace {

/// The requests to cuBLASLt.
struct Question {
  cublasLtEpilogue_t epilogue{};
  std::uint32_t reductions = 0;

  friend bool operator==(const Question&, const Question&) = default;
};

constexpr std::uint32_t kApart = 6;
constexpr std::uint32_t kApartExact = 2;
constexpr std::uint32_t kAll = 7;

/// Replaces cuBLASLt's choice.
struct Heuristic {
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  ///< of all questions but this
  std::optional<Question> has{};                        ///< ... for which there is an algorithm
  std::vector<Question> asked{};
};
Heuristic heuristic;

/// A linear layer's; without `bias` as a product of attention.
Gemm layer(bool bias, bool relu = false) {
  static std::vector<float> memory(64);
  return {.rows = 3,
          .columns = 5,
          .depth = 7,
          .left = {.data = memory.data(), .stride = 7},
          .right = {.data = memory.data(), .stride = 7, .turned = true},
          .result = memory.data(),
          .result_stride = 5,
          .bias = bias ? memory.data() : nullptr,
          .relu = relu};
}

base::Result<BlasGemm> prepare(const Gemm& gemm, const Heuristic& by) {
  heuristic = by;
  const auto blas = Blas::create();
  BOOST_REQUIRE(blas);
  return blas->prepare(gemm);
}

}  // namespace

extern "C" cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference,
    int wanted, cublasLtMatmulHeuristicResult_t results[], int* count) {
  Question question;
  std::size_t size = 0;
  cublasLtMatmulDescGetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &question.epilogue,
                                 sizeof question.epilogue, &size);
  cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                       &question.reductions, sizeof question.reductions, &size);
  heuristic.asked.push_back(question);
  *count = 0;
  if (heuristic.has != question) return heuristic.status;
  // The first one turns out not to do.
  BOOST_REQUIRE(wanted >= 2);
  *count = 2;
  results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
  results[1].state = CUBLAS_STATUS_SUCCESS;
  results[1].workspaceSize = 42;
  return CUBLAS_STATUS_SUCCESS;
}

BOOST_AUTO_TEST_SUITE(cuda_blas)

BOOST_AUTO_TEST_CASE(a_product_has_the_first_algorithm_that_does) {
  const auto made = prepare(layer(true), {.has = Question{CUBLASLT_EPILOGUE_BIAS, kApart}});
  BOOST_REQUIRE(made);
  BOOST_TEST(made->workspace == 42U);
  BOOST_TEST(!made->rest.has_value());
  BOOST_TEST(heuristic.asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(where_none_adds_a_bias_a_kernel_does) {
  const auto made = prepare(layer(true), {.has = Question{CUBLASLT_EPILOGUE_DEFAULT, kApart}});
  BOOST_REQUIRE(made);
  BOOST_TEST_REQUIRE(made->rest.has_value());
  BOOST_TEST(std::get<FinishImage>(made->rest->kernel).bias == made->gemm.bias);
  BOOST_TEST(!std::get<FinishImage>(made->rest->kernel).relu);
}

BOOST_AUTO_TEST_CASE(a_relu_is_a_kernels_which_keeps_what_is_not_a_number) {
  const auto made =
      prepare(layer(true, true), {.has = Question{CUBLASLT_EPILOGUE_DEFAULT, kApart}});
  BOOST_REQUIRE(made);
  BOOST_TEST(heuristic.asked.size() == 1U);
  BOOST_TEST_REQUIRE(made->rest.has_value());
  BOOST_TEST(made->rest->count == 15U);
  const auto& rest = std::get<FinishImage>(made->rest->kernel);
  BOOST_TEST(rest.bias == made->gemm.bias);
  BOOST_TEST(rest.relu);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y{-3, -1, 0, 1, 2, -2, 5, 0, 1, 1, 0, 0, 0, 0, nan};
  const std::vector<float> bias{1, 2, 3, -4, -5};
  const FinishImage finish{rest.points, rest.channels, bias.data(),        rest.relu,
                           rest.n,      {y.data()},    {.exact = y.data()}};
  for (std::size_t i = 0; i < made->rest->count; i += FinishImage::kWide) finish(i);
  BOOST_TEST(std::isnan(y.back()));
  y.pop_back();
  const std::vector<float> expected{0, 1, 3, 0, 0, 0, 7, 3, 0, 0, 1, 2, 3, 0};
  BOOST_TEST(y == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(where_none_adds_up_apart_one_that_does_in_place_is_taken) {
  for (const bool bias : {false, true}) {
    const auto made = prepare(layer(bias), {.has = Question{CUBLASLT_EPILOGUE_DEFAULT, kAll}});
    BOOST_REQUIRE(made);
    BOOST_TEST(made->rest.has_value() == bias);
    BOOST_TEST(heuristic.asked.size() == (bias ? 3U : 2U));
  }
}

BOOST_AUTO_TEST_CASE(partial_sums_of_a_rounded_result_are_not_rounded) {
  Gemm gemm = layer(true);
  gemm.rounded = gemm.result_rounded = true;
  const auto made = prepare(gemm, {.has = Question{CUBLASLT_EPILOGUE_BIAS, kApartExact}});
  BOOST_REQUIRE(made);
  BOOST_TEST(heuristic.asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_product_without_any_is_an_error_with_its_sides) {
  const auto made = prepare(layer(true), {});
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().code == base::ErrorCode::device));
  BOOST_TEST(made.error().text.find("3x7 and 7x5") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_failure_of_cublas_is_told_at_once) {
  const auto made = prepare(layer(true), {.status = CUBLAS_STATUS_INTERNAL_ERROR});
  BOOST_REQUIRE(!made);
  BOOST_TEST(made.error().text.find("cuBLAS failed") != std::string::npos);
  BOOST_TEST(heuristic.asked.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
