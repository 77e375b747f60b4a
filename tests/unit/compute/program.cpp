#include "compute/program.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"

using namespace starling;
using namespace starling::compute;
using namespace starling::compute::testing;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program)

BOOST_AUTO_TEST_CASE(evaluate_gives_the_loss_of_forward_backward) {
  base::Rng rng(1);
  const Graph graph = reference_cnn();
  const auto program = compile(graph, 8);
  const auto parameters = random_floats(graph.parameter_count, rng, 0.05F);
  const OwnedBatch batch(graph, 8, rng);
  std::vector<float> gradient(graph.parameter_count);
  const float loss = need(program->forward_backward(parameters, {}, batch.view(), 0, gradient));
  const Evaluation evaluation = need(program->evaluate(parameters, {}, batch.view()));
  BOOST_TEST(static_cast<float>(evaluation.loss_sum / 8) == loss);
  BOOST_TEST(evaluation.count == 8U);
  BOOST_TEST(evaluation.correct <= 8U);
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_of_the_labels_without_smoothing) {
  base::Rng rng(1);
  const auto graph_with = [](float smoothing) {
    GraphBuilder builder = need(GraphBuilder::start({6}));
    need(builder.linear(5));
    return need(std::move(builder).finish(5, smoothing));
  };
  const Graph plain = graph_with(0);
  const Graph smoothed = graph_with(0.3F);
  const auto parameters = random_floats(plain.parameter_count, rng, 1.0F);
  const OwnedBatch batch(plain, 8, rng);
  const auto evaluate = [&](const Graph& graph) {
    return need(compile(graph, 8)->evaluate(parameters, {}, batch.view())).loss_sum;
  };
  const auto train = [&](const Graph& graph) {
    std::vector<float> gradient(graph.parameter_count);
    return need(compile(graph, 8)->forward_backward(parameters, {}, batch.view(), 0, gradient));
  };
  BOOST_TEST(evaluate(smoothed) == evaluate(plain));
  BOOST_TEST(std::abs(train(smoothed) - train(plain)) > 1e-3F);
}

BOOST_AUTO_TEST_CASE(a_set_cut_into_batches_of_any_size_adds_up) {
  base::Rng rng(2);
  const Graph graph = reference_cnn();
  const auto program = compile(graph, 6);
  const auto parameters = random_floats(graph.parameter_count, rng, 0.05F);
  const OwnedBatch set(graph, 8, rng);
  const Evaluation first = need(program->evaluate(parameters, {}, set.view(0, 6)));
  const Evaluation rest = need(program->evaluate(parameters, {}, set.view(6, 2)));
  Evaluation single;
  for (std::size_t i = 0; i < 8; ++i) {
    const Evaluation one = need(program->evaluate(parameters, {}, set.view(i, 1)));
    single.loss_sum += one.loss_sum;
    single.correct += one.correct;
  }
  BOOST_TEST(first.count == 6U);
  BOOST_TEST(rest.count == 2U);
  BOOST_TEST(std::abs(first.loss_sum + rest.loss_sum - single.loss_sum) < 1e-5);
  BOOST_TEST(first.correct + rest.correct == single.correct);
}

BOOST_AUTO_TEST_CASE(correct_counts_the_samples_whose_label_has_the_largest_output) {
  GraphBuilder builder = need(GraphBuilder::start({3}));
  need(builder.linear(3));
  const Graph graph = need(std::move(builder).finish(3));
  const auto program = compile(graph, 4);
  const std::vector<float> identity{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  const std::vector<float> samples{5, 1, 2, 0, 0, 7, 1, 2, 3, 4, 4, 0};
  const std::vector<std::int32_t> labels{0, 2, 1, 0};  // right, right, wrong, first of two equal
  const Evaluation evaluation = need(program->evaluate(
      identity, {}, {.samples = samples, .tokens = {}, .labels = labels, .targets = {}}));
  BOOST_TEST(evaluation.correct == 3U);
}

BOOST_AUTO_TEST_CASE(same_inputs_give_the_same_bits) {
  base::Rng rng(3);
  const Graph graph = reference_cnn();
  const auto parameters = random_floats(graph.parameter_count, rng, 0.05F);
  const OwnedBatch batch(graph, 16, rng);
  const OwnedBatch other(graph, 16, rng);
  std::vector<float> once(graph.parameter_count);
  std::vector<float> again(graph.parameter_count);
  std::vector<float> ignored(graph.parameter_count);
  const auto program = compile(graph, 16);
  const float loss = need(program->forward_backward(parameters, {}, batch.view(), 0, once));
  BOOST_TEST(need(program->forward_backward(parameters, {}, other.view(), 0, ignored)) != loss);
  BOOST_TEST(need(program->forward_backward(parameters, {}, batch.view(), 0, again)) == loss);
  BOOST_TEST(same_bits(once, again));
  const auto second = compile(graph, 16);
  BOOST_TEST(need(second->forward_backward(parameters, {}, batch.view(), 0, again)) == loss);
  BOOST_TEST(same_bits(once, again));
  BOOST_TEST(!same_bits(once, ignored));
}

BOOST_AUTO_TEST_CASE(two_threads_compute_what_one_does) {
  base::Rng rng(5);
  const Graph graph = reference_cnn();
  const auto parameters = random_floats(graph.parameter_count, rng, 0.05F);
  const OwnedBatch batch(graph, 4, rng);
  std::vector<float> one(graph.parameter_count);
  std::vector<float> two(graph.parameter_count);
  const auto first = compile(graph, 4, 1);
  const auto second = compile(graph, 4, 2);
  // In turn: each must run with its own number of threads.
  const float loss = need(first->forward_backward(parameters, {}, batch.view(), 0, one));
  const float same = need(second->forward_backward(parameters, {}, batch.view(), 0, two));
  BOOST_TEST(std::abs(loss - same) < 1e-5F);
  float difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference = std::max(difference, std::abs(one[i] - two[i]));
  }
  BOOST_TEST(difference < 1e-5F);
}

