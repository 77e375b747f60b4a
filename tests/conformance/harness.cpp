#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <boost/test/unit_test.hpp>

#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/unit/compute/networks.hpp"

namespace starling::conformance {

using namespace compute;
using compute::testing::need;

bool rounds(const std::string& device) { return device.ends_with(kRounded); }

base::Result<std::unique_ptr<Backend>> open(const std::string& device) {
  const std::string name = device.substr(0, device.size() - (rounds(device) ? kRounded.size() : 0));
  if (name == kHostDevice) return cuda_on_cpu::make_backend();
  auto backend = open_backend(name);
  if (backend && rounds(device) && !(*backend)->has_bfloat16()) {
    return base::fail(base::ErrorCode::device, "{} gains nothing from bfloat16 here", name);
  }
  return backend;
}

std::unique_ptr<Program> compile(const std::string& device, const Graph& graph, std::uint32_t batch,
                                 std::uint32_t threads) {
  return need(need(open(device))
                  ->compile(graph, {.batch = batch,
                                    .threads = threads,
                                    .precision = rounds(device) ? Precision::bfloat16
                                                                : Precision::float32}));
}

Step train(Program& program, const State& state, const Batch& batch, std::uint64_t seed) {
  // The gradient's old content must not show.
  Step step{.gradient = std::vector<float>(state.parameters.size(), 99.0F),
            .buffers = state.buffers};
  step.loss =
      need(program.forward_backward(state.parameters, step.buffers, batch, seed, step.gradient));
  return step;
}

std::vector<float> outputs(Program& program, const State& state, const Batch& batch) {
  const auto values = need(program.outputs(state.parameters, state.buffers, batch));
  return {values.begin(), values.end()};
}

Evaluation evaluate(Program& program, const State& state, const Batch& batch) {
  return need(program.evaluate(state.parameters, state.buffers, batch));
}

double mean_loss(const Evaluation& evaluation) {
  return evaluation.loss_sum / static_cast<double>(evaluation.count);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

bool same_bits(const Step& a, const Step& b) {
  return same_bits({&a.loss, 1}, {&b.loss, 1}) && same_bits(a.gradient, b.gradient) &&
         same_bits(a.buffers, b.buffers);
}

Doubles doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

void check_close(const Doubles& values, const Doubles& expected, double scale,
                 const std::string& what, double tolerance) {
  BOOST_REQUIRE_EQUAL(values.size(), expected.size());
  const auto error = [&](std::size_t i) { return std::abs(values[i] - expected[i]) / scale; };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (error(i) <= tolerance) continue;  // not a number is more than that
    BOOST_ERROR(what << ": element " << i << " of " << values.size() << " is " << values[i]
                     << ", expected " << expected[i] << ": off by " << error(i) << " of " << scale
                     << ", at most " << tolerance << " may be");
    return;
  }
  BOOST_TEST(true);
}

void check_close(std::span<const float> values, std::span<const float> expected,
                 const std::string& what, double tolerance) {
  const Doubles target = doubles(expected);
  check_close(doubles(values), target, std::max(largest(target), 1e-3), what, tolerance);
}

void check_loss(double loss, double expected, const std::string& what, double tolerance) {
  check_close({loss}, {expected}, 1 + expected, what, tolerance);
}

void check_step(const Graph& graph, const Step& step, const Step& expected, double tolerance) {
  check_loss(static_cast<double>(step.loss), static_cast<double>(expected.loss), "loss of training",
             tolerance);
  check_close(step.buffers, expected.buffers, "buffers", tolerance);
  const double all = largest(doubles(expected.gradient));
  for (const Tensor& tensor : graph.tensors) {
    const auto part = [&](const std::vector<float>& flat) {
      return doubles(std::span(flat).subspan(tensor.offset, tensor.size));
    };
    const Doubles target = part(expected.gradient);
    const double scale = std::max({largest(target), kShareOfAll * all, 1e-6});
    check_close(part(step.gradient), target, scale, "gradient of " + tensor.name, tolerance);
  }
}

}  // namespace starling::conformance
