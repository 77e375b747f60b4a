// cuDNN's graphs, through its backend calls: tensors, operations, and graphs of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/libraries/checked.hpp"

namespace starling::compute::cuda {

/// One of cuDNN's descriptors. The first failed call is remembered, and later ones do nothing:
/// finish() reports it.
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

/// A tensor's sides, and the distance in elements between neighbours along each.
struct DnnShape {
  using Sides = std::array<std::int64_t, 4>;

  Sides sides{};
  Sides strides{};

  /// Without gaps.
  [[nodiscard]] static DnnShape dense(const Sides& sides) {
    return {sides, {sides[1] * sides[2] * sides[3], sides[2] * sides[3], sides[3], 1}};
  }
  /// The same sides, with the second one last in memory.
  [[nodiscard]] static DnnShape channels_last(const Sides& sides) {
    return {sides, {sides[1] * sides[2] * sides[3], 1, sides[3] * sides[1], sides[1]}};
  }
  /// Swaps the last two sides; nothing moves in memory.
  [[nodiscard]] DnnShape transposed() const;
};

/// Bytes: less than the alignment of plans, and enough for engines.
inline constexpr std::int64_t kDnnAlignment = 16;

/// A tensor of a graph, not finished yet. `alignment` of its address is in bytes.
[[nodiscard]] DnnDescriptor dnn_tensor(std::int64_t number, const DnnShape& shape,
                                       cudnnDataType_t type,
                                       std::int64_t alignment = kDnnAlignment);
/// `handle` may be null, without a device.
[[nodiscard]] base::Result<DnnDescriptor> dnn_graph(const std::vector<DnnDescriptor>& operations,
                                                    cudnnHandle_t handle, std::string_view what);

/// Builds a graph of several operations. Tensors outside of it have numbers below kFirstInside. The
/// first failed call is remembered, and finish() reports it.
class DnnGraphBuilder {
 public:
  /// Its place among the graph's tensors.
  using Tensor = std::size_t;
  using Tensors = std::initializer_list<Tensor>;

  static constexpr std::int64_t kFirstInside = 1000;

  /// `what` names the graph in errors.
  explicit DnnGraphBuilder(std::string what) : what_(std::move(what)) {}

  Tensor outside(std::int64_t number, const DnnShape& shape) {
    return add(dnn_tensor(number, shape, CUDNN_DATA_BFLOAT16));
  }
  /// A tensor of floats, which may start anywhere: a part of a batch has any number of them.
  Tensor outside_floats(std::int64_t number, const DnnShape& shape) {
    return add(dnn_tensor(number, shape, CUDNN_DATA_FLOAT, sizeof(float)));
  }
  /// A float that is given with each run, from the host's memory.
  Tensor scalar(std::int64_t number) {
    DnnDescriptor made = dnn_tensor(number, DnnShape::dense({1, 1, 1, 1}), CUDNN_DATA_FLOAT);
    made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    return add(std::move(made));
  }
  /// A tensor without memory.
  Tensor inside(const DnnShape& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    DnnDescriptor made = dnn_tensor(next_++, shape, type);
    made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    return add(std::move(made));
  }

  void pointwise(cudnnPointwiseMode_t mode, Tensors from, Tensor to,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  /// Each element's place along an axis.
  void index(std::int64_t axis, Tensor like, Tensor to);
  void reduce(cudnnReduceTensorOp_t how, Tensor from, Tensor to);
  void multiply(Tensor left, Tensor right, Tensor to);
  /// `to` has the last two sides of `from` swapped.
  void transpose(Tensor from, Tensor to);

  [[nodiscard]] base::Result<DnnDescriptor> finish(cudnnHandle_t handle);

 private:
  Tensor add(DnnDescriptor made) {
    end(made);
    tensors_.push_back(std::move(made));
    return tensors_.size() - 1;
  }
  void do_pointwise(DnnDescriptor mode, Tensors from, Tensor to);
  void end(DnnDescriptor& made) {
    if (done_) done_ = checked(made.finish(), what_);
  }
  void append(DnnDescriptor operation) {
    end(operation);
    operations_.push_back(std::move(operation));
  }

  std::int64_t next_ = kFirstInside;
  std::vector<DnnDescriptor> tensors_;
  std::vector<DnnDescriptor> operations_;
  const std::string what_;
  base::Status done_;
};

}  // namespace starling::compute::cuda
