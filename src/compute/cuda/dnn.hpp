// Convolutions by cuDNN's graph interface, through its backend calls: a graph of one operation
// each. Sums are in single precision (no TF32), tensors too, or all three in bfloat16: cuDNN 9 has
// no engine that would take bfloat16 and give float32.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "compute/cuda/checked.hpp"
#include "compute/cuda/images.hpp"

namespace starling::compute::cuda {

/// One of cuDNN's descriptors. The first call that fails is remembered, and later ones do nothing:
/// finish() tells.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     const T* values, std::int64_t count) {
    if (status_ == CUDNN_STATUS_SUCCESS) {
      status_ = cudnnBackendSetAttribute(raw(), name, type, count, values);
    }
    return *this;
  }
  template <class T>
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     const T& value) {
    return set(name, type, &value, 1);
  }
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.raw());
  }
  /// Nothing may be set afterwards.
  [[nodiscard]] cudnnStatus_t finish();
  [[nodiscard]] cudnnBackendDescriptor_t raw() const noexcept { return owned_.get(); }

 private:
  std::unique_ptr<void, Freed<cudnnBackendDestroyDescriptor>> owned_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

/// A convolution with its engine; its addresses stay.
struct DnnConvolution {
  Convolution convolution;
  DnnDescriptor plan;
  std::size_t workspace = 0;  ///< bytes
};

class Dnn {
 public:
  [[nodiscard]] static base::Result<Dnn> create(cudaStream_t stream);
  /// For GPUs that are not there: prepares as for the one that cuDNN's JSON describes, and cannot
  /// run.
  [[nodiscard]] static base::Result<Dnn> create_for(const std::string& device_json);

  /// Chooses an engine that rounds no more than the tensors' type does (no transforms) and gives
  /// the same bits each time; nothing where cuDNN has none.
  [[nodiscard]] base::Result<std::optional<DnnConvolution>> prepare(
      const Convolution& convolution) const;
  /// `workspace` has at least the bytes that prepare asked for.
  [[nodiscard]] base::Status run(const DnnConvolution& convolution, void* workspace) const;

 private:
  using Handle = std::unique_ptr<cudnnContext, Freed<cudnnDestroy>>;

  Dnn(Handle handle, std::optional<DnnDescriptor> device)
      : handle_(std::move(handle)), device_(std::move(device)) {}

  [[nodiscard]] std::optional<DnnConvolution> first_plan(const Convolution& convolution,
                                                         const DnnDescriptor& graph,
                                                         cudnnBackendHeurMode_t mode) const;
  [[nodiscard]] std::optional<DnnConvolution> plan_of(const Convolution& convolution,
                                                      DnnDescriptor& choice) const;

  Handle handle_;
  std::optional<DnnDescriptor> device_;
};

}  // namespace starling::compute::cuda
