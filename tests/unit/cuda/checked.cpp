// Texts of CUDA's errors; no GPU is needed.
#include "cuda/libraries/checked.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::compute::cuda;

namespace {

bool says(cudaError_t answer, const std::string& part) {
  const base::Status failed = checked(answer, "a test");
  return !failed && failed.error().text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_checked)

BOOST_AUTO_TEST_CASE(after_an_error_that_stays_the_process_has_to_be_started_again) {
  for (const cudaError_t answer :
       {cudaErrorIllegalAddress, cudaErrorContained, cudaErrorAssert, cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc, cudaErrorTensorMemoryLeak, cudaErrorMpsClientTerminated,
        cudaErrorExternalDevice}) {
    BOOST_TEST(says(answer, "start it again"), cudaGetErrorName(answer));
  }
  for (const cudaError_t answer :
       {cudaErrorDevicesUnavailable, cudaErrorMemoryAllocation, cudaErrorInvalidValue}) {
    BOOST_TEST(!says(answer, "start it again"), cudaGetErrorName(answer));
  }
}

BOOST_AUTO_TEST_CASE(a_gpu_that_another_process_has_is_said_to_be_busy) {
  BOOST_TEST(says(cudaErrorDevicesUnavailable, "another process has the GPU"));
}

BOOST_AUTO_TEST_CASE(a_librarys_failure_is_told_with_what_ails_the_gpu) {
  std::size_t free = 0;
  std::size_t total = 0;
  const bool ails = cudaMemGetInfo(&free, &total) != cudaSuccess;  // for example, there is none
  static_cast<void>(cudaGetLastError());
  const auto failed = checked(CUBLAS_STATUS_EXECUTION_FAILED, "a test");
  BOOST_REQUIRE(!failed);
  BOOST_TEST((failed.error().text.find("CUDA says") != std::string::npos) == ails);
}

BOOST_AUTO_TEST_SUITE_END()
