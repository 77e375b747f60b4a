#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "matrices.hpp"

using namespace starling;
using namespace starling::train;

namespace {

std::vector<float> random_floats(std::size_t count, base::Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}

/// One tensor: all that SGD and AdamW see of a graph.
compute::Graph flat(std::uint32_t count) {
  compute::Graph graph;
  graph.tensors.push_back({.name = "p", .shape = {count}, .size = count});
  graph.parameter_count = count;
  return graph;
}

/// A hidden layer of rows x cols, which comes first, and an output layer of 2 x rows; with biases
/// of `rows` and 2 elements, each behind its weight.
compute::Graph two_layers(std::uint32_t rows, std::uint32_t cols, bool bias = true) {
  auto builder = compute::GraphBuilder::start({cols});
  BOOST_REQUIRE(builder);
  BOOST_REQUIRE(builder->linear(rows, {.bias = bias}));
  BOOST_REQUIRE(builder->linear(2, {.bias = bias}));
  auto graph = std::move(*builder).finish(2);
  BOOST_REQUIRE(graph);
  return std::move(*graph);
}

/// A device that has the state, and nothing else.
class Device final : public compute::Resident {
 public:
  base::Status read_state(std::size_t which, std::span<float> to) override {
    std::ranges::fill(to, static_cast<float>(which + 1));
    return {};
  }
  base::Status write_state(std::size_t, std::span<const float>) override { return {}; }
  delta::ReplicaMemory& replica() noexcept override { std::abort(); }
  base::Result<compute::StepResult> step(std::span<float>, std::span<const compute::Piece>,
                                         const compute::Update&, const compute::Batch*) override {
    return compute::StepResult{};
  }
  base::Status snapshot() override { return {}; }
  base::Result<compute::Evaluation> evaluate(std::span<const float>,
                                             const compute::Batch&) override {
    return compute::Evaluation{};
  }
  base::Result<std::span<const float>> outputs(std::span<const float>,
                                               const compute::Batch&) override {
    return std::span<const float>();
  }
};

/// The state as a checkpoint's file, which may lack the parts whose names end so.
TensorFile saved(UpdateRule& rule, const std::optional<std::string>& lacks = {},
                 std::vector<TensorView> views = {}) {
  const auto pieces = rule.state();
  BOOST_REQUIRE(pieces);
  for (const UpdateRule::State& piece : *pieces) {
    if (lacks && piece.name.ends_with(*lacks)) continue;
    views.push_back({piece.name, piece.shape, std::span<const float>(piece.values)});
  }
  const std::string header = safetensors_header(views);
  base::Bytes file;
  for (const base::ByteView part : safetensors_parts(header, views)) {
    file.insert(file.end(), part.begin(), part.end());
  }
  auto parsed = TensorFile::parse(std::move(file), "state");
  BOOST_REQUIRE(parsed);
  return std::move(*parsed);
}

/// SGD in double precision for one parameter.
struct PlainSgd {
  double parameter;
  double velocity = 0;

  void apply(const Config& c, double gradient, double lr) {
    gradient += c.weight_decay * parameter;
    velocity = c.momentum * velocity + gradient;
    parameter -= lr * (c.nesterov ? gradient + c.momentum * velocity : velocity);
  }
};

/// AdamW in double precision, as in its paper, for one parameter.
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
  UpdateRule rule({.optimizer = Optimizer::sgd, .momentum = 0.5}, flat(2));
  std::vector<float> parameters{1.0F, -2.0F};
  rule.apply(parameters, std::vector{2.0F, 4.0F}, 0.25F);  // v = 2, 4
  BOOST_TEST(parameters[0] == 0.5F);
  BOOST_TEST(parameters[1] == -3.0F);
  rule.apply(parameters, std::vector{1.0F, -2.0F}, 0.25F);  // v = 2, 0
  BOOST_TEST(parameters[0] == 0.0F);
  BOOST_TEST(parameters[1] == -3.0F);
  BOOST_TEST(rule.state().value()[0].values[0] == 2.0F);
  BOOST_TEST(rule.state().value()[0].values[1] == 0.0F);
}

