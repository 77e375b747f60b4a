// A run file's description of a model: a list of layers, or a preset that stands for one. Plain
// data; shapes are checked when the model is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"
#include "compute/graph.hpp"

namespace starling::model {

/// Limits of a run file's description; compute has further ones.
inline constexpr std::size_t kListMax = 1024;   ///< layers in one list
inline constexpr std::size_t kDepthMax = 16;    ///< lists within lists, blocks counted
inline constexpr std::size_t kBlocksMax = 256;  ///< named blocks
inline constexpr std::size_t kNameMax = 64;     ///< characters of one layer's name

enum class LayerKind : std::uint8_t {
  conv2d,
  linear,
  batch_norm,
  layer_norm,
  rms_norm,
  embedding,
  positions,
  attention,
  relu,
  gelu,
  gelu_tanh,
  silu,
  swiglu,
  dropout,
  max_pool2d,
  avg_pool2d,
  global_avg_pool,
  flatten,
  tied_linear,
  residual,  ///< f(x) + g(x), f and g being lists of layers
  block,     ///< a named list of layers, once or several times in a row
};

/// The names in a run file. A block is given by its own name.
inline constexpr base::EnumNames<LayerKind, 20> kLayerNames{{
    {"conv2d", LayerKind::conv2d},
    {"linear", LayerKind::linear},
    {"batch_norm", LayerKind::batch_norm},
    {"layer_norm", LayerKind::layer_norm},
    {"rms_norm", LayerKind::rms_norm},
    {"embedding", LayerKind::embedding},
    {"positions", LayerKind::positions},
    {"attention", LayerKind::attention},
    {"relu", LayerKind::relu},
    {"gelu", LayerKind::gelu},
    {"gelu_tanh", LayerKind::gelu_tanh},
    {"silu", LayerKind::silu},
    {"swiglu", LayerKind::swiglu},
    {"dropout", LayerKind::dropout},
    {"max_pool2d", LayerKind::max_pool2d},
    {"avg_pool2d", LayerKind::avg_pool2d},
    {"global_avg_pool", LayerKind::global_avg_pool},
    {"flatten", LayerKind::flatten},
    {"tied_linear", LayerKind::tied_linear},
    {"residual", LayerKind::residual},
}};

/// The word for a kind; "block" for a block.
[[nodiscard]] constexpr std::string_view name_of(LayerKind kind) noexcept {
  return kind == LayerKind::block ? "block" : base::name_of(kind, kLayerNames);
}

/// One layer as written in a run file. Fields that a kind does not use stay at their defaults.
struct LayerSpec {
  LayerKind kind = LayerKind::linear;
  /// Part of its tensors' names, after the name of the enclosing layer and a dot. Not given:
  /// "layers" and its number in the list for a layer of the model itself, its number alone within
  /// another layer. Empty: nothing is added.
  std::optional<std::string> name{};
  std::uint32_t out = 0;       ///< conv2d: output channels; linear, embedding: output features
  std::uint32_t kernel = 0;    ///< conv2d, pools: side of the square window, pixels
  std::uint32_t stride = 0;    ///< 0: 1 for conv2d, the kernel for pools
  std::uint32_t padding = 0;   ///< conv2d, max_pool2d: on each side, pixels
  std::uint32_t dilation = 1;  ///< conv2d
  std::uint32_t groups = 1;    ///< conv2d
  bool bias = true;            ///< conv2d, linear, layer_norm: whether it has one
  std::uint32_t heads = 0;     ///< attention
  std::uint32_t kv_heads = 0;  ///< attention; 0: equal to heads
  double rotary = 0;           ///< attention: base of its rotary positions; 0: none
  double rate = 0;             ///< dropout: probability
  double epsilon = 1e-5;       ///< norms
  double momentum = 0.1;       ///< batch_norm: of its running statistics
  /// conv2d, linear, embedding, positions: standard deviation of the weight at the start, with
  /// biases of zero; 0: as in Model::initial_parameters.
  double initial_std = 0;
  std::vector<LayerSpec> layers{};    ///< residual: f
  std::vector<LayerSpec> shortcut{};  ///< residual: g; empty: g(x) = x
  std::string block{};                ///< block: its name
  /// block: how often in a row, numbered from 0 in its tensors' names; 0: once, without a number
  std::uint32_t repeat = 0;

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Known networks, described in presets.hpp.
enum class Preset : std::uint8_t { none, mlp, cnn, resnet20, resnet18, resnet50, gpt };

inline constexpr base::EnumNames<Preset, 7> kPresetNames{{
    {"none", Preset::none},
    {"mlp", Preset::mlp},
    {"cnn", Preset::cnn},
    {"resnet20", Preset::resnet20},
    {"resnet18", Preset::resnet18},
    {"resnet50", Preset::resnet50},
    {"gpt", Preset::gpt},
}};

[[nodiscard]] constexpr std::string_view name_of(Preset preset) noexcept {
  return base::name_of(preset, kPresetNames);
}

enum class GptStyle : std::uint8_t {
  gpt2,   ///< layer norms, biases, learned positions, GELU
  llama,  ///< RMS norms, no biases, rotary positions, SwiGLU
};

/// Sizes of a preset. Sizes that a preset does not use stay at their defaults.
struct PresetSizes {
  std::vector<std::uint32_t> widths{256};  ///< mlp: features of its hidden layers
  /// cnn, resnets: channels of the first layer; gpt: features. 0: 32, 16 (resnet20), 64, 256 (gpt)
  std::uint32_t width = 0;
  GptStyle style = GptStyle::gpt2;  ///< gpt, like all below
  std::uint32_t depth = 4;          ///< blocks
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 0;    ///< 0: equal to heads
  std::uint32_t mlp_width = 0;   ///< 0: 4 width; llama: 8/3 of it, up to a multiple of 32
  std::uint32_t context = 128;   ///< tokens of a sample
  std::uint32_t vocabulary = 0;  ///< at least the data's; 0: the data's
  double dropout = 0;            ///< after the embedding, and at the end of each branch
  bool tied = true;              ///< the last layer shares the embedding's weight

  friend bool operator==(const PresetSizes&, const PresetSizes&) = default;
};

/// A feed-forward network and its loss.
struct Spec {
  /// Shape of a sample: {features}, {channels, height, width}, or {positions} of tokens. Empty: the
  /// data's shape.
  std::vector<std::uint32_t> input;
  std::vector<LayerSpec> layers;  ///< in order; empty with a preset
  std::map<std::string, std::vector<LayerSpec>, std::less<>> blocks{};
  Preset preset = Preset::none;
  PresetSizes sizes{};
  compute::LossKind loss = compute::LossKind::cross_entropy;
  double label_smoothing = 0;  ///< cross_entropy in training, 0 to 1

  friend bool operator==(const Spec&, const Spec&) = default;
};

/// The number of tokens in the model's samples: the context of a gpt, or the input of layers that
/// begin with an embedding. 0: it does not take tokens.
[[nodiscard]] std::uint32_t context_of(const Spec& spec) noexcept;

}  // namespace starling::model
