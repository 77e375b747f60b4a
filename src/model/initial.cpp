// The initial parameters of every peer.
#include <cmath>
#include <variant>

#include "base/rng.hpp"
#include "model/model.hpp"

namespace starling::model {
namespace {

template <class... Kinds>
bool is_any(const compute::Op& op) {
  return (std::holds_alternative<Kinds>(op.kind) || ...);
}

bool is_relu(const compute::Op& op) {
  const auto* activation = std::get_if<compute::Activation>(&op.kind);
  return activation != nullptr && activation->kind == compute::ActivationKind::relu;
}

/// For each op, whether its result goes into a ReLU, perhaps through ops that keep its scale.
std::vector<bool> feeding_relu(const compute::Graph& graph) {
  std::vector<bool> feeds(graph.ops.size(), false);
  for (std::size_t i = graph.ops.size(); i-- > 0;) {  // consumers come before producers
    const compute::Op& op = graph.ops[i];
    const bool passes =
        is_any<compute::MaxPool2d, compute::AveragePool2d, compute::GlobalAveragePool,
               compute::BatchNorm, compute::Dropout, compute::Add, compute::Flatten>(op);
    if (!is_relu(op) && !(passes && feeds[i])) continue;
    for (const compute::ValueId input : op.inputs) {
      if (input != compute::kGraphInput) feeds[input] = true;
    }
  }
  return feeds;
}

/// Draws the tensor's elements uniformly within a bound.
void draw(base::Rng& rng, const compute::Tensor& tensor, float bound, std::vector<float>& out) {
  for (std::size_t i = 0; i < tensor.size; ++i) {
    const auto bits = static_cast<std::int32_t>(rng() >> 40);  // 0 .. 2^24 - 1
    const float unit = static_cast<float>(2 * bits + 1 - (1 << 24)) * 0x1p-24F;
    out[tensor.offset + i] = unit * bound;
  }
}

float bound_of(const compute::Tensor& tensor, bool feeds_relu) {
  if (tensor.initial_std > 0) return tensor.initial_std * std::sqrt(3.0F);
  return std::sqrt((feeds_relu ? 6.0F : 1.0F) / static_cast<float>(tensor.fan_in));
}

}  // namespace

std::vector<float> Model::initial_parameters(std::uint64_t seed) const {
  std::vector<bool> feeds(graph.tensors.size(), false);
  std::vector<bool> zero(graph.tensors.size(), false);
  const std::vector<bool> ops = feeding_relu(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    std::visit(
        [&](const auto& kind) {
          if constexpr (requires { kind.weight; }) {
            if (ops[i]) feeds[kind.weight] = true;
            if constexpr (requires { kind.bias; }) {
              if (kind.bias == compute::kNoTensor) return;
              zero[kind.bias] = graph.tensors[kind.weight].initial_std > 0;
            }
          }
        },
        graph.ops[i].kind);
  }
  std::vector<float> parameters(graph.parameter_count);
  base::Rng rng(seed);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const compute::Tensor& tensor = graph.tensors[i];
    if (tensor.kind == compute::TensorKind::scale) {
      std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size,
                  1.0F);
    } else if (tensor.kind != compute::TensorKind::shift && !zero[i]) {
      draw(rng, tensor, bound_of(tensor, feeds[i]), parameters);
    }
  }
  return parameters;
}

std::vector<float> Model::initial_buffers() const {
  std::vector<float> buffers(graph.buffer_count);
  for (const compute::Tensor& tensor : graph.buffers) {
    if (tensor.kind != compute::TensorKind::running_variance) continue;
    std::fill_n(buffers.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size, 1.0F);
  }
  return buffers;
}

}  // namespace starling::model
