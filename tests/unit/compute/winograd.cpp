#include "compute/cpu/winograd.hpp"

#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "networks.hpp"

using namespace starling;
using namespace starling::compute::cpu;
using namespace starling::compute::testing;

namespace {

using Doubles = std::vector<double>;

// Where a channel's point lies in blocked images.
std::size_t at(std::size_t channels, std::size_t height, std::size_t width, std::size_t block,
               std::size_t sample, std::size_t channel, std::size_t y, std::size_t x) {
  return ((sample * channels / block + channel / block) * height * width + y * width + x) * block +
         channel % block;
}

std::size_t source_at(const WinogradShape& s, std::size_t sample, std::size_t c, std::size_t y,
                      std::size_t x) {
  return at(s.in_channels, s.height, s.width, s.block, sample, c, y, x);
}

std::size_t result_at(const WinogradShape& s, std::size_t sample, std::size_t k, std::size_t y,
                      std::size_t x) {
  return at(s.out_channels, s.out_height(), s.out_width(), s.block, sample, k, y, x);
}

// Calls use(sample, channel, y, x) for each result.
template <class Use>
void for_each_result(const WinogradShape& s, const Use& use) {
  for (std::size_t n = 0; n < s.samples; ++n) {
    for (std::size_t k = 0; k < s.out_channels; ++k) {
      for (std::size_t y = 0; y < s.out_height(); ++y) {
        for (std::size_t x = 0; x < s.out_width(); ++x) use(n, k, y, x);
      }
    }
  }
}

// Calls use(source element, weight, result element) for each product of the convolution.
template <class Use>
void for_each_product(const WinogradShape& s, const Use& use) {
  for_each_result(s, [&](std::size_t n, std::size_t k, std::size_t y, std::size_t x) {
    for (std::size_t c = 0; c < s.in_channels; ++c) {
      for (std::size_t i = 0; i < 9; ++i) {
        const std::size_t v = y + i / 3 - s.padding;
        const std::size_t u = x + i % 3 - s.padding;
        if (v >= s.height || u >= s.width) continue;
        use(source_at(s, n, c, v, u), (k * s.in_channels + c) * 9 + i, result_at(s, n, k, y, x));
      }
    }
  });
}

// Largest difference, as a part of the largest element.
double distance(const std::vector<float>& values, const Doubles& expected) {
  BOOST_REQUIRE(values.size() == expected.size());
  double worst = 0;
  double largest = 1e-30;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(values[i]) - expected[i]));
    largest = std::max(largest, std::fabs(expected[i]));
  }
  return std::isnan(worst) ? 1.0 : worst / largest;
}

