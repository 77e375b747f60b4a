// Known networks as lists of layers. Their PyTorch twins, with the same names of tensors, are in
// tools/twins.py.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "model/input_output.hpp"
#include "model/spec.hpp"

namespace starling::model {

/// The sizes, with the preset's own filled in where none was given. The size that the data
/// determines (the vocabulary) stays 0.
[[nodiscard]] PresetSizes resolved(Preset preset, PresetSizes sizes);

/// The layers of a preset (not `none`) for data with this input and output:
///
/// - mlp: for each of `widths` a linear layer and ReLU, then a linear layer.
/// - cnn: two 3x3 convolutions with `width` and 2 `width` channels, max pooling, a hidden linear
///   layer with 4 `width` features.
/// - resnet20: for CIFAR-10 (He et al., arXiv:1512.03385, section 4.2); a shortcut that changes the
///   shape is a 1x1 convolution with batch norm (their option B), not padding with zeros.
/// - resnet18, resnet50: for ImageNet, as in torchvision: the stride of a bottleneck is in its 3x3
///   convolution. If the input is at most kSmallImage pixels wide and high, the first convolution
///   is 3x3 with stride 1, and no max pooling follows.
/// - gpt: blocks of x + attention(norm(x)) and x + mlp(norm(x)), after GPT-2 (Radford et al.,
///   2019) or Llama (Touvron et al., arXiv:2302.13971). Weights start with a standard deviation
///   of 0.02, those that end a branch with 1/sqrt(2 depth) of it, as in GPT-2.
///
/// Errors (ErrorCode::run_file): samples that the preset cannot take, sizes that do not fit.
[[nodiscard]] base::Result<std::vector<LayerSpec>> layers_of(Preset preset,
                                                             const PresetSizes& sizes,
                                                             const InputOutput& in_out);

inline constexpr std::uint32_t kSmallImage = 64;

}  // namespace starling::model
