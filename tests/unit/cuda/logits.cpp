// Logits whose number is not a multiple of 8: rows with gaps, which must not show.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/integer.hpp"
#include "base/rng.hpp"
#include "compute/graph.hpp"
#include "compute/program.hpp"
#include "cuda/kernels/losses.hpp"
#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/cuda_on_cpu/team.hpp"
#include "tests/unit/compute/networks.hpp"

using namespace starling;
using namespace starling::compute;
using namespace starling::compute::cuda;
using compute::testing::need;

namespace {

/// Members of a team that sums up by turns, as a GPU's threads do, and then each other's sums.
struct Team : cuda_on_cpu::HostTeam {
  static constexpr std::size_t kMembers = 4;

  template <class F>
  auto sum(std::size_t count, const F& f) const {
    using Value = decltype(f(std::size_t{}));
    Value parts[kMembers]{};
    for (std::size_t i = 0; i < count; ++i) parts[i % kMembers] += f(i);
    Value all{};
    for (const Value& part : parts) all += part;
    return all;
  }
};

/// The kernel's results for two rows, the second of which lies after the step's samples.
struct Rows {
  std::vector<double> losses;
  std::vector<std::uint32_t> right;
  std::vector<float> gradient;
};

constexpr float kUnwritten = 1e9F;

Rows cross_entropy(const std::vector<float>& logits, std::size_t stride, std::int32_t label,
                   float smoothing = 0) {
  std::vector<float> outputs(2 * stride, std::nanf(""));
  std::ranges::copy(logits, outputs.begin());
  const std::vector<std::int32_t> labels{label, 0};
  const StepState step{.count = 1};
  Rows made{std::vector<double>(2, 7), std::vector<std::uint32_t>(2, 7),
            std::vector<float>(2 * stride, kUnwritten)};
  const CrossEntropy kernel{logits.size(),
                            stride,
                            1,
                            smoothing,
                            &step,
                            outputs.data(),
                            labels.data(),
                            made.losses.data(),
                            made.right.data(),
                            {.exact = made.gradient.data()}};
  kernel(Team{}, 0);
  kernel(Team{}, 1);
  return made;
}

void check_row(const std::vector<float>& logits, std::size_t stride, float smoothing) {
  const std::size_t classes = logits.size();
  const std::size_t label = classes / 2;
  const Rows made = cross_entropy(logits, stride, static_cast<std::int32_t>(label), smoothing);
  double sum = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    sum += std::exp(static_cast<double>(logits[i]));
    if (logits[i] > logits[first]) first = i;
  }
  double loss = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    const double target = static_cast<double>(smoothing) / static_cast<double>(classes) +
                          (i == label ? 1 - static_cast<double>(smoothing) : 0.0);
    const double share = std::exp(static_cast<double>(logits[i])) / sum;
    loss -= target * std::log(share);
    BOOST_TEST(std::abs(static_cast<double>(made.gradient[i]) - (share - target)) < 1e-6);
  }
  BOOST_TEST(std::abs(made.losses[0] - loss) < 1e-5);
  BOOST_TEST(made.right[0] == (first == label ? 1U : 0U));
  for (std::size_t i = classes; i < 2 * stride; ++i) BOOST_TEST(made.gradient[i] == 0.0F);
  BOOST_TEST(made.losses[1] == 0.0);
  BOOST_TEST(made.right[1] == 0U);
}

/// A step, and outputs, of a network of tokens with this many logits at each of 5 positions.
struct Trained {
  float loss = 0;
  std::vector<float> gradient;
  std::vector<float> outputs;
  double evaluated = 0;
};

Trained train(const Graph& graph, Precision precision) {
  constexpr std::uint32_t kSamples = 3;
  base::Rng rng(5);
  const auto program = need(
      cuda_on_cpu::make_backend()->compile(graph, {.batch = kSamples, .precision = precision}));
  const std::vector<float> parameters =
      compute::testing::random_floats(graph.parameter_count, rng, 0.5F);
  Trained made{.gradient = std::vector<float>(parameters.size()), .outputs = {}};
  // A whole batch first: nothing of it may be left over.
  for (const std::size_t samples : {3, 2}) {
    std::vector<std::int32_t> tokens(samples * 5);
    std::vector<std::int32_t> labels(samples * 5);
    for (auto& token : tokens) token = static_cast<std::int32_t>(rng.below(graph.vocabulary));
    for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(graph.classes));
    const Batch batch{.samples = {}, .tokens = tokens, .labels = labels, .targets = {}};
    made.loss = need(program->forward_backward(parameters, {}, batch, 0, made.gradient));
    const Evaluation evaluation = need(program->evaluate(parameters, {}, batch));
    made.evaluated = evaluation.loss_sum / static_cast<double>(evaluation.count);
    const auto outputs = need(program->outputs(parameters, {}, batch));
    made.outputs.assign(outputs.begin(), outputs.end());
    BOOST_TEST(made.outputs.size() == samples * 5 * graph.classes);
  }
  return made;
}

