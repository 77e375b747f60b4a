// Kernels of images whose channels come last, beside those of images whose channels come first, or
// beside plain sums.
#include "cuda/kernels/channels_last.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "tests/cuda_on_cpu/team.hpp"

using namespace starling;
using namespace starling::compute::cuda;
using cuda_on_cpu::HostTeam;

namespace {

/// Images of some samples, channels last.
struct Images {
  std::size_t samples;
  Channels channels;
  std::vector<float> values;

  Images(std::size_t count, std::size_t points, std::size_t width, float mean)
      : samples(count), channels{points, width, true}, values(count * points * width) {
    base::Rng rng(width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = mean * static_cast<float>(i % width) + static_cast<float>(rng.uniform());
    }
  }

  /// Of the points of the first samples: a channel's values.
  [[nodiscard]] std::vector<double> of(std::size_t channel, std::size_t count) const {
    std::vector<double> found;
    for (std::size_t point = 0; point < count * channels.points; ++point) {
      found.push_back(static_cast<double>(values[point * channels.channels + channel]));
    }
    return found;
  }
};

double sum_of(const std::vector<double>& values, auto f) {
  double sum = 0;
  for (const double value : values) sum += f(value);
  return sum;
}

template <class Kernel>
void run_chunks(const Channels& channels, std::size_t samples, const Kernel& kernel) {
  const std::size_t teams = TeamShape(channels.channels).teams;
  for (std::size_t row = 0; row < chunks_of(channels, samples) * teams; ++row) {
    kernel(HostTeam{}, row);
  }
}

constexpr std::size_t kWidths[] = {1, 3, 8, 13, 64, 2056};  // the last one takes two teams

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_channels_last)

BOOST_AUTO_TEST_CASE(statistics_are_those_of_the_steps_samples_wherever_the_mean_lies) {
  for (const std::size_t width : kWidths) {
    const Images images(3, 37, width, 100);
    const StepState step{.count = 2};
    std::vector<Pair> parts(chunks_of(images.channels, 3) * width);
    const Floats x{images.values.data()};
    run_chunks(images.channels, 3, NormSumsLast{images.channels, &step, x, parts.data()});
    const std::vector<float> weight(width, 1);
    const std::vector<float> bias(width, 0);
    std::vector<float> mean(width);
    std::vector<float> variance(width);
    std::vector<ChannelFigures> figures(width);
    const BatchNormStatistics join{
        images.channels, &step,         0,           1,           x,
        parts.data(),    weight.data(), bias.data(), mean.data(), variance.data(),
        figures.data()};
    for (std::size_t c = 0; c < width; ++c) {
      join(HostTeam{}, c);
      const std::vector<double> values = images.of(c, 2);
      const auto number = static_cast<double>(values.size());
      const double expected = sum_of(values, [](double v) { return v; }) / number;
      const double squares =
          sum_of(values, [&](double v) { return (v - expected) * (v - expected); });
      BOOST_TEST(std::abs(static_cast<double>(mean[c]) - expected) <= 1e-6 * (1 + expected));
      BOOST_TEST(std::abs(static_cast<double>(variance[c]) - squares / (number - 1)) <=
                 1e-5 * squares / number);
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_of_gradients_leave_out_what_a_relu_holds_back) {
  for (const std::size_t width : kWidths) {
    const Images x(2, 19, width, 0);
    const Images dy(2, 19, width, 1);
    const StepState step{.count = 2};
    std::vector<ChannelFigures> figures(width);
    for (ChannelFigures& figure : figures) figure = {.mean = 0.5F, .scale = 1, .shift = -0.25F};
    std::vector<Pair> parts(chunks_of(x.channels, 2) * width);
    run_chunks(x.channels, 2,
               NormGradientSumsLast{x.channels,
                                    &step,
                                    true,
                                    {x.values.data()},
                                    {dy.values.data()},
                                    figures.data(),
                                    parts.data()});
    for (std::size_t c = 0; c < width; ++c) {
      const std::vector<double> values = x.of(c, 2);
      const std::vector<double> above = dy.of(c, 2);
      Pair expected{};
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] > 0.25) expected += Pair{above[i], above[i] * (values[i] - 0.5)};
      }
      Pair all{};
      for (std::size_t i = c; i < parts.size(); i += width) all += parts[i];
      const double scale = sum_of(above, [](double v) { return std::abs(v); });
      BOOST_TEST(std::abs(all.first - expected.first) <= 1e-5 * scale);
      BOOST_TEST(std::abs(all.second - expected.second) <= 1e-5 * scale);
    }
  }
}

BOOST_AUTO_TEST_CASE(pools_are_those_of_channels_first_and_what_is_no_number_comes_through) {
  const Window window{.height = 5,
                      .width = 7,
                      .out_height = 3,
                      .out_width = 4,
                      .kernel = 3,
                      .stride = 2,
                      .padding = 1};
  constexpr std::size_t kSamples = 2;
  for (const std::size_t width : {std::size_t{8}, std::size_t{11}}) {
    Images last(kSamples, 35, width, 0);
    last.values[3 * width + 1] = std::nanf("");
    std::vector<float> first(last.values.size());
    const Relayout there{width, 35, false, {last.values.data()}, {.exact = first.data()}};
    for (std::size_t i = 0; i < first.size(); ++i) there(i);

    std::vector<float> y(kSamples * 12 * width);
    std::vector<float> expected(y.size());
    std::vector<std::int32_t> chosen(y.size());
    std::vector<std::int32_t> expected_chosen(y.size());
    const MaxPoolForwardLast pool{
        window, width, {last.values.data()}, {.exact = y.data()}, chosen.data()};
    for (std::size_t i = 0; i < kSamples * 12 * groups_of(width); ++i) pool(i);
    const MaxPoolForward plain{
        window, {first.data()}, {.exact = expected.data()}, expected_chosen.data()};
    for (std::size_t i = 0; i < expected.size(); ++i) plain(i);

    std::vector<float> dx(last.values.size());
    std::vector<float> expected_dx(dx.size());
    const MaxPoolBackwardLast back{
        window, width, {expected.data()}, chosen.data(), {.exact = dx.data()}};
    std::vector<float> turned(y.size());
    const Relayout turn{width, 12, false, {y.data()}, {.exact = turned.data()}};
    for (std::size_t i = 0; i < turned.size(); ++i) {
      turn(i);
      BOOST_TEST((turned[i] == expected[i] || (std::isnan(turned[i]) && std::isnan(expected[i]))));
    }
    // The same gradient in both layouts.
    const Relayout lay{width, 12, true, {turned.data()}, {.exact = expected.data()}};
    for (std::size_t i = 0; i < expected.size(); ++i) lay(i);
    for (std::size_t i = 0; i < kSamples * 35 * groups_of(width); ++i) back(i);
    const MaxPoolBackward plain_back{
        window, {turned.data()}, expected_chosen.data(), expected_dx.data()};
    for (std::size_t i = 0; i < expected_dx.size(); ++i) plain_back(i);
    std::vector<float> turned_dx(dx.size());
    const Relayout turn_dx{width, 35, false, {dx.data()}, {.exact = turned_dx.data()}};
    for (std::size_t i = 0; i < dx.size(); ++i) {
      turn_dx(i);
      BOOST_TEST((turned_dx[i] == expected_dx[i] ||
                  (std::isnan(turned_dx[i]) && std::isnan(expected_dx[i]))));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
