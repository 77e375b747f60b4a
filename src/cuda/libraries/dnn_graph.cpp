#include "cuda/libraries/dnn_graph.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  status_ = cudnnBackendCreateDescriptor(type, &made);
  owned_.reset(made);
}

cudnnStatus_t DnnDescriptor::finish() {
  if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendFinalize(raw());
  return status_;
}

DnnShape DnnShape::transposed() const {
  DnnShape other = *this;
  std::swap(other.sides[2], other.sides[3]);
  std::swap(other.strides[2], other.strides[3]);
  return other;
}

DnnDescriptor dnn_tensor(std::int64_t number, const DnnShape& shape, cudnnDataType_t type,
                         std::int64_t alignment) {
  DnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape.sides.data(), 4)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape.strides.data(), 4)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  return made;
}

Result<DnnDescriptor> dnn_graph(const std::vector<DnnDescriptor>& operations, cudnnHandle_t handle,
                                std::string_view what) {
  std::vector<cudnnBackendDescriptor_t> raw;
  raw.reserve(operations.size());
  for (const DnnDescriptor& operation : operations) raw.push_back(operation.raw());
  DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(),
            static_cast<std::int64_t>(raw.size()));
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  if (auto done = checked(graph.finish(), what); !done) return fail(done.error());
  return graph;
}

void DnnGraphBuilder::pointwise(cudnnPointwiseMode_t mode, Tensors from, Tensor to,
                                cudnnDataType_t precision) {
  DnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  do_pointwise(std::move(how), from, to);
}

void DnnGraphBuilder::index(std::int64_t axis, Tensor like, Tensor to) {
  DnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  do_pointwise(std::move(how), {like}, to);
}

void DnnGraphBuilder::do_pointwise(DnnDescriptor mode, Tensors from, Tensor to) {
  constexpr std::array<cudnnBackendAttributeName_t, 3> kFrom{CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                             CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                             CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  end(mode);
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[to]);
  for (std::size_t i = 0; i < from.size(); ++i) {
    operation.set(kFrom[i], tensors_[from.begin()[i]]);
  }
  append(std::move(operation));
}

void DnnGraphBuilder::reduce(cudnnReduceTensorOp_t how, Tensor from, Tensor to) {
  DnnDescriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how);
  end(reduction);
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[from])
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[to]);
  append(std::move(operation));
}

void DnnGraphBuilder::multiply(Tensor left, Tensor right, Tensor to) {
  DnnDescriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  end(product);
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[left])
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[right])
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[to]);
  append(std::move(operation));
}

void DnnGraphBuilder::transpose(Tensor from, Tensor to) {
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[from])
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[to]);
  append(std::move(operation));
}

Result<DnnDescriptor> DnnGraphBuilder::finish(cudnnHandle_t handle) {
  if (!done_) return fail(done_.error());
  return dnn_graph(operations_, handle, what_);
}

}  // namespace starling::compute::cuda
