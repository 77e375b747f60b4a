// What a run file says of a model: a list of layers. Plain data; shapes are checked in model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling::model {

enum class LayerKind { conv2d, linear, relu, max_pool2d };

/// One layer as written in a run file. Fields that a kind does not use stay at their defaults.
struct LayerSpec {
  LayerKind kind = LayerKind::linear;
  std::uint32_t out = 0;      ///< conv2d: output channels; linear: output features
  std::uint32_t kernel = 0;   ///< conv2d, max_pool2d: side of the square window, pixels
  std::uint32_t stride = 0;   ///< 0: 1 for conv2d, the kernel for max_pool2d
  std::uint32_t padding = 0;  ///< conv2d: zeros on each side, pixels

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// A feed-forward classifier: the layers in order (a linear layer flattens what comes before),
/// then softmax cross-entropy over the last layer's outputs.
struct Spec {
  std::vector<std::uint32_t> input;  ///< shape of a sample: {features} or {channels, height, width}
  std::vector<LayerSpec> layers;

  friend bool operator==(const Spec&, const Spec&) = default;
};

}  // namespace starling::model
