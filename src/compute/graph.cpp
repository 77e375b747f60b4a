#include "compute/graph.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace starling::compute {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

std::size_t elements(const Shape& shape) noexcept {
  std::size_t product = 1;
  for (const std::uint32_t side : shape) product *= side;
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (const std::uint32_t side : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(side);
  }
  return text;
}

const char* name_of(const Op& op) noexcept {
  static constexpr const char* kNames[] = {"conv2d", "linear", "relu", "max_pool2d"};
  return kNames[op.kind.index()];
}

namespace {

/// Multiply-adds of an op's forward pass.
double multiply_adds(const Graph& graph, const Op& op) noexcept {
  if (const auto* conv = std::get_if<Conv2d>(&op.kind)) {
    return static_cast<double>(graph.tensors[conv->weight].size) * op.out[1] * op.out[2];
  }
  if (const auto* linear = std::get_if<Linear>(&op.kind)) {
    return static_cast<double>(graph.tensors[linear->weight].size);
  }
  return 0;
}

}  // namespace

double training_flops(const Graph& graph) noexcept {
  double sum = 0;
  bool first = true;
  for (const Op& op : graph.ops) {
    const double macs = multiply_adds(graph, op);
    if (macs == 0) continue;
    sum += 2.0 * macs * (first ? 2 : 3);
    first = false;
  }
  return sum;
}

double forward_flops(const Graph& graph) noexcept {
  double sum = 0;
  for (const Op& op : graph.ops) sum += 2.0 * multiply_adds(graph, op);
  return sum;
}

namespace {

/// The product of the sides, or kMaxSampleElements + 1 where it is larger than allowed.
std::size_t bounded_elements(const Shape& shape) noexcept {
  std::size_t product = 1;
  for (const std::uint32_t side : shape) {
    if (side == 0) return 0;
    if (product > kMaxSampleElements / side) return kMaxSampleElements + 1;
    product *= side;
  }
  return product;
}

Status check_size(const Shape& shape, const char* what) {
  const std::size_t size = bounded_elements(shape);
  if (size == 0)
    return fail(ErrorCode::run_file, "{} {} has an empty side", what, to_string(shape));
  if (size > kMaxSampleElements) {
    return fail(ErrorCode::run_file, "{} {} has more than {} elements", what, to_string(shape),
                kMaxSampleElements);
  }
  return {};
}

Status check_image(const Shape& shape) {
  if (shape.size() == 3) return {};
  return fail(ErrorCode::run_file,
              "needs an input of channels x height x width, but it gets {} ({} features)",
              to_string(shape), elements(shape));
}

Status check_side(const char* what, std::uint32_t value) {
  if (value > 0 && value <= kMaxSide) return {};
  return fail(ErrorCode::run_file, "{} is {}; it must be 1 to {}", what, value, kMaxSide);
}

/// Outputs along one side, or an error where not even one window fits.
Result<std::uint32_t> windows(const Shape& in, std::uint32_t side, std::uint32_t kernel,
                              std::uint32_t stride, std::uint32_t padding) {
  const std::uint64_t padded = std::uint64_t{side} + 2 * std::uint64_t{padding};
  if (kernel > padded) {
    return fail(ErrorCode::run_file,
                "its window of {}x{} is larger than its input {} with {} pixels of padding", kernel,
                kernel, to_string(in), padding);
  }
  return static_cast<std::uint32_t>((padded - kernel) / stride + 1);
}

}  // namespace

Result<GraphBuilder> GraphBuilder::start(Shape input) {
  if (input.size() != 1 && input.size() != 3) {
    return fail(ErrorCode::run_file,
                "the input shape has {} sides; it must be [features] or [channels, height, width]",
                input.size());
  }
  if (auto status = check_size(input, "the input"); !status) return fail(status.error());
  return GraphBuilder(std::move(input));
}

Status GraphBuilder::add(Op op) {
  if (graph_.ops.size() >= kMaxOps) {
    return fail(ErrorCode::run_file, "a model may have at most {} layers", kMaxOps);
  }
  if (auto status = check_size(op.out, "its output"); !status) return status;
  shape_ = op.out;
  graph_.ops.push_back(std::move(op));
  return {};
}

Status GraphBuilder::reserve(std::size_t parameters) const {
  if (parameters <= kMaxParameters - graph_.parameter_count) return {};
  return fail(ErrorCode::run_file, "a model may have at most {} parameters", kMaxParameters);
}

