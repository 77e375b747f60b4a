#include "model/model.hpp"

#include <cmath>
#include <variant>

#include <fmt/format.h>

#include "base/rng.hpp"

namespace starling::model {

using base::Result;
using base::Status;

namespace {

const char* name_of(LayerKind kind) noexcept {
  switch (kind) {
    case LayerKind::conv2d:
      return "conv2d";
    case LayerKind::linear:
      return "linear";
    case LayerKind::relu:
      return "relu";
    case LayerKind::max_pool2d:
      return "max_pool2d";
  }
  return "?";
}

Status add(compute::GraphBuilder& builder, const LayerSpec& layer) {
  switch (layer.kind) {
    case LayerKind::conv2d:
      return builder.conv2d({.out_channels = layer.out,
                             .kernel = layer.kernel,
                             .stride = layer.stride == 0 ? 1 : layer.stride,
                             .padding = layer.padding});
    case LayerKind::linear:
      return builder.linear(layer.out);
    case LayerKind::relu:
      return builder.relu();
    case LayerKind::max_pool2d:
      return builder.max_pool2d(layer.kernel, layer.stride == 0 ? layer.kernel : layer.stride);
  }
  return base::fail(base::ErrorCode::internal, "unknown kind of layer");
}

/// Whether the next op that is not a pool is a ReLU.
bool feeds_relu(const compute::Graph& graph, std::size_t op) {
  for (std::size_t i = op + 1; i < graph.ops.size(); ++i) {
    if (const auto* activation = std::get_if<compute::Activation>(&graph.ops[i].kind)) {
      return activation->kind == compute::ActivationKind::relu;
    }
    if (!std::holds_alternative<compute::MaxPool2d>(graph.ops[i].kind)) return false;
  }
  return false;
}

/// Draws the tensor's elements uniformly within sqrt(gain / fan_in).
void draw(base::Rng& rng, const compute::Tensor& tensor, float gain, std::vector<float>& out) {
  const float bound = std::sqrt(gain / static_cast<float>(tensor.fan_in));
  for (std::size_t i = 0; i < tensor.size; ++i) {
    const auto bits = static_cast<std::int32_t>(rng() >> 40);  // 0 .. 2^24 - 1
    const float unit = static_cast<float>(2 * bits + 1 - (1 << 24)) * 0x1p-24F;
    out[tensor.offset + i] = unit * bound;
  }
}

/// Weight and bias of an op, if it has parameters.
struct TensorPair {
  std::size_t weight;
  std::size_t bias;
};

const TensorPair* tensors_of(const compute::Op& op, TensorPair& pair) {
  if (const auto* conv = std::get_if<compute::Conv2d>(&op.kind)) {
    pair = {conv->weight, conv->bias};
  } else if (const auto* linear = std::get_if<compute::Linear>(&op.kind)) {
    pair = {linear->weight, linear->bias};
  } else {
    return nullptr;
  }
  return &pair;
}

}  // namespace

std::vector<float> Model::initial_parameters(std::uint64_t seed) const {
  std::vector<float> parameters(graph.parameter_count);
  base::Rng rng(seed);
  TensorPair pair{};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (tensors_of(graph.ops[i], pair) == nullptr) continue;
    draw(rng, graph.tensors[pair.weight], feeds_relu(graph, i) ? 6.0F : 1.0F, parameters);
    draw(rng, graph.tensors[pair.bias], 1.0F, parameters);
  }
  return parameters;
}

std::string Model::table() const {
  std::string text =
      fmt::format("{:>3}  {:<10}  {:>12}  {:>12}\n", "#", "layer", "output", "parameters");
  text += fmt::format("{:>3}  {:<10}  {:>12}  {:>12}\n", "", "input",
                      compute::to_string(graph.input), "");
  TensorPair pair{};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const compute::Op& op = graph.ops[i];
    std::size_t count = 0;
    if (tensors_of(op, pair) != nullptr) {
      count = graph.tensors[pair.weight].size + graph.tensors[pair.bias].size;
    }
    text += fmt::format("{:>3}  {:<10}  {:>12}  {:>12}\n", i + 1, compute::name_of(op),
                        compute::to_string(op.out), count);
  }
  return text +
         fmt::format("{:>3}  {:<10}  {:>12}  {:>12}\n", "", "total", "", graph.parameter_count);
}

Result<Model> build(const Spec& spec, std::uint32_t classes) {
  auto builder = compute::GraphBuilder::start(spec.input);
  if (!builder) return base::fail(builder.error().in("model"));
  std::size_t number = 0;
  for (const LayerSpec& layer : spec.layers) {
    ++number;
    if (auto status = add(*builder, layer); !status) {
      return base::fail(
          status.error().in(fmt::format("model: layer {} ({})", number, name_of(layer.kind))));
    }
  }
  auto graph = std::move(*builder).finish(classes);
  if (!graph) return base::fail(graph.error().in("model"));
  return Model{std::move(*graph)};
}

}  // namespace starling::model