// Or training that has diverged would go on unseen. A ReLU that oneDNN fuses with its convolution
// does not do so: here Winograd's takes both.
BOOST_AUTO_TEST_CASE(a_parameter_that_is_no_number_makes_the_loss_none) {
  base::Rng rng(6);
  const auto check = [&](const Graph& graph) {
    const auto program = compile(graph, 2);
    const OwnedBatch batch(graph, 2, rng);
    const auto sound = random_floats(graph.parameter_count, rng, 0.5F);
    std::vector<float> gradient(graph.parameter_count);
    for (const Tensor& tensor : graph.tensors) {
      auto parameters = sound;
      parameters[tensor.offset] = std::nanf("");
      std::vector<float> buffers(graph.buffer_count, 1.0F);
      const auto evaluated = need(program->evaluate(parameters, buffers, batch.view()));
      const float loss =
          need(program->forward_backward(parameters, buffers, batch.view(), 0, gradient));
      BOOST_TEST(!std::isfinite(loss), tensor.name);
      BOOST_TEST(!std::isfinite(evaluated.loss_sum), tensor.name);
    }
  };
  GraphBuilder image = need(GraphBuilder::start({16, 6, 6}));
  need(image.conv2d({.out_channels = 16, .kernel = 3}));
  need(image.relu());
  need(image.max_pool2d(2, 2));
  need(image.conv2d({.out_channels = 3, .kernel = 1}));
  need(image.batch_norm());
  need(image.relu());
  need(image.max_pool2d(2, 1));
  need(image.linear(4));
  check(need(std::move(image).finish(4)));
  GraphBuilder row = need(GraphBuilder::start({5}));
  for (const auto kind : {ActivationKind::relu, ActivationKind::gelu, ActivationKind::gelu_tanh,
                          ActivationKind::silu}) {
    need(row.linear(6));
    need(row.activation(kind));
  }
  const ValueId before = row.value();
  need(row.linear(6));
  need(row.add(before));
  need(row.relu());
  need(row.linear(4));
  check(need(std::move(row).finish(4)));
}

BOOST_AUTO_TEST_CASE(slopes_of_activations_stay_in_bounds_however_large_the_values) {
  for (const auto kind : {ActivationKind::relu, ActivationKind::gelu, ActivationKind::gelu_tanh,
                          ActivationKind::silu}) {
    GraphBuilder builder = need(GraphBuilder::start({1}));
    need(builder.linear(1));
    need(builder.activation(kind));
    const Graph graph = need(std::move(builder).finish_mean_squared());
    const auto program = compile(graph, 1);
    for (const float x : {-1e18F, -1e6F, -60.0F, -20.0F, 20.0F, 60.0F, 1e6F}) {
      // The loss is (y - t)^2 with t one below y: its slope to y is 2, to the bias 2 y'(x).
      const std::vector<float> parameters{0, x};
      const std::vector<float> sample{1};
      const std::vector<float> target{x > 0 ? x - 1 : -1};
      std::vector<float> gradient(2);
      need(program->forward_backward(parameters, {}, {.samples = sample, .targets = target}, 0,
                                     gradient));
      BOOST_TEST_CONTEXT("activation " << static_cast<int>(kind) << " of " << x) {
        BOOST_TEST(std::abs(gradient[1] - (x > 0 ? 2.0F : 0.0F)) < 1e-4F);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_of_the_cnn_stays_within_a_peers_budget) {
  BOOST_TEST(compile(reference_cnn(), 64)->memory_bytes() < 60'000'000U);
}

BOOST_AUTO_TEST_CASE(what_the_cpu_cannot_do_is_an_error_that_says_so) {
  const Graph graph = reference_cnn();
  const auto backend = need(open_backend("cpu"));
  BOOST_TEST(!backend->compile(graph, {.batch = 0}));
  BOOST_TEST(!backend->compile(graph, {.batch = 1, .threads = 0}));
  const auto unknown = open_backend("abacus");
  BOOST_REQUIRE(!unknown);
  BOOST_TEST((unknown.error().code == base::ErrorCode::run_file));
  BOOST_TEST(unknown.error().text.find("abacus") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