BOOST_AUTO_TEST_CASE(weight_decay_of_sgd_is_added_to_the_gradient) {
  UpdateRule rule({.optimizer = Optimizer::sgd, .momentum = 0.5, .weight_decay = 0.5}, flat(1));
  std::vector<float> parameters{4.0F};
  rule.apply(parameters, std::vector{0.0F}, 0.5F);  // v = 2
  BOOST_TEST(parameters[0] == 3.0F);
  rule.apply(parameters, std::vector{1.0F}, 0.5F);  // v = 1 + 1 + 1.5
  BOOST_TEST(parameters[0] == 1.25F);
}

// Parameters whose gradient is zero for long, such as those of a rare token. Processors take many
// times as long over subnormal numbers, in which their means would end otherwise.
BOOST_AUTO_TEST_CASE(means_of_gradients_that_do_not_come_any_more_become_zero) {
  const Config configs[] = {
      {.optimizer = Optimizer::sgd, .momentum = 0.9},
      {.optimizer = Optimizer::sgd, .momentum = 0.9, .nesterov = true},
      {.optimizer = Optimizer::adamw, .beta1 = 0.9, .beta2 = 0.9},
  };
  for (const Config& config : configs) {
    UpdateRule rule(config, flat(3));
    std::vector<float> parameters{1.0F, 1.0F, 1.0F};
    rule.apply(parameters, std::vector{1.0F, -0.01F, 1e-12F}, 0.01F);
    for (int t = 0; t < 1000; ++t) rule.apply(parameters, std::vector(3, 0.0F), 0.01F);
    const auto states = rule.state().value();
    for (const UpdateRule::State& state : states) {
      BOOST_TEST_CONTEXT(state.name) {
        for (const float value : state.values) BOOST_TEST(value == 0.0F);
      }
    }
  }
}

// Version 0.1 could have a slow momentum.
BOOST_AUTO_TEST_CASE(state_that_the_rule_does_not_know_is_passed_over) {
  compute::Graph graph = flat(1);
  UpdateRule sgd({.optimizer = Optimizer::sgd}, graph);
  UpdateRule other({.optimizer = Optimizer::sgd}, graph);
  std::vector<float> p{8.0F};
  sgd.apply(p, std::vector{4.0F}, 0.5F);
  BOOST_REQUIRE(other.restore(saved(sgd, {}, {{"p.slow", {1}, p}, {"p.moved", {1}, p}}), 1));
  BOOST_TEST(other.state().value().at(0).values[0] == 4.0F);
}