std::size_t GraphBuilder::add_tensor(const char* what, Shape shape, std::uint32_t fan_in) {
  Tensor tensor;
  tensor.name = fmt::format("layers.{}.{}", graph_.ops.size() - 1, what);
  tensor.size = elements(shape);
  tensor.offset = graph_.parameter_count;
  tensor.shape = std::move(shape);
  tensor.fan_in = fan_in;
  graph_.parameter_count += tensor.size;
  graph_.tensors.push_back(std::move(tensor));
  return graph_.tensors.size() - 1;
}

Status GraphBuilder::conv2d(std::uint32_t out_channels, std::uint32_t kernel, std::uint32_t stride,
                            std::uint32_t padding) {
  const Shape in = shape_;
  if (auto status = check_image(in); !status) return status;
  if (auto status = check_side("out", out_channels); !status) return status;
  if (auto status = check_side("kernel", kernel); !status) return status;
  if (auto status = check_side("stride", stride); !status) return status;
  if (padding >= kernel) {
    return fail(
        ErrorCode::run_file,
        "padding is {}, but its window is only {} wide: outputs would see nothing but zeros",
        padding, kernel);
  }
  const auto height = windows(in, in[1], kernel, stride, padding);
  if (!height) return fail(height.error());
  const auto width = windows(in, in[2], kernel, stride, padding);
  if (!width) return fail(width.error());
  // No overflow: in[0] <= 2^26, kernel <= 2^24 + 2^25, and the check below divides.
  const Shape weight{out_channels, in[0], kernel, kernel};
  if (bounded_elements(weight) > kMaxSampleElements) {
    return fail(ErrorCode::run_file, "its weight {} has more than {} elements", to_string(weight),
                kMaxSampleElements);
  }
  if (auto status = reserve(elements(weight) + out_channels); !status) return status;
  if (auto status =
          add({Conv2d{kernel, stride, padding, 0, 0}, in, {out_channels, *height, *width}});
      !status) {
    return status;
  }
  const std::uint32_t fan_in = in[0] * kernel * kernel;
  auto& conv = std::get<Conv2d>(graph_.ops.back().kind);
  conv.weight = add_tensor("weight", weight, fan_in);
  conv.bias = add_tensor("bias", {out_channels}, fan_in);
  return {};
}

Status GraphBuilder::linear(std::uint32_t out_features) {
  const Shape in = shape_;
  if (auto status = check_side("out", out_features); !status) return status;
  const std::size_t features = elements(in);
  if (auto status = reserve(features * out_features + out_features); !status) return status;
  if (auto status = add({Linear{}, in, {out_features}}); !status) return status;
  const auto fan_in = static_cast<std::uint32_t>(features);
  auto& linear = std::get<Linear>(graph_.ops.back().kind);
  linear.weight = add_tensor("weight", {out_features, fan_in}, fan_in);
  linear.bias = add_tensor("bias", {out_features}, fan_in);
  return {};
}

Status GraphBuilder::relu() { return add({Relu{}, shape_, shape_}); }

Status GraphBuilder::max_pool2d(std::uint32_t kernel, std::uint32_t stride) {
  const Shape in = shape_;
  if (auto status = check_image(in); !status) return status;
  if (auto status = check_side("kernel", kernel); !status) return status;
  if (auto status = check_side("stride", stride); !status) return status;
  const auto height = windows(in, in[1], kernel, stride, 0);
  if (!height) return fail(height.error());
  const auto width = windows(in, in[2], kernel, stride, 0);
  if (!width) return fail(width.error());
  return add({MaxPool2d{kernel, stride}, in, {in[0], *height, *width}});
}

Result<Graph> GraphBuilder::finish(std::uint32_t classes) && {
  if (classes < 2 || classes > kMaxClasses) {
    return fail(ErrorCode::run_file, "the data has {} classes; 2 to {} can be told apart", classes,
                kMaxClasses);
  }
  if (graph_.tensors.empty()) {
    return fail(ErrorCode::run_file, "the model has no layer that can be trained");
  }
  if (elements(shape_) != classes) {
    return fail(ErrorCode::run_file,
                "the last layer gives {} outputs, but the data has {} classes: end the model with "
                "a linear layer of out = {}",
                to_string(shape_), classes, classes);
  }
  graph_.classes = classes;
  return std::move(graph_);
}

}  // namespace starling::compute
