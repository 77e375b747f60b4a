#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/hash.hpp"
#include "specs.hpp"

using namespace starling;
using namespace starling::model;
using namespace starling::model::test;

namespace {

std::uint64_t hash_of(const Spec& spec, const InputOutput& in_out) {
  const auto built = build(spec, in_out);
  BOOST_REQUIRE_MESSAGE(built, (built ? "" : built.error().text));
  const std::vector<float> parameters = built->initial_parameters(1);
  return base::xxh3(base::bytes_of(std::span(parameters)));
}

/// Largest magnitude and root of the mean square of a tensor.
struct Spread {
  float largest = 0;
  double rms = 0;
};

Spread spread(const std::vector<float>& values, const compute::Tensor& tensor) {
  Spread spread;
  double sum = 0;
  for (std::size_t i = 0; i < tensor.size; ++i) {
    const float value = values[tensor.offset + i];
    spread.largest = std::max(spread.largest, std::abs(value));
    sum += static_cast<double>(value) * value;
  }
  spread.rms = std::sqrt(sum / static_cast<double>(tensor.size));
  return spread;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(initial)

BOOST_AUTO_TEST_CASE(initial_parameters_have_the_same_bits_on_every_machine) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(1);
  // Peers compare this hash before they train together: it must never change.
  BOOST_TEST(base::xxh3(base::bytes_of(std::span(parameters))) == 0xb6dc0678719762a5ULL);
  BOOST_TEST((parameters == built->initial_parameters(1)));
  BOOST_TEST((parameters != built->initial_parameters(2)));
}

BOOST_AUTO_TEST_CASE(initial_parameters_fill_the_range_of_their_layer) {
  const auto built = build(cnn(), 10);
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(3);
  for (const compute::Tensor& tensor : built->graph.tensors) {
    const bool feeds_relu = tensor.shape.size() > 1 && tensor.name != "layers.7.weight";
    const double bound = std::sqrt((feeds_relu ? 6.0 : 1.0) / tensor.fan_in);
    double largest = 0;
    double sum = 0;
    for (std::size_t i = 0; i < tensor.size; ++i) {
      const double value = parameters[tensor.offset + i];
      BOOST_REQUIRE(value != 0.0);
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    BOOST_TEST_CONTEXT(tensor.name << ", seed 3") {
      BOOST_TEST(largest <= bound * 1.000001);
      BOOST_TEST(largest > bound * 0.7);
      // Five standard deviations of the mean of uniform values.
      const double size = static_cast<double>(tensor.size);
      BOOST_TEST(std::abs(sum / size) < 5 * bound / std::sqrt(3 * size));
    }
  }
}

BOOST_AUTO_TEST_CASE(presets_start_with_the_same_bits_on_every_machine) {
  const InputOutput image{.input = {1, 28, 28}, .outputs = 10};
  const InputOutput text{.input = {128}, .vocabulary = 256, .outputs = 256};
  Spec spec{};
  spec.preset = Preset::cnn;
  BOOST_TEST(hash_of(spec, image) == 0xb6dc0678719762a5ULL);
  spec.preset = Preset::resnet20;
  BOOST_TEST(hash_of(spec, image) == 0xf066090d509e7d7aULL);
  spec.preset = Preset::gpt;
  spec.sizes.width = 64;
  BOOST_TEST(hash_of(spec, text) == 0x75ddd388f67a78c6ULL);
}

BOOST_AUTO_TEST_CASE(norms_start_as_the_identity) {
  Spec spec{};
  spec.preset = Preset::resnet20;
  const auto built = build(spec, {.input = {1, 28, 28}, .outputs = 10});
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(1);
  std::size_t scales = 0;
  for (const compute::Tensor& tensor : built->graph.tensors) {
    if (tensor.kind != compute::TensorKind::scale && tensor.kind != compute::TensorKind::shift) {
      continue;
    }
    const float value = tensor.kind == compute::TensorKind::scale ? 1 : 0;
    const auto begin = parameters.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    BOOST_TEST(std::count(begin, begin + static_cast<std::ptrdiff_t>(tensor.size), value) ==
               static_cast<std::ptrdiff_t>(tensor.size));
    ++scales;
  }
  BOOST_TEST(scales == 2U * 21);
  const std::vector<float> buffers = built->initial_buffers();
  BOOST_REQUIRE(buffers.size() == built->graph.buffer_count);
  for (const compute::Tensor& tensor : built->graph.buffers) {
    const bool mean = tensor.kind == compute::TensorKind::running_mean;
    for (std::size_t i = 0; i < tensor.size; ++i) {
      BOOST_REQUIRE(buffers[tensor.offset + i] == (mean ? 0.0F : 1.0F));
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_that_feed_a_relu_through_norms_and_sums_start_wider) {
  Spec spec{};
  spec.preset = Preset::resnet20;
  const auto built = build(spec, {.input = {1, 28, 28}, .outputs = 10});
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(2);
  for (const compute::Tensor& tensor : built->graph.tensors) {
    if (tensor.kind != compute::TensorKind::weight) continue;
    const double gain = tensor.name == "fc.weight" ? 1 : 6;
    const double bound = std::sqrt(gain / tensor.fan_in);
    const Spread seen = spread(parameters, tensor);
    BOOST_TEST_CONTEXT(tensor.name << ", seed 2") {
      BOOST_TEST(seen.largest <= bound * 1.000001);
      BOOST_TEST(seen.largest > bound * 0.9);
    }
  }
}

BOOST_AUTO_TEST_CASE(gpt_starts_with_the_deviations_of_gpt2) {
  Spec spec{};
  spec.preset = Preset::gpt;
  spec.sizes.depth = 8;
  spec.sizes.width = 64;
  const auto built = build(spec, {.input = {128}, .vocabulary = 256, .outputs = 256});
  BOOST_REQUIRE(built);
  const std::vector<float> parameters = built->initial_parameters(4);
  for (const compute::Tensor& tensor : built->graph.tensors) {
    const Spread seen = spread(parameters, tensor);
    BOOST_TEST_CONTEXT(tensor.name << ", seed 4") {
      if (tensor.name.ends_with(".bias")) {
        BOOST_TEST(seen.largest == 0.0F);
      } else if (tensor.kind != compute::TensorKind::scale) {
        const double std = tensor.name.find("c_proj") != std::string::npos ? 0.005 : 0.02;
        BOOST_TEST(std::abs(seen.rms / std - 1) < 0.03);
        BOOST_TEST(seen.largest <= std * std::sqrt(3.0) * 1.000001);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
