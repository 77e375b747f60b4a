#include "cuda/libraries/checked.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Status;

namespace {

/// Errors after which nothing works in this process any more: those that CUDA's header describes
/// so, and errors of the GPU's memory.
bool is_lost(cudaError_t answer) {
  switch (answer) {
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

/// Advice for the user.
const char* advice(cudaError_t answer) {
  if (answer == cudaErrorDevicesUnavailable) {
    return "; another process has the GPU, or its compute mode forbids this one: see nvidia-smi";
  }
  if (answer == cudaErrorSystemNotReady) {
    return "; on machines with NVSwitch the service nvidia-fabricmanager has to run";
  }
  if (answer == cudaErrorSystemDriverMismatch) {
    return "; the loaded kernel module is another version than the driver's libraries: start the "
           "machine again";
  }
  if (!is_lost(answer)) return "";
  return "; the GPU is lost to this process: start it again. With STARLING_CUDA_CHECK=1 the error "
         "names the layer";
}

std::string words_of(cudaError_t answer) {
  return fmt::format("{} ({}){}", cudaGetErrorString(answer), cudaGetErrorName(answer),
                     advice(answer));
}

/// CUDA's own error after a library on top of it has failed. Libraries have their own CUDA runtime,
/// whose last error ours does not know; but if the GPU is lost, every call says why.
std::string reason() {
  std::size_t free = 0;
  std::size_t total = 0;
  const cudaError_t answer = cudaMemGetInfo(&free, &total);
  static_cast<void>(cudaGetLastError());
  return answer == cudaSuccess ? "" : "; CUDA says: " + words_of(answer);
}

}  // namespace

Status checked(cudaError_t answer, std::string_view what) {
  if (answer == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // it is reported here, not at the next call
  return fail(ErrorCode::device, "CUDA failed at {}: {}", what, words_of(answer));
}

Status checked(cublasStatus_t answer, std::string_view what) {
  if (answer == CUBLAS_STATUS_SUCCESS) return {};
  return fail(ErrorCode::device, "cuBLAS failed at {}: {}{}", what, cublasLtGetStatusString(answer),
              reason());
}

Status checked(cudnnStatus_t answer, std::string_view what) {
  if (answer == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 512> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  return fail(ErrorCode::device, "cuDNN failed at {}: {} ({}){}", what, cudnnGetErrorString(answer),
              words.data(), reason());
}

}  // namespace starling::compute::cuda
