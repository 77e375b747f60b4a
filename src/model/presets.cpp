#include "model/presets.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace starling::model {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

using Layers = std::vector<LayerSpec>;
using enum LayerKind;

void append(Layers& layers, Layers more) {
  layers.insert(layers.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

LayerSpec plain(LayerKind kind, std::string name) {
  return {.kind = kind, .name = std::move(name)};
}

LayerSpec linear_layer(std::string name, std::uint32_t out) {
  return {.kind = linear, .name = std::move(name), .out = out};
}

// --- mlp, cnn ---

Layers mlp(const std::vector<std::uint32_t>& widths, const InputOutput& in_out) {
  Layers layers;
  // A linear layer takes each position of positions x features alone, and all other inputs whole.
  if (in_out.input.size() == 2) layers.push_back(plain(flatten, "flatten"));
  std::size_t number = 0;
  for (const std::uint32_t width : widths) {
    layers.push_back(linear_layer(fmt::format("layers.{}", number), width));
    layers.push_back(plain(relu, fmt::format("layers.{}", number + 1)));
    number += 2;
  }
  layers.push_back(linear_layer(fmt::format("layers.{}", number), in_out.outputs));
  return layers;
}

Layers cnn(std::uint32_t width, std::uint32_t classes) {
  return {{.kind = conv2d, .out = width, .kernel = 3},
          {.kind = relu},
          {.kind = conv2d, .out = 2 * width, .kernel = 3},
          {.kind = relu},
          {.kind = max_pool2d, .kernel = 2},
          {.kind = linear, .out = 4 * width},
          {.kind = relu},
          {.kind = linear, .out = classes}};
}

// --- resnets ---

LayerSpec conv(std::string name, std::uint32_t out, std::uint32_t kernel, std::uint32_t stride) {
  return {.kind = conv2d,
          .name = std::move(name),
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false};
}

struct ResNet {
  std::vector<std::uint32_t> blocks;  ///< of each stage
  std::uint32_t width;                ///< channels of the first stage, twice as many in the next
  bool bottleneck;
  bool large_stem;  ///< 7x7 with stride 2, then max pooling
};

/// The residual of one block, and the ReLU after it. `in` becomes its output channels.
Layers block_of(const ResNet& net, const std::string& name, std::uint32_t width,
                std::uint32_t stride, std::uint32_t& in) {
  const std::uint32_t out = net.bottleneck ? 4 * width : width;
  LayerSpec sum = plain(residual, name);
  if (net.bottleneck) {
    sum.layers = {conv("conv1", width, 1, 1),      plain(batch_norm, "bn1"), plain(relu, "relu1"),
                  conv("conv2", width, 3, stride), plain(batch_norm, "bn2"), plain(relu, "relu2"),
                  conv("conv3", out, 1, 1),        plain(batch_norm, "bn3")};
  } else {
    sum.layers = {conv("conv1", width, 3, stride), plain(batch_norm, "bn1"), plain(relu, "relu1"),
                  conv("conv2", out, 3, 1), plain(batch_norm, "bn2")};
  }
  if (stride != 1 || in != out) {
    sum.shortcut = {conv("downsample.0", out, 1, stride), plain(batch_norm, "downsample.1")};
  }
  in = out;
  return {std::move(sum), plain(relu, name + ".relu")};
}

Layers resnet(const ResNet& net, std::uint32_t classes) {
  Layers layers{net.large_stem ? conv("conv1", net.width, 7, 2) : conv("conv1", net.width, 3, 1),
                plain(batch_norm, "bn1"), plain(relu, "relu")};
  if (net.large_stem) {
    layers.push_back(
        {.kind = max_pool2d, .name = "maxpool", .kernel = 3, .stride = 2, .padding = 1});
  }
  std::uint32_t in = net.width;
  for (std::size_t stage = 0; stage < net.blocks.size(); ++stage) {
    for (std::uint32_t i = 0; i < net.blocks[stage]; ++i) {
      append(layers, block_of(net, fmt::format("layer{}.{}", stage + 1, i), net.width << stage,
                              stage > 0 && i == 0 ? 2 : 1, in));
    }
  }
  layers.push_back(plain(global_avg_pool, "avgpool"));
  layers.push_back(linear_layer("fc", classes));
  return layers;
}

// --- gpt ---

constexpr double kGptStd = 0.02;
constexpr double kRotaryBase = 10000;

/// A weight that ends a branch starts smaller, so that the sum over all branches does not grow with
/// their number.
double branch_end_std(const PresetSizes& sizes) { return kGptStd / std::sqrt(2.0 * sizes.depth); }

LayerSpec projection(std::string name, std::uint32_t out, bool bias, double initial_std) {
  return {.kind = linear,
          .name = std::move(name),
          .out = out,
          .bias = bias,
          .initial_std = initial_std};
}

LayerSpec attention_of(const PresetSizes& sizes, std::string name, double rotary) {
  return {.kind = attention,
          .name = std::move(name),
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .rotary = rotary};
}

std::uint32_t qkv_width(const PresetSizes& sizes) {
  return sizes.width / sizes.heads * (sizes.heads + 2 * sizes.kv_heads);
}

LayerSpec branch(const PresetSizes& sizes, std::string name, Layers layers) {
  if (sizes.dropout > 0) {
    layers.push_back({.kind = dropout, .name = "dropout", .rate = sizes.dropout});
  }
  return {.kind = residual, .name = std::move(name), .layers = std::move(layers)};
}

/// Names of tensors as in nanoGPT.
Layers gpt2(const PresetSizes& sizes, std::uint32_t vocabulary) {
  Layers layers{
      {.kind = embedding, .name = "transformer.wte", .out = sizes.width, .initial_std = kGptStd},
      {.kind = positions, .name = "transformer.wpe", .initial_std = kGptStd}};
  if (sizes.dropout > 0) {
    layers.push_back({.kind = dropout, .name = "transformer.drop", .rate = sizes.dropout});
  }
  const double end_std = branch_end_std(sizes);
  for (std::uint32_t i = 0; i < sizes.depth; ++i) {
    const std::string name = fmt::format("transformer.h.{}", i);
    layers.push_back(branch(
        sizes, name,
        {plain(layer_norm, "ln_1"), projection("attn.c_attn", qkv_width(sizes), true, kGptStd),
         attention_of(sizes, "attn", 0), projection("attn.c_proj", sizes.width, true, end_std)}));
    layers.push_back(branch(
        sizes, name,
        {plain(layer_norm, "ln_2"), projection("mlp.c_fc", sizes.mlp_width, true, kGptStd),
         plain(gelu_tanh, "mlp.gelu"), projection("mlp.c_proj", sizes.width, true, end_std)}));
  }
  layers.push_back(plain(layer_norm, "transformer.ln_f"));
  layers.push_back(sizes.tied ? plain(tied_linear, "lm_head")
                              : projection("lm_head", vocabulary, false, kGptStd));
  return layers;
}

/// Names of tensors as in Hugging Face's Phi-3, which is a Llama whose projections are fused.
Layers llama(const PresetSizes& sizes, std::uint32_t vocabulary) {
  Layers layers{{.kind = embedding,
                 .name = "model.embed_tokens",
                 .out = sizes.width,
                 .initial_std = kGptStd}};
  if (sizes.dropout > 0) {
    layers.push_back({.kind = dropout, .name = "model.dropout", .rate = sizes.dropout});
  }
  const double end_std = branch_end_std(sizes);
  for (std::uint32_t i = 0; i < sizes.depth; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    layers.push_back(branch(sizes, name,
                            {plain(rms_norm, "input_layernorm"),
                             projection("self_attn.qkv_proj", qkv_width(sizes), false, kGptStd),
                             attention_of(sizes, "self_attn", kRotaryBase),
                             projection("self_attn.o_proj", sizes.width, false, end_std)}));
    layers.push_back(
        branch(sizes, name,
               {plain(rms_norm, "post_attention_layernorm"),
                projection("mlp.gate_up_proj", 2 * sizes.mlp_width, false, kGptStd),
                plain(swiglu, "mlp"), projection("mlp.down_proj", sizes.width, false, end_std)}));
  }
  layers.push_back(plain(rms_norm, "model.norm"));
  layers.push_back(sizes.tied ? plain(tied_linear, "lm_head")
                              : projection("lm_head", vocabulary, false, kGptStd));
  return layers;
}

// --- their inputs ---

std::uint32_t default_width(Preset preset) {
  switch (preset) {
    case Preset::cnn:
      return 32;
    case Preset::resnet20:
      return 16;
    case Preset::resnet18:
    case Preset::resnet50:
      return 64;
    case Preset::gpt:
      return 256;
    default:
      return 0;
  }
}

Status check_in_out(Preset preset, const InputOutput& in_out) {
  const bool tokens = in_out.vocabulary > 0;
  if (tokens != (preset == Preset::gpt)) {
    return fail(ErrorCode::run_file, "preset {} takes {}, but samples are {}", name_of(preset),
                tokens ? "numbers" : "tokens", tokens ? "tokens" : "numbers");
  }
  if (preset != Preset::gpt && preset != Preset::mlp && in_out.input.size() != 3) {
    return fail(ErrorCode::run_file,
                "preset {} takes images, channels x height x width, but samples are {}",
                name_of(preset), compute::to_string(in_out.input));
  }
  if (in_out.outputs == 0) {
    return fail(ErrorCode::run_file, "preset {} needs to know how many classes the data has",
                name_of(preset));
  }
  return {};
}

Status check_heads(const PresetSizes& sizes) {
  if (sizes.heads == 0 || sizes.width % sizes.heads != 0) {
    return fail(ErrorCode::run_file, "width {} is not a multiple of heads, {}", sizes.width,
                sizes.heads);
  }
  if (sizes.heads % sizes.kv_heads != 0) {
    return fail(ErrorCode::run_file, "heads {} is not a multiple of kv_heads, {}", sizes.heads,
                sizes.kv_heads);
  }
  return {};
}

}  // namespace

PresetSizes resolved(Preset preset, PresetSizes sizes) {
  if (sizes.width == 0) sizes.width = default_width(preset);
  if (preset != Preset::gpt) return sizes;
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.heads;
  if (sizes.mlp_width == 0) {
    sizes.mlp_width =
        sizes.style == GptStyle::gpt2 ? 4 * sizes.width : (8 * sizes.width / 3 + 31) / 32 * 32;
  }
  return sizes;
}

Result<std::vector<LayerSpec>> layers_of(Preset preset, const PresetSizes& given,
                                         const InputOutput& in_out) {
  if (auto status = check_in_out(preset, in_out); !status) return fail(status.error());
  const PresetSizes sizes = resolved(preset, given);
  const bool large =
      in_out.input.size() == 3 && std::max(in_out.input[1], in_out.input[2]) > kSmallImage;
  switch (preset) {
    case Preset::mlp:
      return mlp(sizes.widths, in_out);
    case Preset::cnn:
      return cnn(sizes.width, in_out.outputs);
    case Preset::resnet20:
      return resnet({{3, 3, 3}, sizes.width, false, false}, in_out.outputs);
    case Preset::resnet18:
      return resnet({{2, 2, 2, 2}, sizes.width, false, large}, in_out.outputs);
    case Preset::resnet50:
      return resnet({{3, 4, 6, 3}, sizes.width, true, large}, in_out.outputs);
    case Preset::gpt:
      if (auto status = check_heads(sizes); !status) return fail(status.error());
      return sizes.style == GptStyle::gpt2 ? gpt2(sizes, in_out.outputs)
                                           : llama(sizes, in_out.outputs);
    case Preset::none:
      break;
  }
  return fail(ErrorCode::internal, "the layers of no preset were asked for");
}

}  // namespace starling::model
