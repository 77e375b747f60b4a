// A program's results depend only on the parameters, buffers, samples and seed of the call.
#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "checks.hpp"
#include "harness.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

/// A full batch of NaN in evaluation and in training. Values that a later pass reads without having
/// written them are then NaN, too, or an index from another pass.
void leave_no_numbers(Program& program, State state, Samples samples) {
  for (auto* values : {&state.parameters, &state.buffers, &samples.samples, &samples.targets}) {
    std::ranges::fill(*values, std::nanf(""));
  }
  (void)evaluate(program, state, samples.view());
  (void)train(program, state, samples.view(), 9);
}

}  // namespace

void short_batch_is_a_batch_of_its_own(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  base::Rng rng(4);
  const State state = random_state(graph, rng);
  const Samples samples = random_samples(graph, 5, rng);
  const auto program = compile(device, graph, 5);
  for (const std::uint32_t count : {3U, 1U, 2U}) {
    if (count < item.samples_min) continue;
    BOOST_TEST_CONTEXT("seed 4, " << count << " samples of 5") {
      const auto exact = compile(device, graph, count);
      const Batch batch = samples.view(0, count);
      // Full batches first: nothing of them may be left over.
      (void)evaluate(*program, state, samples.view());
      const Step full = train(*program, state, samples.view(), 8);
      const Step step = train(*program, state, batch, 8);
      BOOST_TEST(!same_bits(step, full));
      check_step(graph, step, train(*exact, state, batch, 8), item.tolerance);
      leave_no_numbers(*program, state, samples);
      BOOST_TEST(same_bits(train(*program, state, batch, 8), step));
      leave_no_numbers(*program, state, samples);
      check_close(outputs(*program, state, batch), outputs(*exact, state, batch), "outputs",
                  item.tolerance);
      const Evaluation evaluation = evaluate(*program, state, batch);
      const Evaluation expected = evaluate(*exact, state, batch);
      BOOST_TEST(evaluation.count == expected.count);
      BOOST_TEST(evaluation.correct == expected.correct);
      check_loss(mean_loss(evaluation), mean_loss(expected), "loss of evaluation", item.tolerance);
    }
  }
}

void same_bits_twice(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  base::Rng rng(5);
  const State state = random_state(graph, rng);
  const State other_state = random_state(graph, rng);
  const Samples samples = random_samples(graph, 5, rng);
  const Samples other = random_samples(graph, 5, rng);
  const auto program = compile(device, graph, 5);
  const Step once = train(*program, state, samples.view(), 1);
  const auto evaluated = outputs(*program, state, samples.view());
  BOOST_TEST(!same_bits(train(*program, other_state, other.view(), 2), once));
  BOOST_TEST(same_bits(train(*program, state, samples.view(), 1), once));
  BOOST_TEST(!same_bits(outputs(*program, other_state, other.view()), evaluated));
  leave_no_numbers(*program, state, samples);
  BOOST_TEST(same_bits(train(*program, state, samples.view(), 1), once));
  leave_no_numbers(*program, state, samples);
  BOOST_TEST(same_bits(outputs(*program, state, samples.view()), evaluated));
  BOOST_TEST(same_bits(train(*compile(device, graph, 5), state, samples.view(), 1), once));
}

void two_threads_agree(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  base::Rng rng(6);
  const State state = random_state(graph, rng);
  const Samples samples = random_samples(graph, 5, rng);
  const auto one = compile(device, graph, 5, 1);
  const auto two = compile(device, graph, 5, 2);
  // In turn: each must run with its own number of threads.
  const Step expected = train(*one, state, samples.view(), 7);
  check_step(graph, train(*two, state, samples.view(), 7), expected, item.tolerance);
  const auto evaluated = outputs(*one, state, samples.view());
  check_close(outputs(*two, state, samples.view()), evaluated, "outputs", item.tolerance);
}

}  // namespace starling::conformance
