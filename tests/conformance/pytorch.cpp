// Against PyTorch's results in double precision.
#include <utility>

#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "harness.hpp"
#include "stored.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

Reference reference(const Stored& stored, const Graph& graph, Mode mode) {
  return run_reference(graph, doubles(stored.state.parameters), doubles(stored.state.buffers),
                       stored.samples.view(), stored.samples.count, mode, kStoredSeed);
}

}  // namespace

void matches_pytorch(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  const Stored stored = read_stored(item.name, graph);
  const Batch batch = stored.samples.view();
  const auto count = static_cast<std::uint32_t>(stored.samples.count);
  const auto program = compile(device, graph, count);
  check_close(outputs(*program, stored.state, batch), stored.outputs, "outputs", item.tolerance);
  const Evaluation evaluation = evaluate(*program, stored.state, batch);
  BOOST_TEST(evaluation.count == count * graph.positions);
  BOOST_TEST(evaluation.correct == reference(stored, graph, Mode::evaluation).correct);
  check_loss(mean_loss(evaluation), static_cast<double>(stored.evaluation_loss),
             "loss of evaluation", item.tolerance);
  check_step(graph, train(*program, stored.state, batch, kStoredSeed), stored.step, item.tolerance);
}

namespace {

/// The losses of the run; in `state` where it ends.
std::vector<float> run(Program& program, const StoredRun& stored, State& state) {
  std::vector<float> losses;
  for (std::size_t t = 0; t < stored.losses.size(); ++t) {
    const Batch batch = stored.samples.view(t % stored.batches * stored.batch, stored.batch);
    Step step = train(program, state, batch, t);
    losses.push_back(step.loss);
    state.buffers = std::move(step.buffers);
    for (std::size_t i = 0; i < state.parameters.size(); ++i) {
      state.parameters[i] -= stored.rate * step.gradient[i];
    }
  }
  return losses;
}

}  // namespace

void run_matches_pytorch(const std::string& device, const Case& item) {
  // Of a loss of one. The steps that follow carry a step's rounding errors along, and enlarge them
  // where the loss is curved.
  const double tolerance = 2 * item.tolerance;
  const Graph graph = item.graph();
  const StoredRun stored = read_run(item.name, graph);
  const auto batch = static_cast<std::uint32_t>(stored.batch);
  State once = stored.state;
  const auto losses = run(*compile(device, graph, batch), stored, once);
  check_close(doubles(losses), doubles(stored.losses), 1.0, "losses", tolerance);
  BOOST_TEST(losses.back() < losses.front());
  State again = stored.state;
  BOOST_TEST(same_bits(run(*compile(device, graph, batch), stored, again), losses));
  BOOST_TEST(same_bits(again.parameters, once.parameters));
  BOOST_TEST(same_bits(again.buffers, once.buffers));
}

void reference_matches_pytorch(const Case& item) {
  constexpr double kRounding = 1e-7;  // of the stored results
  const Graph graph = item.graph();
  const Stored stored = read_stored(item.name, graph);
  const auto check = [&](const Doubles& values, const std::vector<float>& expected,
                         const std::string& what) {
    check_close(values, doubles(expected), 1 + largest(values), what, kRounding);
  };
  const Reference evaluation = reference(stored, graph, Mode::evaluation);
  const Reference training = reference(stored, graph, Mode::training);
  check(evaluation.outputs, stored.outputs, "outputs");
  check({evaluation.loss}, {stored.evaluation_loss}, "loss of evaluation");
  check({training.loss}, {stored.step.loss}, "loss of training");
  check(training.buffers, stored.step.buffers, "buffers");
}

}  // namespace starling::conformance