BOOST_AUTO_TEST_CASE(sgd_follows_a_double_precision_reference) {
  for (const bool nesterov : {false, true}) {
    const Config config{.momentum = 0.8, .nesterov = nesterov, .weight_decay = 0.1};
    base::Rng rng(10);
    constexpr std::uint32_t kCount = 37;
    std::vector<float> parameters = random_floats(kCount, rng);
    std::vector<PlainSgd> expected;
    for (const float value : parameters) expected.push_back({value});
    UpdateRule rule(config, flat(kCount));
    for (int t = 1; t <= 50; ++t) {
      const std::vector<float> gradient = random_floats(kCount, rng);
      rule.apply(parameters, gradient, 0.01F);
      for (std::size_t i = 0; i < kCount; ++i) expected[i].apply(config, gradient[i], 0.01F);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      BOOST_TEST_CONTEXT("parameter " << i << ", seed 10, Nesterov " << nesterov) {
        BOOST_TEST(std::abs(parameters[i] - expected[i].parameter) < 1e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(adamw_follows_a_double_precision_reference) {
  const Config config{.optimizer = Optimizer::adamw, .weight_decay = 0.1};
  base::Rng rng(11);
  constexpr std::uint32_t kCount = 37;
  std::vector<float> parameters = random_floats(kCount, rng);
  std::vector<PlainAdamW> expected;
  for (const float value : parameters) expected.push_back({value});
  UpdateRule rule(config, flat(kCount));
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
    UpdateRule rule(run.config, flat(5));
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

/// Made as above with torch.optim.Muon, with bfloat16 in its iteration replaced by float64, for
/// matrices of 4 x 2 and 2 x 3 numbered row by row.
BOOST_AUTO_TEST_CASE(six_steps_of_muon_end_where_pytorch_ends) {
  const std::pair<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> runs[] = {
      {{4, 2},
       {-0.633184402, -0.34454218, 0.211345873, 0.348564891, 0.425611084, 0.693895018, 0.62201823,
        0.735669621}},
      {{2, 3}, {-0.618748435, -0.440763799, -0.143092485, 0.394033483, 0.373792144, 0.68222777}}};
  const Config config{.optimizer = Optimizer::muon,
                      .lr = 0.125,
                      .momentum = 0.75,
                      .nesterov = true,
                      .weight_decay = 0.25};
  for (const auto& [shape, expected] : runs) {
    const compute::Graph graph = two_layers(shape.first, shape.second, false);
    UpdateRule rule(config, graph);
    std::vector<float> parameters(graph.parameter_count);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      parameters[i] = (static_cast<float>(i) - 2) / 4;
    }
    for (std::size_t t = 1; t <= 6; ++t) {
      std::vector<float> gradient(graph.parameter_count);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        gradient[i] = (static_cast<float>((7 * t + 3 * i) % 11) - 5) / 8;
      }
      rule.apply(parameters, gradient, 0.125F);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      BOOST_TEST_CONTEXT(shape.first << " x " << shape.second << ", parameter " << i) {
        BOOST_TEST(std::abs(parameters[i] - expected[i]) < 1e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(muon_follows_a_double_precision_reference_and_leaves_the_rest_to_adamw) {
  constexpr std::uint32_t kRows = 12;
  constexpr std::uint32_t kCols = 5;
  constexpr std::size_t kMatrix = std::size_t{kRows} * kCols;
  constexpr float kLr = 0.02F;
  const Config config{.optimizer = Optimizer::muon,
                      .lr = 0.04,  // the schedule has come half way down
                      .adam_lr = 0.003,
                      .momentum = 0.9,
                      .nesterov = true,
                      .weight_decay = 0.1};
  Config biases = config;
  biases.weight_decay = 0;
  const compute::Graph graph = two_layers(kRows, kCols);
  base::Rng rng(13);
  std::vector<float> parameters = random_floats(graph.parameter_count, rng);
  PlainMatrix matrix{kRows, kCols, {parameters.begin(), parameters.begin() + kMatrix}};
  std::vector<double> momentum(kMatrix);
  std::vector<PlainAdamW> others;
  for (std::size_t i = kMatrix; i < parameters.size(); ++i) others.push_back({parameters[i]});
  UpdateRule rule(config, graph);
  for (int t = 1; t <= 20; ++t) {
    const std::vector<float> gradient = random_floats(graph.parameter_count, rng);
    rule.apply(parameters, gradient, kLr);
    PlainMatrix update{kRows, kCols, std::vector<double>(kMatrix)};
    for (std::size_t i = 0; i < kMatrix; ++i) {
      momentum[i] = 0.9 * momentum[i] + 0.1 * static_cast<double>(gradient[i]);
      update.values[i] = 0.9 * momentum[i] + 0.1 * static_cast<double>(gradient[i]);
    }
    update = plain_newton_schulz(update);
    for (std::size_t i = 0; i < kMatrix; ++i) {
      matrix.values[i] *= 1 - kLr * 0.1;
      matrix.values[i] -= kLr * std::sqrt(12.0 / 5.0) * update.values[i];
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      const std::size_t at = kMatrix + i;
      const bool weight = i >= kRows && at < graph.parameter_count - 2;
      others[i].apply(weight ? config : biases, gradient[at], 0.0015, t);
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double expected = i < kMatrix ? matrix.values[i] : others[i - kMatrix].parameter;
    BOOST_TEST_CONTEXT("parameter " << i << ", seed 13") {
      BOOST_TEST(std::abs(parameters[i] - expected) < 2e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(decay_leaves_biases_alone_unless_told_otherwise) {
  const compute::Graph graph = two_layers(3, 2);
  const std::vector<float> zero(graph.parameter_count);
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::adamw, Optimizer::muon}) {
    UpdateRule rule({.optimizer = kind, .lr = 0.5, .adam_lr = 0.5, .weight_decay = 0.5}, graph);
    std::vector<float> parameters(graph.parameter_count, 4.0F);
    rule.apply(parameters, zero, 0.5F);
    for (const compute::Tensor& tensor : graph.tensors) {
      const bool decays = tensor.kind == compute::TensorKind::weight;
      BOOST_TEST(parameters[tensor.offset] == (decays ? 3.0F : 4.0F), tensor.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_is_clipped_to_its_norm_over_all_parameters) {
  constexpr std::uint32_t kCount = 37;
  base::Rng rng(14);
  const std::vector<float> start = random_floats(kCount, rng);
  const std::vector<float> gradient = random_floats(kCount, rng);
  double squares = 0;
  for (const float value : gradient) squares += static_cast<double>(value) * value;
  const double norm = std::sqrt(squares);
  const auto change = [&](double clip) {
    UpdateRule rule({.clip = clip}, flat(kCount));
    std::vector<float> parameters = start;
    rule.apply(parameters, gradient, 1.0F);
    for (std::size_t i = 0; i < kCount; ++i) parameters[i] -= start[i];
    return parameters;
  };
  const std::vector<float> whole = change(0);
  BOOST_TEST((change(norm * 1.001) == whole), "seed 14");
  const std::vector<float> half = change(norm / 2);
  for (std::size_t i = 0; i < kCount; ++i) {
    BOOST_TEST(std::abs(half[i] - 0.5F * whole[i]) < 1e-6F, "seed 14, parameter " << i);
  }
}

BOOST_AUTO_TEST_CASE(a_rule_with_restored_state_goes_on_with_the_same_bits) {
  const compute::Graph graph = two_layers(6, 4);
  const std::size_t count = graph.parameter_count;
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::adamw, Optimizer::muon}) {
    const Config config{.optimizer = kind, .nesterov = true, .weight_decay = 0.01, .clip = 1};
    base::Rng rng(12);
    std::vector<float> parameters = random_floats(count, rng);
    UpdateRule rule(config, graph);
    for (int t = 0; t < 3; ++t) rule.apply(parameters, random_floats(count, rng), 0.01F);

    UpdateRule restored(config, graph);
    BOOST_REQUIRE(restored.restore(saved(rule), rule.steps()));
    BOOST_TEST(restored.steps() == 3U);
    std::vector<float> copy = parameters;
    for (int t = 0; t < 3; ++t) {
      const std::vector<float> gradient = random_floats(count, rng);
      rule.apply(parameters, gradient, 0.01F);
      restored.apply(copy, gradient, 0.01F);
    }
    BOOST_TEST((parameters == copy), "seed 12, optimizer " << static_cast<int>(kind));
  }
}

BOOST_AUTO_TEST_CASE(state_of_a_device_is_here_for_no_longer_than_it_takes_to_save_it) {
  UpdateRule rule({.optimizer = Optimizer::adamw}, flat(100));
  Device device;
  BOOST_REQUIRE(rule.move_to(device));
  BOOST_TEST(rule.memory_bytes() == 0U);
  for (int save = 0; save < 2; ++save) {
    const auto pieces = rule.state().value();
    BOOST_TEST(pieces.at(0).values[99] == 1.0F);
    BOOST_TEST(pieces.at(1).values[99] == 2.0F);
    rule.free_copy();
    BOOST_TEST(rule.memory_bytes() == 0U);
  }
  UpdateRule here({.optimizer = Optimizer::adamw}, flat(100));
  here.free_copy();
  BOOST_TEST(here.state().value().at(1).values.size() == 100U);
}

BOOST_AUTO_TEST_CASE(largest_state_of_the_largest_model_fits_a_file) {
  const compute::Graph graph = two_layers(6, 4);
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::adamw, Optimizer::muon}) {
    UpdateRule rule({.optimizer = kind}, graph);
    std::size_t values = 0;
    const auto pieces = rule.state().value();
    for (const UpdateRule::State& piece : pieces) values += piece.values.size();
    BOOST_TEST(values <= kTensorVectorsMax * graph.parameter_count);
    BOOST_TEST(pieces.size() <= kTensorVectorsMax * graph.tensors.size());
  }
  BOOST_TEST(kTensorFileBytesMax >= kTensorHeaderBytesMax + 4 * 4 * compute::kParametersMax);
  BOOST_TEST(kTensorsMax >= 4 * 2 * compute::kOpsMax);
}

// Of a name that leaves room for one part of the state, and values that take 4 GiB each.
BOOST_AUTO_TEST_CASE(state_that_no_file_can_hold_is_told_before_there_is_any) {
  compute::Graph graph = flat(1U << 30);
  graph.tensors[0].name = std::string(kTensorHeaderBytesMax * 3 / 5, 'n');
  BOOST_TEST(check_state({.optimizer = Optimizer::sgd}, graph).has_value());
  const auto adamw = check_state({.optimizer = Optimizer::adamw}, graph);
  BOOST_REQUIRE(!adamw.has_value());
  BOOST_TEST(adamw.error().text.ends_with("give them shorter names"));
}

BOOST_AUTO_TEST_CASE(state_of_another_optimizer_or_model_is_refused_and_changes_nothing) {
  const compute::Graph graph = two_layers(6, 4);
  UpdateRule sgd({.optimizer = Optimizer::sgd}, graph);
  UpdateRule adamw({.optimizer = Optimizer::adamw}, graph);
  UpdateRule muon({.optimizer = Optimizer::muon}, graph);
  UpdateRule wider({.optimizer = Optimizer::adamw}, two_layers(7, 4));
  std::vector<float> parameters(graph.parameter_count);
  const std::vector<float> gradient(graph.parameter_count, 1.0F);
  for (UpdateRule* const rule : {&sgd, &adamw, &muon}) rule->apply(parameters, gradient, 0.1F);
  BOOST_TEST(sgd.restore(saved(adamw), 5).error().text ==
             "state: is the state of another optimizer or model: it has no "
             "'layers.0.weight.momentum' of shape 6x4");
  BOOST_TEST(adamw.restore(saved(sgd), 5).error().text.find("no 'layers.0.weight.mean'") !=
             std::string::npos);
  BOOST_TEST(muon.restore(saved(sgd), 5).error().text.find("no 'layers.0.bias.mean'") !=
             std::string::npos);
  BOOST_TEST(adamw.restore(saved(wider), 5).error().text.find("of shape 6x4") != std::string::npos);
  BOOST_TEST((adamw.restore(saved(muon), 5).error().code == base::ErrorCode::data));
  for (UpdateRule* const rule : {&sgd, &adamw, &muon}) {
    BOOST_TEST(rule->steps() == 1U);
    const auto pieces = rule->state();
    for (const UpdateRule::State& piece : pieces.value()) BOOST_TEST(piece.values[0] != 0.0F);
  }
}

BOOST_AUTO_TEST_SUITE_END()
