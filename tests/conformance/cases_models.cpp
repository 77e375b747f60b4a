#include "cases.hpp"
#include "model/model.hpp"
#include "network.hpp"

namespace starling::conformance {

using namespace compute;
using namespace model;

namespace {

const InputOutput kTokens{.input = {8}, .vocabulary = 20, .outputs = 20};

/// The graph of a preset with these sizes.
std::function<Graph()> preset(Preset kind, const PresetSizes& sizes, const InputOutput& in_out) {
  return [=] {
    Spec spec;
    spec.preset = kind;
    spec.sizes = sizes;
    return compute::testing::need(build(spec, in_out)).graph;
  };
}

/// Two convolutions beside a shortcut (He et al., arXiv:1512.03385).
void residual(Network& net, const std::string& name, std::uint32_t channels, std::uint32_t stride) {
  const ValueId input = net.last();
  net.name(name + ".conv1")
      .conv(channels, 3, {.stride = stride, .padding = 1, .weight = kNoBias})
      .name(name + ".bn1")
      .batch_norm()
      .relu()
      .name(name + ".conv2")
      .conv(channels, 3, {.padding = 1, .weight = kNoBias})
      .name(name + ".bn2")
      .batch_norm();
  const ValueId branch = net.last();
  if (stride == 1) {
    net.add(input).relu();
    return;
  }
  net.at(input)
      .name(name + ".downsample.0")
      .conv(channels, 1, {.stride = stride, .weight = kNoBias})
      .name(name + ".downsample.1")
      .batch_norm()
      .add(branch)
      .relu();
}

Graph resnet() {
  Network net({3, 8, 8});
  net.name("conv1").conv(8, 3, {.padding = 1, .weight = kNoBias}).name("bn1").batch_norm().relu();
  residual(net, "layer1.0", 8, 1);
  residual(net, "layer2.0", 16, 2);
  return net.global_avg_pool().name("fc").linear(5).classify(5);
}

}  // namespace

Cases run_cases() {
  return {
      {"resnet", resnet},
      {"gpt2",
       preset(Preset::gpt, {.width = 16, .depth = 2, .context = 8, .dropout = 0.1}, kTokens)},
      {"llama", preset(Preset::gpt,
                       {.width = 16,
                        .style = GptStyle::llama,
                        .depth = 2,
                        .kv_heads = 2,
                        .mlp_width = 20,
                        .context = 8,
                        .tied = false},
                       kTokens)},
  };
}

Cases deep_cases() {
  // Batch norms in a row, of few channels and values, enlarge errors: PyTorch in single precision
  // is itself off by 4e-6 in the first and by 2.6e-4 in the second.
  constexpr double kToleranceOfTwentyNorms = 3e-5;
  constexpr double kToleranceOfFiftyNorms = 1e-3;
  return {
      {"resnet20", preset(Preset::resnet20, {.width = 2}, {.input = {3, 8, 8}, .outputs = 5}),
       kToleranceOfTwentyNorms},
      // High enough for the stem of large images.
      {"resnet50", preset(Preset::resnet50, {.width = 1}, {.input = {3, 65, 5}, .outputs = 5}),
       kToleranceOfFiftyNorms},
  };
}

Cases wide_cases() {
  // Float32 sums of ten thousand terms a sample, most of which cancel in front of the norm.
  constexpr double kToleranceOfManyPoints = 5e-5;
  return {
      {"wide_sequence",
       [] {
         return Network::of_tokens(64, 50)
             .embedding(128)
             .positions()
             .layer_norm()
             .linear(384)
             .attention(4, 4)
             .linear(128)
             .dropout(0.1F)
             .add(1)
             .rms_norm()
             .linear(256)
             .swiglu()
             .linear(128)
             .activation(ActivationKind::gelu)
             .add(7)
             .tied_linear()
             .classify(50);
       }},
      // More positions than a tile of an engine for attention has, and the last tile with one
      // alone.
      {"wide_attention",
       [] {
         return Network({257, 8}).linear(512).attention(4, 2).linear(3).classify(3);
       }},
      {"wide_image",
       [] {
         return Network({16, 13, 12})
             .conv(64, 3, kSame)
             .batch_norm()
             .activation(ActivationKind::silu)
             .conv(80, 3, {.stride = 2, .padding = 1, .groups = 2})
             .activation(ActivationKind::gelu_tanh)
             .global_avg_pool()
             .linear(5)
             .classify(5);
       }},
      // The processor keeps the input of a dropout if it is needed again.
      {"wide_dropout",
       [] {
         return Network({2, 8, 8})
             .batch_norm()
             .conv(8, 3, kSame)
             .relu()
             .max_pool(2, 2)
             .conv(4, 3, kSame)
             .relu()
             .conv(4, 3, kSame)
             .relu()
             .dropout(0.4F)
             .add(5)
             .linear(1024)
             .relu()
             .dropout(0.5F)
             .linear(10)
             .classify(10);
       }},
      // A channel has more elements than one of the CUDA backend's kernels adds up in one go, and
      // with fewer samples fewer such chunks.
      {"many_points",
       [] {
         return Network({2, 101, 99})
             .conv(3, 1)
             .batch_norm()
             .activation(ActivationKind::silu)
             .conv(4, 1)
             .activation(ActivationKind::gelu_tanh)
             .global_avg_pool()
             .linear(3)
             .classify(3);
       },
       kToleranceOfManyPoints},
  };
}

}  // namespace starling::conformance
