// Common parts of several tests of models.
#pragma once

#include <string>

#include "model/model.hpp"

namespace starling::model::test {

/// The network of scenarios/runs/fashion-mnist.toml.
inline Spec cnn() {
  return {{1, 28, 28},
          {{.kind = LayerKind::conv2d, .out = 32, .kernel = 3},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::conv2d, .out = 64, .kernel = 3},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::max_pool2d, .kernel = 2},
           {.kind = LayerKind::linear, .out = 128},
           {.kind = LayerKind::relu},
           {.kind = LayerKind::linear, .out = 10}}};
}

inline Spec spec_of(Preset preset, const PresetSizes& sizes = {}) {
  Spec spec{};
  spec.preset = preset;
  spec.sizes = sizes;
  return spec;
}

/// The message of a build that fails; empty where it does not.
inline std::string error_of(const Spec& spec, const InputOutput& in_out) {
  const auto model = build(spec, in_out);
  return model ? "" : model.error().text;
}

inline std::string error_of(const Spec& spec) {
  const auto model = build(spec, 10);
  return model ? "" : model.error().text;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace starling::model::test
