// Turns the answers of CUDA's libraries into our errors.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "base/result.hpp"

namespace starling::compute::cuda {

/// `what` names the attempt: "copying to the GPU".
[[nodiscard]] base::Status checked(cudaError_t answer, std::string_view what);
[[nodiscard]] base::Status checked(cublasStatus_t answer, std::string_view what);
/// Includes cuDNN's own last message.
[[nodiscard]] base::Status checked(cudnnStatus_t answer, std::string_view what);

/// A deleter that calls kFree.
template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* owned) const noexcept {
    static_cast<void>(kFree(owned));
  }
};

}  // namespace starling::compute::cuda
