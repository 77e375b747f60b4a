#include <fmt/format.h>

#include "cases.hpp"
#include "network.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

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
  ValueId shortcut = input;
  if (stride > 1) {
    const ValueId branch = net.last();
    net.at(input)
        .name(name + ".shortcut.0")
        .conv(channels, 1, {.stride = stride, .weight = kNoBias})
        .name(name + ".shortcut.1")
        .batch_norm();
    shortcut = net.last();
    net.at(branch);
  }
  net.add(shortcut).relu();
}

Graph resnet() {
  Network net({3, 8, 8});
  net.name("conv").conv(8, 3, {.padding = 1, .weight = {.bias = false}}).name("bn").batch_norm();
  net.relu();
  residual(net, "blocks.0", 8, 1);
  residual(net, "blocks.1", 12, 2);
  return net.global_avg_pool().name("fc").linear(5).classify(5);
}

Graph gpt2() {
  constexpr float kRate = 0.1F;
  Network net = Network::of_tokens(8, 20);
  net.name("wte").embedding(16).name("wpe").positions().dropout(kRate);
  for (int i = 0; i < 2; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const ValueId input = net.last();
    net.name(block + "ln_1").layer_norm().name(block + "qkv").linear(48).attention(4, 4);
    net.name(block + "out").linear(16).dropout(kRate).add(input);
    const ValueId middle = net.last();
    net.name(block + "ln_2").layer_norm().name(block + "up").linear(64);
    net.activation(ActivationKind::gelu_tanh);
    net.name(block + "down").linear(16).dropout(kRate).add(middle);
  }
  return net.name("ln_f").layer_norm().tied_linear().classify(20);
}

Graph llama() {
  Network net = Network::of_tokens(8, 20);
  net.name("embedding").embedding(16);
  for (int i = 0; i < 2; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const ValueId input = net.last();
    net.name(block + "norm_1").rms_norm().name(block + "qkv").linear(32, false);
    net.attention(4, 2, 1e4F).name(block + "out").linear(16, false).add(input);
    const ValueId middle = net.last();
    net.name(block + "norm_2").rms_norm().name(block + "gate_up").linear(40, false).swiglu();
    net.name(block + "down").linear(16, false).add(middle);
  }
  return net.name("norm").rms_norm().name("head").linear(20, false).classify(20);
}

}  // namespace

Cases model_cases() { return {{"resnet", resnet}, {"gpt2", gpt2}, {"llama", llama}}; }

Cases wide_cases() {
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
  };
}

}  // namespace starling::conformance
