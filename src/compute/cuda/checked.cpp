#include "compute/cuda/checked.hpp"

#include <array>

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Status;

namespace {

/// After these nothing works in this process any more.
bool is_lost(cudaError_t answer) {
  switch (answer) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status checked(cudaError_t answer, std::string_view what) {
  if (answer == cudaSuccess) return {};
  return fail(ErrorCode::device, "CUDA failed at {}: {} ({}){}", what, cudaGetErrorString(answer),
              cudaGetErrorName(answer),
              is_lost(answer) ? "; the GPU is lost to this process: start it again. With "
                                "STARLING_CUDA_CHECK=1 the error names the layer"
                              : "");
}

Status checked(cublasStatus_t answer, std::string_view what) {
  if (answer == CUBLAS_STATUS_SUCCESS) return {};
  return fail(ErrorCode::device, "cuBLAS failed at {}: {}", what, cublasLtGetStatusString(answer));
}

Status checked(cudnnStatus_t answer, std::string_view what) {
  if (answer == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 512> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  return fail(ErrorCode::device, "cuDNN failed at {}: {} ({})", what, cudnnGetErrorString(answer),
              words.data());
}

}  // namespace starling::compute::cuda
