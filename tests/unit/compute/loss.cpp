#include "compute/cpu/loss.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling::compute;
using namespace starling::compute::cpu;

namespace {

Evaluation evaluate(std::span<const float> outputs, std::span<const std::int32_t> labels,
                    std::uint32_t classes) {
  std::vector<RowLoss> rows(labels.size());
  return softmax_cross_entropy(outputs, labels, classes, rows);
}

Evaluation train(std::span<const float> outputs, std::span<const std::int32_t> labels,
                 std::uint32_t classes, float smoothing, std::span<float> gradient) {
  std::vector<RowLoss> rows(labels.size());
  return softmax_cross_entropy(outputs, labels, classes, rows, smoothing, gradient);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loss)

BOOST_AUTO_TEST_CASE(equal_outputs_lose_the_logarithm_of_the_number_of_classes) {
  const std::vector<float> outputs(8, 3.0F);
  const std::vector<std::int32_t> labels{1, 0};
  const Evaluation evaluation = evaluate(outputs, labels, 4);
  BOOST_TEST(std::abs(evaluation.loss_sum - 2 * std::log(4.0)) < 1e-6);
  BOOST_TEST(evaluation.correct == 1U);
}

BOOST_AUTO_TEST_CASE(large_outputs_do_not_overflow) {
  const std::vector<float> outputs{1e30F, -1e30F, 500.0F, -500.0F};
  const std::vector<std::int32_t> labels{0, 0};
  std::vector<float> gradient(4, 7.0F);
  const Evaluation evaluation = train(outputs, labels, 2, 0, gradient);
  BOOST_TEST(evaluation.loss_sum == 0.0);
  for (const float value : gradient) BOOST_TEST(value == 0.0F);
}

BOOST_AUTO_TEST_CASE(gradient_is_the_softmax_less_the_label_over_the_count) {
  const std::vector<float> outputs{0.0F, std::log(3.0F), 9.0F, 9.0F, 1.0F, 1.0F};
  const std::vector<std::int32_t> labels{0, 1};
  std::vector<float> gradient(6, 7.0F);
  const Evaluation evaluation = train(outputs, labels, 2, 0, gradient);
  const std::vector<float> expected{-0.375F, 0.375F, 0.25F, -0.25F, 0.0F, 0.0F};
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(std::abs(gradient[i] - expected[i]) < 1e-6F);
  BOOST_TEST(evaluation.count == 2U);
}

BOOST_AUTO_TEST_CASE(an_output_that_is_not_finite_makes_the_loss_so) {
  const std::vector<std::int32_t> labels{0};
  const float bad = std::nanf("");
  BOOST_TEST(!std::isfinite(evaluate(std::vector{1.0F, bad}, labels, 2).loss_sum));
  BOOST_TEST(!std::isfinite(evaluate(std::vector{bad, 1.0F}, labels, 2).loss_sum));
  BOOST_TEST(!std::isfinite(evaluate(std::vector{1.0F, INFINITY}, labels, 2).loss_sum));
}

BOOST_AUTO_TEST_CASE(smoothing_shares_a_part_of_the_label_among_all_classes) {
  // Probabilities 1/4 and 3/4; with smoothing 0.2 the target is 0.9 and 0.1.
  const std::vector<float> outputs{0.0F, std::log(3.0F)};
  const std::vector<std::int32_t> labels{0};
  const double expected = -(0.9 * std::log(0.25) + 0.1 * std::log(0.75));
  std::vector<float> gradient(2);
  const Evaluation evaluation = train(outputs, labels, 2, 0.2F, gradient);
  BOOST_TEST(std::abs(evaluation.loss_sum - expected) < 1e-6);
  BOOST_TEST(std::abs(gradient[0] - (0.25F - 0.9F)) < 1e-6F);
  BOOST_TEST(std::abs(gradient[1] - (0.75F - 0.1F)) < 1e-6F);
  // Without a gradient it is evaluation's, of the label alone.
  BOOST_TEST(std::abs(evaluate(outputs, labels, 2).loss_sum + std::log(0.25)) < 1e-6);
}

// Enough classes and rows for vectors and threads; some outputs are far below the largest, some as
// large.
BOOST_AUTO_TEST_CASE(many_classes_lose_what_double_precision_says) {
  constexpr std::uint32_t kClasses = 5003;
  constexpr std::size_t kRows = 40;
  constexpr float kSmoothing = 0.1F;
  constexpr std::uint64_t seed = 3;
  starling::base::Rng rng(seed);
  std::vector<float> outputs(kRows * kClasses);
  for (float& output : outputs) output = static_cast<float>(rng.uniform() * 200 - 100);
  std::vector<std::int32_t> labels(kRows);
  for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(kClasses));
  // The label's is the first of two largest in row 0, the second in row 1.
  labels[0] = 7;
  labels[1] = 9;
  outputs[7] = outputs[9] = outputs[kClasses + 7] = outputs[kClasses + 9] = 101;

