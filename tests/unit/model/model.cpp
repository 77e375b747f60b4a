#include "model/model.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "specs.hpp"

using namespace starling;
using namespace starling::model;
using namespace starling::model::test;

BOOST_AUTO_TEST_SUITE(model)

BOOST_AUTO_TEST_CASE(build_fills_in_strides_and_counts_parameters) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  BOOST_TEST(built->parameter_count() == 1'199'882U);
  BOOST_TEST(compute::to_string(built->graph.ops[2].out) == "64x24x24");
  BOOST_TEST(compute::to_string(built->graph.ops[4].out) == "64x12x12");
  const auto mlp = build({{784},
                          {{.kind = LayerKind::linear, .out = 256},
                           {.kind = LayerKind::relu},
                           {.kind = LayerKind::linear, .out = 10}}},
                         10);
  BOOST_REQUIRE(mlp);
  BOOST_TEST(mlp->parameter_count() == 203'530U);
}

BOOST_AUTO_TEST_CASE(errors_name_the_layer_its_kind_and_the_shapes) {
  Spec spec = cnn();
  spec.layers[2].kernel = 27;
  BOOST_TEST(
      error_of(spec) ==
      "model: layers[2] (conv2d): its window of 27x27 is larger than its input 32x26x26 with "
      "0 pixels of padding");
  spec = cnn();
  spec.layers.push_back({.kind = LayerKind::max_pool2d, .kernel = 2});
  BOOST_TEST(contains(error_of(spec), "layers[8] (max_pool2d): needs an input of channels"));
  spec = cnn();
  spec.layers.back().out = 11;
  BOOST_TEST(contains(error_of(spec), "gives 11 outputs, but the data has 10 classes"));
  spec = cnn();
  spec.input = {1, 1, 28, 28};
  BOOST_TEST(contains(error_of(spec), "has 4 sides"));
  BOOST_TEST(contains(error_of({{784}, {}}), "no layer that can be trained"));
}

BOOST_AUTO_TEST_CASE(names_follow_the_layers_they_stand_in) {
  Spec spec{{8},
            {{.kind = LayerKind::linear, .name = "first", .out = 4},
             {.kind = LayerKind::residual,
              .name = "sum",
              .layers = {{.kind = LayerKind::linear, .out = 4},
                         {.kind = LayerKind::relu},
                         {.kind = LayerKind::linear, .name = "last.one", .out = 4}},
              .shortcut = {{.kind = LayerKind::linear, .out = 4}}},
             {.kind = LayerKind::residual, .layers = {{.kind = LayerKind::linear, .out = 4}}},
             {.kind = LayerKind::residual,
              .name = "",
              .layers = {{.kind = LayerKind::linear, .name = "bare", .out = 4}}},
             {.kind = LayerKind::block, .block = "pair", .repeat = 2},
             {.kind = LayerKind::block, .name = "tail", .block = "pair"},
             {.kind = LayerKind::linear, .out = 10}}};
  spec.blocks["pair"] = {{.kind = LayerKind::linear, .out = 4, .bias = false},
                         {.kind = LayerKind::batch_norm, .name = "bn"}};
  const auto built = build(spec, 10);
  BOOST_REQUIRE_MESSAGE(built, (built ? "" : built.error().text));
  std::string names;
  for (const compute::Tensor& tensor : built->graph.tensors) names += tensor.name + "\n";
  for (const compute::Tensor& tensor : built->graph.buffers) names += tensor.name + "\n";
  BOOST_TEST(names ==
             "first.weight\nfirst.bias\nsum.0.weight\nsum.0.bias\nsum.last.one.weight\n"
             "sum.last.one.bias\nsum.shortcut.0.weight\nsum.shortcut.0.bias\nlayers.2.0.weight\n"
             "layers.2.0.bias\nbare.weight\nbare.bias\nlayers.4.0.0.weight\nlayers.4.0.bn.weight\n"
             "layers.4.0.bn.bias\nlayers.4.1.0.weight\nlayers.4.1.bn.weight\nlayers.4.1.bn.bias\n"
             "tail.0.weight\ntail.bn.weight\ntail.bn.bias\nlayers.6.weight\nlayers.6.bias\n"
             "layers.4.0.bn.running_mean\nlayers.4.0.bn.running_var\nlayers.4.1.bn.running_mean\n"
             "layers.4.1.bn.running_var\ntail.bn.running_mean\ntail.bn.running_var\n");
}

