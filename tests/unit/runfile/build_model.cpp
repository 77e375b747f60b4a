#include "runfile/build_model.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::runfile;

namespace {

/// About the largest allowed number of layers, with long names, nested in `deep` blocks.
RunFile long_names(std::size_t deep) {
  using model::LayerKind;
  const std::string name(model::kNameMax, 'n');
  const auto block = [](std::size_t i) { return "block " + std::to_string(i); };
  RunFile run_file;
  run_file.model.loss = compute::LossKind::mean_squared;
  for (char letter = 'a'; letter < 'u'; ++letter) {
    run_file.model.blocks[block(0)].push_back(
        {.kind = LayerKind::linear, .name = name.substr(1) + letter, .out = 1});
  }
  for (std::size_t i = 1; i < deep; ++i) {
    run_file.model.blocks[block(i)] = {{.kind = LayerKind::block,
                                        .name = name,
                                        .block = block(i - 1),
                                        .repeat = i == 1 ? 193U : 0U}};
  }
  run_file.model.layers = {{.kind = LayerKind::block, .name = name, .block = block(deep - 1)}};
  return run_file;
}

const data::SampleFormat kOneToOne{.shape = {1}, .target_shape = {1}};

}  // namespace

BOOST_AUTO_TEST_SUITE(build_model_of_a_run)

BOOST_AUTO_TEST_CASE(a_model_whose_optimizer_no_checkpoint_could_hold_is_refused) {
  RunFile run_file = long_names(15);
  run_file.train.optimizer = train::Optimizer::sgd;
  const auto model = build_model(run_file, kOneToOne);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? "" : model.error().text));
  run_file.train.optimizer = train::Optimizer::adamw;
  const auto refused = build_model(run_file, kOneToOne);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == base::ErrorCode::run_file));
  BOOST_TEST(refused.error().text.starts_with("model: cannot be saved: tensors: "));
  BOOST_TEST(refused.error().text.ends_with("give them shorter names"));
}

BOOST_AUTO_TEST_SUITE_END()
