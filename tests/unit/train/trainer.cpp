#include "train/trainer.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "model/model.hpp"

using namespace starling;
using namespace starling::train;

namespace {

using model::LayerKind;

model::Model make(const model::Spec& spec, std::uint32_t classes) {
  auto built = model::build(spec, classes);
  if (!built) BOOST_FAIL(built.error().text);
  return std::move(*built);
}

Trainer make_trainer(const model::Model& model, const Config& config) {
  auto trainer = Trainer::create(model.graph, config);
  if (!trainer) BOOST_FAIL(trainer.error().text);
  return std::move(*trainer);
}

/// Images of 8x8 with a bright horizontal or vertical bar in noise: label 0 or 1.
struct Bars {
  std::vector<float> samples;
  std::vector<std::int32_t> labels;

  Bars(std::size_t count, base::Rng& rng) {
    for (std::size_t n = 0; n < count; ++n) {
      const auto label = static_cast<std::int32_t>(rng.below(2));
      const std::size_t place = rng.below(8);
      for (std::size_t i = 0; i < 64; ++i) {
        const bool bright = (label == 0 ? i / 8 : i % 8) == place;
        samples.push_back((bright ? 1.0F : 0.0F) + 0.3F * static_cast<float>(rng.uniform()));
      }
      labels.push_back(label);
    }
  }
  [[nodiscard]] compute::Batch view() const { return view(0, labels.size()); }
  [[nodiscard]] compute::Batch view(std::size_t first, std::size_t count) const {
    return {.samples = std::span(samples).subspan(first * 64, count * 64),
            .tokens = {},
            .labels = std::span(labels).subspan(first, count),
            .targets = {}};
  }
};

model::Model bar_model() {
  return make({{1, 8, 8},
               {{.kind = LayerKind::conv2d, .out = 8, .kernel = 3},
                {.kind = LayerKind::relu},
                {.kind = LayerKind::max_pool2d, .kernel = 2},
                {.kind = LayerKind::linear, .out = 2}}},
              2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(trainer)

BOOST_AUTO_TEST_CASE(a_small_problem_is_learned_by_each_optimizer) {
  for (const Config& config :
       {Config{.optimizer = Optimizer::sgd, .lr = 0.05, .batch = 16},
        Config{.optimizer = Optimizer::adamw, .lr = 0.01, .batch = 16},
        Config{.optimizer = Optimizer::muon, .lr = 0.02, .adam_lr = 0.01, .batch = 16}}) {
    base::Rng rng(21);
    const Bars train_set(512, rng);
    const Bars test_set(203, rng);  // not a multiple of the batch
    const model::Model model = bar_model();
    std::vector<float> parameters = model.initial_parameters(21);
    Trainer trainer = make_trainer(model, config);
    const auto before = trainer.evaluate(parameters, {}, test_set.view());
    BOOST_REQUIRE(before);
    for (std::size_t step = 0; step < 128; ++step) {
      const auto loss = trainer.step(parameters, {}, train_set.view(step % 32 * 16, 16),
                                     static_cast<float>(config.lr), 0);
      BOOST_REQUIRE(loss);
    }
    const auto after = trainer.evaluate(parameters, {}, test_set.view());
    BOOST_REQUIRE(after);
    BOOST_TEST_CONTEXT("seed 21, optimizer " << static_cast<int>(config.optimizer)) {
      BOOST_TEST(before->accuracy < 0.75);
      BOOST_TEST(after->accuracy > 0.97);
      BOOST_TEST(after->loss < 0.3 * before->loss);
    }
    BOOST_TEST(trainer.rule().steps() == 128U);
  }
}

BOOST_AUTO_TEST_CASE(a_step_is_a_gradient_and_its_application) {
  base::Rng rng(22);
  const Bars set(16, rng);
  const model::Model model = bar_model();
  const Config config{.batch = 16};
  std::vector<float> whole = model.initial_parameters(1);
  std::vector<float> halves = whole;
  Trainer first = make_trainer(model, config);
  Trainer second = make_trainer(model, config);
  for (int i = 0; i < 3; ++i) {
    const auto loss = first.step(whole, {}, set.view(), 0.1F, 0);
    const auto same = second.compute_gradient(halves, {}, set.view(), 0);
    BOOST_REQUIRE(loss);
    BOOST_REQUIRE(same);
    BOOST_TEST(*loss == *same);
    BOOST_REQUIRE(second.apply(halves, 0.1F));
  }
  BOOST_TEST((whole == halves));
  BOOST_TEST((whole != model.initial_parameters(1)));
}

BOOST_AUTO_TEST_CASE(a_batch_in_pieces_has_the_gradient_of_the_whole) {
  base::Rng rng(24);
  const Bars set(16, rng);
  const model::Model model = bar_model();
  const std::vector<float> parameters = model.initial_parameters(24);
  Trainer whole = make_trainer(model, {.batch = 16});
  for (const std::uint32_t accumulate : {2U, 3U, 16U}) {
    Trainer pieces = make_trainer(model, {.batch = 16, .accumulate = accumulate});
    for (const std::size_t count : {16U, 9U, 1U}) {
      const auto expected = whole.compute_gradient(parameters, {}, set.view(0, count), 1);
      const auto loss = pieces.compute_gradient(parameters, {}, set.view(0, count), 1);
      BOOST_REQUIRE(expected);
      BOOST_REQUIRE(loss);
      BOOST_TEST_CONTEXT(count << " samples in " << accumulate << " pieces, seed 24") {
        BOOST_TEST(std::abs(*loss - *expected) < 1e-6F);
        float worst = 0;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          worst = std::max(worst, std::abs(pieces.gradient()[i] - whole.gradient()[i]));
        }
        BOOST_TEST(worst < 1e-6F);
      }
    }
    BOOST_TEST(pieces.program_bytes() < whole.program_bytes());
    BOOST_TEST(pieces.training_bytes() ==
               whole.training_bytes() + parameters.size() * sizeof(float));
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_reported_and_changes_nothing) {
  base::Rng rng(23);
  const Bars set(4, rng);
  const model::Model model = bar_model();
  Trainer trainer = make_trainer(model, {.batch = 4});
  std::vector<float> parameters = model.initial_parameters(1);
  BOOST_REQUIRE(trainer.step(parameters, {}, set.view(), 0.1F, 0));
  const std::vector<float> kept = parameters;
  const float momentum = trainer.rule().state().value()[0].values[5];

  Bars bad = set;
  bad.samples[70] = std::numeric_limits<float>::infinity();
  const auto loss = trainer.step(parameters, {}, bad.view(), 0.1F, 0);
  BOOST_REQUIRE(!loss);
  BOOST_TEST((loss.error().code == base::ErrorCode::diverged));

  trainer.gradient()[7] = std::nanf("");
  const auto status = trainer.apply(parameters, 0.1F);
  BOOST_REQUIRE(!status);
  BOOST_TEST((status.error().code == base::ErrorCode::diverged));
  BOOST_TEST((parameters == kept));
  BOOST_TEST(trainer.rule().state().value()[0].values[5] == momentum);
  BOOST_TEST(trainer.rule().steps() == 1U);
}

BOOST_AUTO_TEST_CASE(a_device_or_batch_that_is_not_there_is_an_error) {
  const model::Model model = bar_model();
  const auto device = Trainer::create(model.graph, {.device = "tpu"});
  BOOST_REQUIRE(!device);
  BOOST_TEST(base::exit_code(device.error().code) == 3);
  const auto batch = Trainer::create(model.graph, {.batch = 0});
  BOOST_REQUIRE(!batch);
  BOOST_TEST(base::exit_code(batch.error().code) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
