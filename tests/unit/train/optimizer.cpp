#include "train/optimizer.hpp"

#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling;
using namespace starling::train;

namespace {

std::vector<float> random_floats(std::size_t count, base::Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}

/// AdamW in double precision, as its paper has it, for one parameter.
struct PlainAdamW {
  double parameter;
  double mean = 0;
  double square = 0;

  void apply(const Config& c, double gradient, double lr, int t) {
    parameter -= lr * c.weight_decay * parameter;
    mean = c.beta1 * mean + (1 - c.beta1) * gradient;
    square = c.beta2 * square + (1 - c.beta2) * gradient * gradient;
    const double unbiased_mean = mean / (1 - std::pow(c.beta1, t));
    const double unbiased_square = square / (1 - std::pow(c.beta2, t));
    parameter -= lr * unbiased_mean / (std::sqrt(unbiased_square) + c.epsilon);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer)

BOOST_AUTO_TEST_CASE(momentum_sgd_matches_values_computed_by_hand) {
  UpdateRule rule({.optimizer = Optimizer::sgd, .momentum = 0.5}, 2);
  std::vector<float> parameters{1.0F, -2.0F};
  rule.apply(parameters, std::vector{2.0F, 4.0F}, 0.25F);  // v = 2, 4
  BOOST_TEST(parameters[0] == 0.5F);
  BOOST_TEST(parameters[1] == -3.0F);
  rule.apply(parameters, std::vector{1.0F, -2.0F}, 0.25F);  // v = 2, 0
  BOOST_TEST(parameters[0] == 0.0F);
  BOOST_TEST(parameters[1] == -3.0F);
  BOOST_TEST(rule.slots()[0].values[0] == 2.0F);
  BOOST_TEST(rule.slots()[0].values[1] == 0.0F);
}

BOOST_AUTO_TEST_CASE(weight_decay_of_sgd_is_added_to_the_gradient) {
  UpdateRule rule({.optimizer = Optimizer::sgd, .momentum = 0.5, .weight_decay = 0.5}, 1);
  std::vector<float> parameters{4.0F};
  rule.apply(parameters, std::vector{0.0F}, 0.5F);  // v = 2
  BOOST_TEST(parameters[0] == 3.0F);
  rule.apply(parameters, std::vector{1.0F}, 0.5F);  // v = 1 + 1 + 1.5
  BOOST_TEST(parameters[0] == 1.25F);
}

BOOST_AUTO_TEST_CASE(adamw_follows_a_double_precision_reference) {
  const Config config{.optimizer = Optimizer::adamw, .weight_decay = 0.1};
  base::Rng rng(11);
  constexpr std::size_t kCount = 37;
  std::vector<float> parameters = random_floats(kCount, rng);
  std::vector<PlainAdamW> expected;
  for (const float value : parameters) expected.push_back({value});
  UpdateRule rule(config, kCount);
  for (int t = 1; t <= 200; ++t) {
    const std::vector<float> gradient = random_floats(kCount, rng);
    rule.apply(parameters, gradient, 1e-3F);
    for (std::size_t i = 0; i < kCount; ++i) expected[i].apply(config, gradient[i], 1e-3F, t);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    BOOST_TEST_CONTEXT("parameter " << i << ", seed 11") {
      BOOST_TEST(std::abs(parameters[i] - expected[i].parameter) < 1e-5);
    }
  }
}

/// Made with PyTorch 2.15 in float64 (SGD and AdamW with the same arguments), from
///     p = [(i - 2) / 4 for i in range(5)]
///     and at step t = 1..6 the gradient [((7 * t + 3 * i) % 11 - 5) / 8 for i in range(5)]
struct Recorded {
  const char* name;
  Config config;
  std::vector<double> expected;
};

BOOST_AUTO_TEST_CASE(six_steps_end_where_pytorch_ends) {
  const Recorded runs[] = {
      {"SGD",
       {.optimizer = Optimizer::sgd, .momentum = 0.75, .weight_decay = 0.25},
       {-0.513466145, -0.358311858, 0.032691392, 0.336002009, 0.319281297}},
      {"SGD, Nesterov",
       {.optimizer = Optimizer::sgd, .momentum = 0.75, .nesterov = true, .weight_decay = 0.25},
       {-0.523523677, -0.301541027, 0.034406891, 0.337410996, 0.258612396}},
      {"AdamW",
       {.optimizer = Optimizer::adamw, .beta1 = 0.75, .beta2 = 0.875, .weight_decay = 0.25},
       {-0.690174012, -0.486527358, 0.089821601, 0.406555707, 0.347912956}}};
  for (const Recorded& run : runs) {
    UpdateRule rule(run.config, 5);
    std::vector<float> parameters{-0.5F, -0.25F, 0.0F, 0.25F, 0.5F};
    for (int t = 1; t <= 6; ++t) {
      std::vector<float> gradient;
      for (int i = 0; i < 5; ++i) {
        gradient.push_back(static_cast<float>((7 * t + 3 * i) % 11 - 5) / 8);
      }
      rule.apply(parameters, gradient, 0.125F);
    }
    for (std::size_t i = 0; i < 5; ++i) {
      BOOST_TEST_CONTEXT(run.name << ", parameter " << i) {
        BOOST_TEST(std::abs(parameters[i] - run.expected[i]) < 1e-6);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rule_with_restored_state_goes_on_with_the_same_bits) {
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::adamw}) {
    const Config config{.optimizer = kind, .weight_decay = 0.01};
    base::Rng rng(12);
    std::vector<float> parameters = random_floats(50, rng);
    UpdateRule rule(config, 50);
    for (int t = 0; t < 3; ++t) rule.apply(parameters, random_floats(50, rng), 0.01F);

    UpdateRule restored(config, 50);
    restored.set_steps(rule.steps());
    const auto from = rule.slots();
    const auto to = restored.slots();
    BOOST_REQUIRE(from.size() == (kind == Optimizer::sgd ? 1U : 2U));
    for (std::size_t i = 0; i < from.size(); ++i) {
      BOOST_TEST(from[i].name == to[i].name);
      std::ranges::copy(from[i].values, to[i].values.begin());
    }
    std::vector<float> copy = parameters;
    const std::vector<float> gradient = random_floats(50, rng);
    rule.apply(parameters, gradient, 0.01F);
    restored.apply(copy, gradient, 0.01F);
    BOOST_TEST((parameters == copy));
  }
}

BOOST_AUTO_TEST_SUITE_END()