  std::vector<float> gradient(outputs.size());
  const Evaluation trained = train(outputs, labels, kClasses, kSmoothing, gradient);
  const Evaluation evaluated = evaluate(outputs, labels, kClasses);
  double loss = 0;
  double smoothed = 0;
  double furthest = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    const float* const row = outputs.data() + i * kClasses;
    const auto largest = static_cast<double>(*std::max_element(row, row + kClasses));
    double sum = 0;
    double mean = 0;
    for (std::size_t j = 0; j < kClasses; ++j) {
      sum += std::exp(static_cast<double>(row[j]) - largest);
      mean += static_cast<double>(row[j]) / kClasses;
    }
    const double log_sum = std::log(sum) + largest;
    const double own = log_sum - static_cast<double>(row[labels[i]]);
    loss += own;
    smoothed += own + static_cast<double>(kSmoothing) * (log_sum - mean - own);
    for (std::size_t j = 0; j < kClasses; ++j) {
      const bool is_label = j == static_cast<std::size_t>(labels[i]);
      const double target =
          static_cast<double>(kSmoothing) / kClasses + (is_label ? 1.0 - kSmoothing : 0.0);
      const double expected = (std::exp(static_cast<double>(row[j]) - log_sum) - target) / kRows;
      const double got = static_cast<double>(gradient[i * kClasses + j]);
      furthest = std::max(furthest, std::abs(got - expected));
    }
  }
  BOOST_TEST(std::abs(evaluated.loss_sum - loss) < 1e-6 * loss);
  BOOST_TEST(std::abs(trained.loss_sum - smoothed) < 1e-6 * smoothed);
  BOOST_TEST(furthest < 1e-8);
  BOOST_TEST(evaluated.correct == trained.correct);
  BOOST_TEST(
      evaluate(std::span(outputs).first(kClasses), std::span(labels).first(1), kClasses).correct ==
      1U);
  BOOST_TEST(evaluate(std::span(outputs).subspan(kClasses, kClasses),
                      std::span(labels).subspan(1, 1), kClasses)
                 .correct == 0U);
}

BOOST_AUTO_TEST_CASE(mean_squares_are_of_a_samples_outputs) {
  const std::vector<float> outputs{1, 2, 3, 4, 9, 9};
  const std::vector<float> targets{1, 0, 0, 4};
  std::vector<float> gradient(6, 7.0F);
  const Evaluation evaluation = mean_squared(outputs, targets, 2, gradient);
  BOOST_TEST(evaluation.count == 2U);
  BOOST_TEST(evaluation.correct == 0U);
  BOOST_TEST(evaluation.loss_sum == (4.0 + 9.0) / 2);
  const std::vector<float> expected{0, 1, 1.5F, 0, 0, 0};
  BOOST_TEST(gradient == expected, boost::test_tools::per_element());
  BOOST_TEST(mean_squared(outputs, targets, 2).loss_sum == evaluation.loss_sum);
}

BOOST_AUTO_TEST_SUITE_END()
