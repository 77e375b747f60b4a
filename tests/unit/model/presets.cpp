#include "model/presets.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "specs.hpp"

using namespace starling;
using namespace starling::model;
using namespace starling::model::test;

namespace {

compute::Graph graph_of(const Spec& spec, const InputOutput& in_out) {
  auto built = build(spec, in_out);
  BOOST_REQUIRE_MESSAGE(built, (built ? "" : built.error().text));
  return std::move(built->graph);
}

std::size_t parameters(const Spec& spec, const InputOutput& in_out) {
  return graph_of(spec, in_out).parameter_count;
}

/// The names of tensors, a line each, of which `part` is a part.
std::string names(const std::vector<compute::Tensor>& tensors, const std::string& part) {
  std::string text;
  for (const compute::Tensor& tensor : tensors) {
    if (contains(tensor.name, part)) {
      text += tensor.name + " " + compute::to_string(tensor.shape) + "\n";
    }
  }
  return text;
}

const InputOutput kFashion{.input = {1, 28, 28}, .outputs = 10};
const InputOutput kCifar{.input = {3, 32, 32}, .outputs = 10};
const InputOutput kImageNet{.input = {3, 224, 224}, .outputs = 1000};
const InputOutput kGpt2{.input = {1024}, .vocabulary = 50257, .outputs = 50257};
const InputOutput kBytes{.input = {128}, .vocabulary = 256, .outputs = 256};

}  // namespace

BOOST_AUTO_TEST_SUITE(presets)