WinogradShape random_shape(base::Rng& rng, int round) {
  const std::size_t block = rng.below(3) == 0 ? 16 : 8;
  const std::size_t most = round % 8 == 0 ? 36 : 6;
  // Threads share the tiles where these are many, else the output channels.
  const bool many = round % 4 == 1;
  WinogradShape s{.samples = 1 + rng.below(3),
                  .in_channels = block * (1 + rng.below(most)),
                  .out_channels = block * (1 + rng.below(many ? 1 : 6)),
                  .height = (many ? 17 : 2) + rng.below(9),
                  .width = (many ? 17 : 2) + rng.below(9),
                  .block = block};
  s.padding = s.height > 2 && s.width > 2 ? rng.below(3) : 1 + rng.below(2);
  return s;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(winograd)

// Sides that tiles of 4x4 fill and do not fill, windows that reach over each edge, channels around
// the sides of the products' tiles and blocks.
BOOST_AUTO_TEST_CASE(matches_plain_sums) {
  constexpr std::uint64_t kSeed = 57;
  base::Rng rng(kSeed);
  for (int round = 0; round < 40; ++round) {
    const WinogradShape s = random_shape(rng, round);
    const auto threads = static_cast<std::uint32_t>(1 + rng.below(3));
    const bool has_bias = rng.below(2) == 0;
    const bool relu = rng.below(2) == 0;
    BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round << ": " << s.samples << " x "
                               << s.in_channels << " to " << s.out_channels << " x " << s.height
                               << " x " << s.width << ", padding " << s.padding << ", block "
                               << s.block << ", threads " << threads) {
      const std::size_t sources = s.samples * s.in_channels * s.height * s.width;
      const std::size_t results = s.samples * s.out_channels * s.out_height() * s.out_width();
      const auto source = random_floats(sources, rng);
      const auto weight = random_floats(s.out_channels * s.in_channels * 9, rng);
      const auto bias = random_floats(s.out_channels, rng);
      const auto above = random_floats(results, rng);

      Doubles expected(results), dsource(sources), dweight(weight.size()), dbias(bias.size());
      for_each_product(s, [&](std::size_t from, std::size_t w, std::size_t to) {
        expected[to] += static_cast<double>(source[from]) * static_cast<double>(weight[w]);
        dsource[from] += static_cast<double>(above[to]) * static_cast<double>(weight[w]);
        dweight[w] += static_cast<double>(above[to]) * static_cast<double>(source[from]);
      });
      for_each_result(s, [&](std::size_t n, std::size_t k, std::size_t y, std::size_t x) {
        double& value = expected[result_at(s, n, k, y, x)];
        if (has_bias) value += static_cast<double>(bias[k]);
        if (relu) value = std::max(value, 0.0);
        dbias[k] += static_cast<double>(above[result_at(s, n, k, y, x)]);
      });

      std::vector<float> weights(winograd_weights_size(s));
      std::vector<float> scratch(winograd_scratch_size(s, threads));
      std::vector<float> result(results);
      winograd_weights(s, WinogradPass::forward, weight.data(), weights.data());
      winograd_forward(s, source.data(), weights.data(), has_bias ? bias.data() : nullptr, relu,
                       result.data(), scratch.data(), threads);
      BOOST_TEST(distance(result, expected) < 4e-6);

      const WinogradShape back = s.backward();
      BOOST_TEST(back.out_height() == s.height);
      weights.resize(winograd_weights_size(back));
      scratch.resize(winograd_scratch_size(back, threads));
      std::vector<float> gradient(sources);
      winograd_weights(back, WinogradPass::backward, weight.data(), weights.data());
      winograd_forward(back, above.data(), weights.data(), nullptr, false, gradient.data(),
                       scratch.data(), threads);
      BOOST_TEST(distance(gradient, dsource) < 4e-6);

      scratch.resize(winograd_gradient_scratch_size(s, threads));
      std::vector<float> weight_gradient(weight.size());
      std::vector<float> bias_gradient(bias.size());
      winograd_backward_weights(s, source.data(), above.data(), weight_gradient.data(),
                                has_bias ? bias_gradient.data() : nullptr, scratch.data(), threads);
      BOOST_TEST(distance(weight_gradient, dweight) < 4e-6);
      if (has_bias) BOOST_TEST(distance(bias_gradient, dbias) < 4e-6);
    }
  }
}

// A tile's result does not depend on the other tiles of its thread, nor on whether threads divide
// the tiles (with 8 channels here) or the output channels.
BOOST_AUTO_TEST_CASE(results_have_the_same_bits_with_any_number_of_threads) {
  constexpr std::uint64_t kSeed = 58;
  base::Rng rng(kSeed);
  for (const std::size_t out_channels : {8, 40}) {
    const WinogradShape s{.samples = 3,
                          .in_channels = 24,
                          .out_channels = out_channels,
                          .height = 13,
                          .width = 10,
                          .padding = 1,
                          .block = 8};
    const auto source = random_floats(s.samples * s.in_channels * s.height * s.width, rng);
    const auto weight = random_floats(s.out_channels * s.in_channels * 9, rng);
    std::vector<float> weights(winograd_weights_size(s));
    winograd_weights(s, WinogradPass::forward, weight.data(), weights.data());
    std::vector<float> one;
    for (const std::uint32_t threads : {1U, 2U, 3U, 4U}) {
      std::vector<float> scratch(winograd_scratch_size(s, threads));
      std::vector<float> result(s.samples * s.out_channels * s.out_height() * s.out_width());
      winograd_forward(s, source.data(), weights.data(), nullptr, false, result.data(),
                       scratch.data(), threads);
      if (one.empty()) one = result;
      BOOST_TEST(result == one,
                 "seed " << kSeed << ", threads " << threads << ", channels " << out_channels);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