BOOST_AUTO_TEST_CASE(residual_adds_the_branch_to_its_shortcut) {
  const LayerSpec four{.kind = LayerKind::linear, .out = 4};
  const auto with = build({{4},
                           {four,
                            {.kind = LayerKind::residual,
                             .layers = {four, {.kind = LayerKind::relu}},
                             .shortcut = {{.kind = LayerKind::gelu}}},
                            {.kind = LayerKind::residual, .layers = {four}}}},
                          4);
  BOOST_REQUIRE_MESSAGE(with, (with ? "" : with.error().text));
  // linear, linear, relu, gelu, add, linear, add
  using Inputs = std::vector<compute::ValueId>;
  const auto& ops = with->graph.ops;
  BOOST_REQUIRE(ops.size() == 7U);
  BOOST_TEST((ops[1].inputs == Inputs{0}));
  BOOST_TEST((ops[3].inputs == Inputs{0}));
  BOOST_TEST((ops[4].inputs == Inputs{2, 3}));
  BOOST_TEST((ops[5].inputs == Inputs{4}));
  BOOST_TEST((ops[6].inputs == Inputs{5, 4}));
}

BOOST_AUTO_TEST_CASE(errors_within_layers_name_the_whole_path) {
  const LayerSpec conv{.kind = LayerKind::conv2d, .out = 8, .kernel = 3, .padding = 1};
  Spec spec{
      {1, 28, 28},
      {{.kind = LayerKind::residual,
        .name = "layer2.0",
        .layers = {conv, {.kind = LayerKind::conv2d, .name = "conv2", .out = 8, .kernel = 31}},
        .shortcut = {conv}},
       {.kind = LayerKind::linear, .out = 10}}};
  BOOST_TEST(
      contains(error_of(spec),
               "model: layers[0].layers[1] 'layer2.0.conv2' (conv2d): its window of 31x31 is "
               "larger than its input 8x28x28"));
  spec.layers[0].layers[1].kernel = 3;
  BOOST_TEST(
      contains(error_of(spec),
               "layers[0] 'layer2.0' (residual): the two branches give 8x26x26 and 8x28x28"));
  spec.layers[0].layers.clear();
  BOOST_TEST(contains(error_of(spec), "layers[0] 'layer2.0' (residual): has no layers"));

  spec.layers[0] = {.kind = LayerKind::block, .block = "double", .repeat = 3};
  BOOST_TEST(contains(error_of(spec), "layers[0]: there is no block 'double'"));
  spec.blocks["doubel"] = {conv};
  BOOST_TEST(contains(error_of(spec), "did you mean 'doubel'?"));
  spec.blocks["double"] = {conv, {.kind = LayerKind::max_pool2d, .kernel = 4}};
  BOOST_TEST(contains(error_of(spec),
                      "layers[0], blocks.double[1] 'layers.0.2.1' (max_pool2d): its window of 4x4 "
                      "is larger than its input 8x1x1"));
}

BOOST_AUTO_TEST_CASE(descriptions_without_end_are_refused) {
  Spec spec{{8}, {{.kind = LayerKind::block, .block = "a"}}};
  spec.blocks["a"] = {{.kind = LayerKind::block, .block = "b"}};
  spec.blocks["b"] = {{.kind = LayerKind::block, .block = "a"}};
  BOOST_TEST(contains(error_of(spec), "block 'a' contains itself"));

  // 2^20 layers, and none of them an op.
  spec.blocks.clear();
  for (char name = 'a'; name < 'k'; ++name) {
    spec.blocks[std::string(1, name)] = {{.kind = LayerKind::block,
                                          .block = std::string(1, static_cast<char>(name + 1)),
                                          .repeat = 4}};
  }
  spec.blocks["k"] = {};
  BOOST_TEST(contains(error_of(spec), "a model may have at most 4096 layers, repeats counted"));

  LayerSpec nest{.kind = LayerKind::relu};
  for (std::size_t i = 0; i <= kDepthMax; ++i) {
    nest = LayerSpec{.kind = LayerKind::residual, .layers = {nest}};
  }
  BOOST_TEST(contains(error_of({{8}, {nest}}), "layers stand within layers more than 16 deep"));
}

