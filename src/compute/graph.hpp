// A network as plain data: its operations with their shapes, and where each of its tensors lies in
// the flat parameter vector. Backends compile it; nothing here computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace starling::compute {

/// Sides of one sample's activations, or of a parameter tensor; the batch axis is left out.
/// Activations: {features} or {channels, height, width}.
using Shape = std::vector<std::uint32_t>;

/// Number of elements of a shape.
[[nodiscard]] std::size_t elements(const Shape& shape) noexcept;
/// "32x26x26", for people.
[[nodiscard]] std::string to_string(const Shape& shape);

/// Limits that keep every size of a batch within what backends can index.
inline constexpr std::size_t kMaxOps = 1024;
inline constexpr std::size_t kMaxSampleElements = std::size_t{1} << 26;
inline constexpr std::size_t kMaxParameters = std::size_t{1} << 30;
inline constexpr std::uint32_t kMaxSide = 1U << 24;  ///< of kernels, strides and layer widths
inline constexpr std::uint32_t kMaxClasses = 256;    ///< a label is one byte
inline constexpr std::uint32_t kMaxBatch = 65536;    ///< samples

/// A named piece of the flat float32 parameter vector, in PyTorch's order of axes.
struct Tensor {
  std::string name;          ///< "layers.0.weight": the number counts all layers of the spec
  Shape shape;               ///< conv2d weight OIHW, linear weight [out, in], bias [out]
  std::size_t offset = 0;    ///< first element in the parameter vector
  std::size_t size = 0;      ///< elements
  std::uint32_t fan_in = 0;  ///< inputs that one output sums over (also for a bias)
};

/// Cross-correlation over square windows with zeros around the image, plus a bias per channel.
struct Conv2d {
  std::uint32_t kernel = 0;
  std::uint32_t stride = 0;
  std::uint32_t padding = 0;
  std::size_t weight = 0;  ///< index into Graph::tensors
  std::size_t bias = 0;    ///< index into Graph::tensors
};

/// y = W x + b over the flattened input.
struct Linear {
  std::size_t weight = 0;  ///< index into Graph::tensors
  std::size_t bias = 0;    ///< index into Graph::tensors
};

struct Relu {};

/// Largest element of each square window; windows that would leave the image are dropped.
struct MaxPool2d {
  std::uint32_t kernel = 0;
  std::uint32_t stride = 0;
};

struct Op {
  std::variant<Conv2d, Linear, Relu, MaxPool2d> kind;
  Shape in;
  Shape out;
};

/// "conv2d", "linear", "relu" or "max_pool2d": the words of a run file.
[[nodiscard]] const char* name_of(const Op& op) noexcept;

/// A feed-forward classifier; softmax cross-entropy follows the last op. Op number i is the
/// network's layer number i.
struct Graph {
  Shape input;
  std::vector<Op> ops;
  std::vector<Tensor> tensors;  ///< in the order of their offsets, without gaps
  std::size_t parameter_count = 0;
  std::uint32_t classes = 0;
};

/// Floating-point operations of one training step a sample: twice the multiply-adds of forward,
/// backward-data (not for the first layer with parameters) and backward-weights.
[[nodiscard]] double training_flops(const Graph& graph) noexcept;

/// Floating-point operations of one evaluation a sample.
[[nodiscard]] double forward_flops(const Graph& graph) noexcept;

/// Builds a Graph layer by layer and checks that the shapes fit. After an error the builder is
/// as before the call. Errors (ErrorCode::run_file) name both shapes, not the layer's number.
class GraphBuilder {
 public:
  /// Starts from one sample's shape.
  [[nodiscard]] static base::Result<GraphBuilder> start(Shape input);

  [[nodiscard]] base::Status conv2d(std::uint32_t out_channels, std::uint32_t kernel,
                                    std::uint32_t stride, std::uint32_t padding);
  /// Flattens what comes before.
  [[nodiscard]] base::Status linear(std::uint32_t out_features);
  [[nodiscard]] base::Status relu();
  [[nodiscard]] base::Status max_pool2d(std::uint32_t kernel, std::uint32_t stride);

  /// The shape after the last layer so far.
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }

  /// The graph, if the last layer has `classes` outputs and something can be trained.
  [[nodiscard]] base::Result<Graph> finish(std::uint32_t classes) &&;

 private:
  explicit GraphBuilder(Shape input) : shape_(input) { graph_.input = std::move(input); }

  base::Status add(Op op);
  base::Status reserve(std::size_t parameters) const;
  std::size_t add_tensor(const char* what, Shape shape, std::uint32_t fan_in);

  Graph graph_;
  Shape shape_;
};

}  // namespace starling::compute