void check_close(std::span<const float> values, std::span<const float> expected) {
  BOOST_TEST_REQUIRE(values.size() == expected.size());
  float scale = 0;
  for (const float value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    BOOST_TEST(std::abs(values[i] - expected[i]) < 0.03F * scale,
               values[i] << " instead of " << expected[i] << " at " << i);
  }
}

Graph network(std::uint32_t vocabulary, bool tied, bool bias) {
  auto builder = need(GraphBuilder::start_tokens(5, vocabulary));
  need(builder.embedding(24));
  need(builder.layer_norm());
  need(tied ? builder.tied_linear() : builder.linear(vocabulary, {.bias = bias}));
  return need(std::move(builder).finish(vocabulary));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_logits)

BOOST_AUTO_TEST_CASE(cross_entropy_is_its_definition_whatever_lies_between_rows) {
  base::Rng rng(3);
  for (const std::size_t classes : {1U, 3U, 4U, 9U, 50U, 101U}) {
    for (const std::size_t stride : {classes, base::round_up(classes, std::size_t{8})}) {
      BOOST_TEST_CONTEXT(classes << " classes, " << stride << " apart") {
        check_row(compute::testing::random_floats(classes, rng, 4.0F), stride, 0);
        check_row(compute::testing::random_floats(classes, rng, 4.0F), stride, 0.1F);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_equal_logits_the_first_counts) {
  const std::vector<float> logits{1, 2, 0, 1, 1, 2, 2, 0, 2};
  BOOST_TEST(cross_entropy(logits, 16, 1).right[0] == 1U);
  for (const std::int32_t label : {5, 6, 8}) {
    BOOST_TEST(cross_entropy(logits, 16, label).right[0] == 0U);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_shows_in_the_loss_wherever_it_lies) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t at = 0; at < 11; ++at) {
    std::vector<float> logits{3, 1, 2, -1, 0, 2, 1, 1, -3, 2, 0};
    for (const float value : {std::nanf(""), kInfinity}) {
      logits[at] = value;
      BOOST_TEST(!std::isfinite(cross_entropy(logits, 16, 4).losses[0]));
    }
    // A class that is ruled out does not count, unless it is the label.
    logits[at] = -kInfinity;
    BOOST_TEST(std::isfinite(cross_entropy(logits, 16, 4).losses[0]) == (at != 4));
  }
  const std::vector<float> none(11, -kInfinity);
  BOOST_TEST(!std::isfinite(cross_entropy(none, 16, 4).losses[0]));
}

BOOST_AUTO_TEST_CASE(large_logits_do_not_overflow) {
  const Rows made = cross_entropy({-3e38F, 3e38F, 100, -100, 3e38F}, 8, 1);
  BOOST_TEST(std::abs(made.losses[0] - std::log(2.0)) < 1e30);  // that of 3e38 is rounded
  BOOST_TEST(made.right[0] == 1U);
  BOOST_TEST(made.gradient[1] == -0.5F);
  BOOST_TEST(made.gradient[4] == 0.5F);
}

BOOST_AUTO_TEST_CASE(rounded_heads_of_any_width_train_as_exact_ones_do) {
  for (const std::uint32_t vocabulary : {2U, 13U, 16U, 51U}) {
    for (const auto& [tied, bias] : {std::pair{true, false}, {false, false}, {false, true}}) {
      BOOST_TEST_CONTEXT(vocabulary << " tokens, tied: " << tied << ", bias: " << bias) {
        const Graph graph = network(vocabulary, tied, bias);
        const Trained exact = train(graph, Precision::float32);
        const Trained rounded = train(graph, Precision::bfloat16);
        BOOST_TEST(std::abs(rounded.loss - exact.loss) < 0.02F);
        BOOST_TEST(std::abs(rounded.evaluated - exact.evaluated) < 0.02);
        check_close(rounded.outputs, exact.outputs);
        for (const Tensor& tensor : graph.tensors) {
          BOOST_TEST_CONTEXT(tensor.name) {
            check_close(std::span(rounded.gradient).subspan(tensor.offset, tensor.size),
                        std::span(exact.gradient).subspan(tensor.offset, tensor.size));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