BOOST_AUTO_TEST_CASE(equal_names_of_tensors_are_refused) {
  const LayerSpec twice{.kind = LayerKind::linear, .name = "fc", .out = 10};
  BOOST_TEST(error_of({{8}, {twice, twice}}) ==
             "model: two tensors are called 'fc.weight': give their layers different names");
}

BOOST_AUTO_TEST_CASE(tokens_go_through_an_embedding) {
  const InputOutput text{.input = {16}, .vocabulary = 50, .outputs = 50};
  Spec spec{{16},
            {{.kind = LayerKind::embedding, .out = 16, .initial_std = 0.5},
             {.kind = LayerKind::positions},
             {.kind = LayerKind::linear, .out = 32, .bias = false},
             {.kind = LayerKind::attention, .heads = 4, .kv_heads = 2, .rotary = 100},
             {.kind = LayerKind::tied_linear}}};
  const auto built = build(spec, text);
  BOOST_REQUIRE_MESSAGE(built, (built ? "" : built.error().text));
  BOOST_TEST(built->graph.positions == 16U);
  BOOST_TEST(built->graph.classes == 50U);
  BOOST_TEST(built->parameter_count() == 50U * 16 + 16 * 16 + 16 * 32);
  BOOST_TEST(built->graph.tensors[0].initial_std == 0.5F);
  BOOST_TEST(built->graph.tensors[1].initial_std == 1.0F);
  const auto& attention = std::get<compute::Attention>(built->graph.ops[3].kind);
  BOOST_TEST(attention.kv_heads == 2U);
  BOOST_TEST(attention.head_size == 4U);
  BOOST_TEST(context_of(spec) == 16U);
  spec.input = {8};
  BOOST_TEST(contains(build(spec, text).error().text, "it takes 8 tokens, but samples have 16"));
  spec.layers[0] = {.kind = LayerKind::residual, .layers = {spec.layers[0]}};
  BOOST_TEST(context_of(spec) == 8U);
  BOOST_TEST(
      contains(build(spec, {.vocabulary = 50}).error().text, "an embedding must come first"));
  spec.layers.erase(spec.layers.begin());
  BOOST_TEST(context_of(spec) == 0U);
  BOOST_TEST(
      contains(build(spec, text).error().text, "samples are tokens, but the model takes none"));
}

BOOST_AUTO_TEST_CASE(text_needs_outputs_at_each_of_its_positions) {
  const InputOutput text{.input = {8}, .vocabulary = 50, .outputs = 50};
  Spec spec{{8},
            {{.kind = LayerKind::embedding, .out = 4},
             {.kind = LayerKind::flatten},
             {.kind = LayerKind::linear, .out = 50}}};
  BOOST_TEST(error_of(spec, text) ==
             "model: its input is 8 tokens and its output 50, but text has a label for each "
             "position: the output must be 8x50");
  const auto refused = build(spec, text);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == base::ErrorCode::run_file));
  spec.layers.erase(spec.layers.begin() + 1);
  BOOST_TEST(error_of(spec, text) == "");
  // A single position may be flattened away.
  spec = {{1},
          {{.kind = LayerKind::embedding, .out = 4},
           {.kind = LayerKind::flatten},
           {.kind = LayerKind::linear, .out = 50}}};
  BOOST_TEST(error_of(spec, {.vocabulary = 50, .outputs = 50}) == "");
}

BOOST_AUTO_TEST_CASE(losses_are_as_asked) {
  Spec spec{{8}, {{.kind = LayerKind::linear, .out = 3}}};
  spec.label_smoothing = 0.25;
  BOOST_TEST(build(spec, 3)->graph.loss.label_smoothing == 0.25F);
  BOOST_TEST(build(spec, 0)->graph.classes == 3U);
  spec.loss = compute::LossKind::mean_squared;
  BOOST_TEST((build(spec, 3)->graph.loss.kind == compute::LossKind::mean_squared));
  BOOST_TEST(contains(error_of(spec), "gives 3 outputs, but a target has 10 values"));
}

BOOST_AUTO_TEST_CASE(table_lists_every_layer_and_the_total) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::string table = built->table();
  BOOST_TEST(std::ranges::count(table, '\n') == 11);
  BOOST_TEST(contains(table, "2  layers.2  conv2d      64x24x24       18496\n"));
  BOOST_TEST(contains(table, "1199882\n"));
}

BOOST_AUTO_TEST_SUITE_END()
