// Batch norm's sums: kernels on the processor, over more elements of a channel than a chunk has.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "compute/graph.hpp"
#include "compute/program.hpp"
#include "cuda/kernels/rows.hpp"
#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/unit/compute/networks.hpp"

using namespace starling;
using namespace starling::compute;
using compute::testing::need;

namespace {

constexpr std::uint32_t kSamples = 5;
constexpr std::uint32_t kChannels = 2;
constexpr std::size_t kPoints = 101 * 99;
constexpr std::size_t kElements = kChannels * kPoints;  ///< of a sample
constexpr float kEpsilon = 1e-5F;

/// A batch norm alone, whose running statistics become those of the step.
Graph norm_alone() {
  auto builder = need(GraphBuilder::start({kChannels, 101, 99}));
  need(builder.batch_norm(kEpsilon, 1.0F));
  return need(std::move(builder).finish_mean_squared());
}

/// Sums of two uniform values: of variance 1 about the mean, plus a channel's own tenth.
std::vector<float> samples_about(double mean, base::Rng& rng) {
  std::vector<float> x(kSamples * kElements);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double own = 0.1 * static_cast<double>(i / kPoints % kChannels);
    const double spread = (rng.uniform() + rng.uniform() - 1) * std::sqrt(6.0);
    x[i] = static_cast<float>(mean + own + spread);
  }
  return x;
}

/// The expected figures of a channel, from the definition.
struct Channel {
  double mean = 0;
  double unbiased = 0;
  double dweight = 0;
  double dbias = 0;
};

Channel channel_of(std::span<const float> x, std::span<const float> targets, std::size_t c,
                   double weight, double bias) {
  const std::size_t samples = x.size() / kElements;
  const auto number = static_cast<double>(samples * kPoints);
  const auto each = [&](auto visit) {
    for (std::size_t n = 0; n < samples; ++n) {
      for (std::size_t p = 0; p < kPoints; ++p) visit(n * kElements + c * kPoints + p);
    }
  };
  Channel result;
  double squares = 0;
  each([&](std::size_t i) { result.mean += static_cast<double>(x[i]) / number; });
  each([&](std::size_t i) { squares += std::pow(static_cast<double>(x[i]) - result.mean, 2); });
  result.unbiased = squares / (number - 1);
  const double deviation = std::sqrt(squares / number + static_cast<double>(kEpsilon));
  each([&](std::size_t i) {
    const double h = (static_cast<double>(x[i]) - result.mean) / deviation;
    const double dy = 2 * (weight * h + bias - static_cast<double>(targets[i])) /
                      static_cast<double>(samples * kElements);
    result.dweight += dy * h;
    result.dbias += dy;
  });
  return result;
}

/// A step with this many samples of the batch.
void check_step(double mean, std::size_t samples) {
  base::Rng rng(17);
  const Graph graph = norm_alone();
  const auto program = need(cuda_on_cpu::make_backend()->compile(graph, {.batch = kSamples}));
  const std::vector<float> x = samples_about(mean, rng);
  const std::vector<float> targets = compute::testing::random_floats(x.size(), rng);
  const std::vector<float> parameters{1.5F, 0.7F, 0.3F, -0.4F};  // weights, then biases
  std::vector<float> buffers{0, 0, 1, 1};
  std::vector<float> gradient(parameters.size());
  // The whole batch first: nothing of its chunks may be left over.
  for (const std::size_t count : {std::size_t{kSamples}, samples}) {
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).first(count * kElements);
    };
    const Batch batch{.samples = part(x), .tokens = {}, .labels = {}, .targets = part(targets)};
    need(program->forward_backward(parameters, buffers, batch, 0, gradient));
    for (std::size_t c = 0; c < kChannels; ++c) {
      const Channel expected =
          channel_of(batch.samples, batch.targets, c, static_cast<double>(parameters[c]),
                     static_cast<double>(parameters[kChannels + c]));
      const auto close = [&](float value, double wanted, double tolerance) {
        BOOST_TEST(std::abs(static_cast<double>(value) - wanted) <= tolerance,
                   value << " instead of " << wanted);
      };
      // The mean is rounded once, and the variance knows nothing of it. A result, and so its
      // gradient, is a product of the size of the mean whose rounding is left over.
      const double rounding = 0x1p-24 * (1 + mean);
      close(buffers[c], expected.mean, 2 * rounding);
      close(buffers[kChannels + c], expected.unbiased, 4 * 0x1p-24 * expected.unbiased);
      close(gradient[c], expected.dweight, 8 * rounding);
      close(gradient[kChannels + c], expected.dbias, 8 * rounding);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_batch_norm)

BOOST_AUTO_TEST_CASE(chunks_of_a_channel_come_to_its_statistics_and_gradients) {
  const cuda::Channels channels{.points = kPoints, .channels = kChannels};
  BOOST_TEST(cuda::chunks_of(channels, kSamples) == 7U);
  BOOST_TEST(cuda::chunks_of(channels, 3) == 4U);
  for (const double mean : {0.0, 1000.0}) {
    for (const std::size_t samples : {kSamples, 4U, 3U, 1U}) {
      BOOST_TEST_CONTEXT(samples << " samples about " << mean) { check_step(mean, samples); }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