BOOST_AUTO_TEST_CASE(sizes_are_those_that_are_published) {
  BOOST_TEST(parameters(spec_of(Preset::resnet18), kImageNet) == 11'689'512U);
  BOOST_TEST(parameters(spec_of(Preset::resnet50), kImageNet) == 25'557'032U);
  BOOST_TEST(parameters(spec_of(Preset::resnet18), kCifar) == 11'173'962U);
  BOOST_TEST(parameters(spec_of(Preset::resnet50), kCifar) == 23'520'842U);
  BOOST_TEST(parameters(spec_of(Preset::resnet20), kCifar) == 272'474U);
  PresetSizes gpt2{};
  gpt2.depth = gpt2.heads = 12;
  gpt2.width = 768;
  gpt2.context = 1024;
  BOOST_TEST(parameters(spec_of(Preset::gpt, gpt2), kGpt2) == 124'439'808U);
  gpt2.vocabulary = 50304;  // nanoGPT's
  BOOST_TEST(parameters(spec_of(Preset::gpt, gpt2), kGpt2) == 124'475'904U);
  PresetSizes llama{};  // Llama 2 7B has 32,000 tokens
  llama.style = GptStyle::llama;
  llama.depth = 1;
  llama.heads = 32;
  llama.width = 4096;
  llama.mlp_width = 11008;
  llama.tied = false;
  BOOST_TEST(parameters(spec_of(Preset::gpt, llama),
                        {.input = {128}, .vocabulary = 32000, .outputs = 32000}) ==
             (6'738'415'616U - 2 * 32000 * 4096UL - 4096) / 32 + 2 * 32000 * 4096UL + 4096);
  // The CNN and MLP of scenarios/runs.
  BOOST_TEST(parameters(spec_of(Preset::cnn), kFashion) == 1'199'882U);
  BOOST_TEST(parameters(spec_of(Preset::mlp), kFashion) == 203'530U);
}

BOOST_AUTO_TEST_CASE(resnets_have_the_names_of_torchvision) {
  const compute::Graph graph = graph_of(spec_of(Preset::resnet18), kImageNet);
  BOOST_TEST(names({graph.tensors.begin(), graph.tensors.begin() + 3}, "") ==
             "conv1.weight 64x3x7x7\nbn1.weight 64\nbn1.bias 64\n");
  BOOST_TEST(names(graph.tensors, "layer2.0.") ==
             "layer2.0.conv1.weight 128x64x3x3\nlayer2.0.bn1.weight 128\nlayer2.0.bn1.bias 128\n"
             "layer2.0.conv2.weight 128x128x3x3\nlayer2.0.bn2.weight 128\nlayer2.0.bn2.bias 128\n"
             "layer2.0.downsample.0.weight 128x64x1x1\nlayer2.0.downsample.1.weight 128\n"
             "layer2.0.downsample.1.bias 128\n");
  BOOST_TEST(names(graph.tensors, "fc.") == "fc.weight 1000x512\nfc.bias 1000\n");
  BOOST_TEST(names(graph.buffers, "layer1.0.bn1") ==
             "layer1.0.bn1.running_mean 64\nlayer1.0.bn1.running_var 64\n");
  const compute::Graph large = graph_of(spec_of(Preset::resnet50), kImageNet);
  BOOST_TEST(names(large.tensors, "layer3.0.conv") ==
             "layer3.0.conv1.weight 256x512x1x1\nlayer3.0.conv2.weight 256x256x3x3\n"
             "layer3.0.conv3.weight 1024x256x1x1\n");
  BOOST_TEST(names(large.tensors, "layer1.0.downsample.0") ==
             "layer1.0.downsample.0.weight 256x64x1x1\n");
}

BOOST_AUTO_TEST_CASE(resnets_halve_the_image_where_torchvision_does) {
  const auto last_image = [](const compute::Graph& graph) {
    return compute::to_string((graph.ops.end() - 2)->in);
  };
  BOOST_TEST(last_image(graph_of(spec_of(Preset::resnet18), kImageNet)) == "512x7x7");
  BOOST_TEST(last_image(graph_of(spec_of(Preset::resnet50), kImageNet)) == "2048x7x7");
  BOOST_TEST(last_image(graph_of(spec_of(Preset::resnet18), kCifar)) == "512x4x4");
  BOOST_TEST(last_image(graph_of(spec_of(Preset::resnet20), kCifar)) == "64x8x8");
  BOOST_TEST(last_image(graph_of(spec_of(Preset::resnet20), kFashion)) == "64x7x7");
  const InputOutput small{.input = {3, 64, 64}, .outputs = 10};
  BOOST_TEST(graph_of(spec_of(Preset::resnet18), small).tensors[0].shape[2] == 3U);
  const InputOutput wide{.input = {3, 64, 65}, .outputs = 10};
  BOOST_TEST(graph_of(spec_of(Preset::resnet18), wide).tensors[0].shape[2] == 7U);
  // Multiply-adds of a forward pass, as often published.
  BOOST_TEST(compute::forward_flops(graph_of(spec_of(Preset::resnet18), kImageNet)) / 2 == 1.814e9,
             boost::test_tools::tolerance(0.001));
  BOOST_TEST(compute::forward_flops(graph_of(spec_of(Preset::resnet50), kImageNet)) / 2 == 4.089e9,
             boost::test_tools::tolerance(0.001));
}

BOOST_AUTO_TEST_CASE(gpt2_has_the_names_of_nanogpt) {
  PresetSizes sizes{};
  sizes.depth = 2;
  sizes.dropout = 0.1;
  const compute::Graph graph = graph_of(spec_of(Preset::gpt, sizes), kBytes);
  BOOST_TEST(names(graph.tensors, "transformer.w") ==
             "transformer.wte.weight 256x256\ntransformer.wpe.weight 128x256\n");
  BOOST_TEST(names(graph.tensors, "h.1.") ==
             "transformer.h.1.ln_1.weight 256\ntransformer.h.1.ln_1.bias 256\n"
             "transformer.h.1.attn.c_attn.weight 768x256\ntransformer.h.1.attn.c_attn.bias 768\n"
             "transformer.h.1.attn.c_proj.weight 256x256\ntransformer.h.1.attn.c_proj.bias 256\n"
             "transformer.h.1.ln_2.weight 256\ntransformer.h.1.ln_2.bias 256\n"
             "transformer.h.1.mlp.c_fc.weight 1024x256\ntransformer.h.1.mlp.c_fc.bias 1024\n"
             "transformer.h.1.mlp.c_proj.weight 256x1024\ntransformer.h.1.mlp.c_proj.bias 256\n");
  BOOST_TEST(names(graph.tensors, "lm_head") == "");
  BOOST_TEST(std::ranges::count_if(graph.ops, [](const compute::Op& op) {
               return std::holds_alternative<compute::Dropout>(op.kind);
             }) == 5);
  sizes.tied = false;
  BOOST_TEST(names(graph_of(spec_of(Preset::gpt, sizes), kBytes).tensors, "lm_head") ==
             "lm_head.weight 256x256\n");
}

BOOST_AUTO_TEST_CASE(llama_has_the_names_of_fused_hugging_face_models) {
  PresetSizes sizes{};
  sizes.style = GptStyle::llama;
  sizes.heads = 8;
  sizes.kv_heads = 2;
  const compute::Graph graph = graph_of(spec_of(Preset::gpt, sizes), kBytes);
  BOOST_TEST(names(graph.tensors, "layers.0.") ==
             "model.layers.0.input_layernorm.weight 256\n"
             "model.layers.0.self_attn.qkv_proj.weight 384x256\n"
             "model.layers.0.self_attn.o_proj.weight 256x256\n"
             "model.layers.0.post_attention_layernorm.weight 256\n"
             "model.layers.0.mlp.gate_up_proj.weight 1408x256\n"
             "model.layers.0.mlp.down_proj.weight 256x704\n");
  BOOST_TEST(names(graph.tensors, "embed") == "model.embed_tokens.weight 256x256\n");
  BOOST_TEST(names(graph.tensors, "model.norm") == "model.norm.weight 256\n");
}

BOOST_AUTO_TEST_CASE(sizes_of_presets_scale_them) {
  PresetSizes sizes{};
  sizes.widths = {32, 16};
  BOOST_TEST(parameters(spec_of(Preset::mlp, sizes), kFashion) ==
             784U * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10);
  BOOST_TEST(parameters(spec_of(Preset::mlp, sizes), {.input = {4, 8}, .outputs = 3}) ==
             32U * 32 + 32 + 32 * 16 + 16 + 16 * 3 + 3);
  sizes.width = 8;
  BOOST_TEST(graph_of(spec_of(Preset::cnn, sizes), kFashion).tensors[2].shape[0] == 16U);
  BOOST_TEST(graph_of(spec_of(Preset::resnet20, sizes), kFashion).tensors[0].shape[0] == 8U);
}

BOOST_AUTO_TEST_CASE(data_that_a_preset_cannot_take_is_refused) {
  BOOST_TEST(error_of(spec_of(Preset::resnet18), {.input = {784}, .outputs = 10}) ==
             "model: preset resnet18 takes images, channels x height x width, but samples are 784");
  BOOST_TEST(contains(error_of(spec_of(Preset::cnn), kBytes), "but the model takes none"));
  BOOST_TEST(contains(layers_of(Preset::cnn, {}, kBytes).error().text,
                      "preset cnn takes numbers, but samples are tokens"));
  BOOST_TEST(
      contains(error_of(spec_of(Preset::gpt), kFashion), "takes tokens, but samples are num"));
  BOOST_TEST(contains(error_of(spec_of(Preset::mlp), {.input = {4}}), "how many classes"));
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_refused) {
  PresetSizes sizes{};
  sizes.heads = 3;
  BOOST_TEST(error_of(spec_of(Preset::gpt, sizes), kBytes) ==
             "model: width 256 is not a multiple of heads, 3");
  sizes.heads = 4;
  sizes.kv_heads = 3;
  BOOST_TEST(contains(error_of(spec_of(Preset::gpt, sizes), kBytes), "not a multiple of kv_heads"));
  sizes = {};
  sizes.context = 64;
  BOOST_TEST(contains(error_of(spec_of(Preset::gpt, sizes), kBytes),
                      "it takes 64 tokens, but samples have 128"));
  sizes.context = 128;
  sizes.vocabulary = 255;
  BOOST_TEST(contains(error_of(spec_of(Preset::gpt, sizes), kBytes),
                      "vocabulary is 255, but the data has 256"));
}

BOOST_AUTO_TEST_CASE(a_preset_is_the_same_model_as_its_layers_written_out) {
  const auto layers = layers_of(Preset::resnet20, {}, kFashion);
  BOOST_REQUIRE(layers);
  Spec written{};
  written.layers = *layers;
  const auto ours = build(written, kFashion);
  const auto preset = build(spec_of(Preset::resnet20), kFashion);
  BOOST_REQUIRE(ours);
  BOOST_REQUIRE(preset);
  BOOST_TEST(ours->table() == preset->table());
  BOOST_TEST((ours->initial_parameters(1) == preset->initial_parameters(1)));
}

BOOST_AUTO_TEST_SUITE_END()
