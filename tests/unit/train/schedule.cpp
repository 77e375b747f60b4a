#include "train/schedule.hpp"

#include <cmath>

#include <boost/test/unit_test.hpp>

using namespace starling::train;

BOOST_AUTO_TEST_SUITE(schedule)

BOOST_AUTO_TEST_CASE(constant_stays_at_lr) {
  const Config config{.lr = 0.5, .schedule = Schedule::constant};
  for (const double progress : {-1.0, 0.0, 0.3, 1.0, 2.0}) {
    BOOST_TEST(learning_rate(config, progress) == 0.5F);
  }
}

BOOST_AUTO_TEST_CASE(cosine_falls_from_lr_over_its_half_to_zero) {
  const Config config{.lr = 0.5, .schedule = Schedule::cosine};
  BOOST_TEST(learning_rate(config, 0.0) == 0.5F);
  BOOST_TEST(std::abs(learning_rate(config, 0.5) - 0.25F) < 1e-7F);
  BOOST_TEST(learning_rate(config, 1.0) == 0.0F);
  BOOST_TEST(learning_rate(config, 1.5) == 0.0F);
}

BOOST_AUTO_TEST_CASE(warmup_rises_from_zero_to_lr) {
  for (const Schedule kind : {Schedule::constant, Schedule::cosine}) {
    const Config config{.lr = 0.5, .schedule = kind, .warmup = 0.2};
    BOOST_TEST(learning_rate(config, 0.0) == 0.0F);
    BOOST_TEST(std::abs(learning_rate(config, 0.1) - 0.25F) < 1e-7F);
    BOOST_TEST(learning_rate(config, 0.2) == 0.5F);
  }
  const Config cosine{.lr = 0.5, .schedule = Schedule::cosine, .warmup = 0.2};
  BOOST_TEST(std::abs(learning_rate(cosine, 0.6) - 0.25F) < 1e-7F);
  BOOST_TEST(learning_rate(cosine, 1.0) == 0.0F);
}

BOOST_AUTO_TEST_CASE(linear_falls_along_a_line_to_zero) {
  const Config config{.lr = 0.5, .schedule = Schedule::linear, .warmup = 0.2};
  BOOST_TEST(learning_rate(config, 0.2) == 0.5F);
  BOOST_TEST(std::abs(learning_rate(config, 0.4) - 0.375F) < 1e-7F);
  BOOST_TEST(learning_rate(config, 1.0) == 0.0F);
}

BOOST_AUTO_TEST_CASE(cosine_and_linear_end_at_their_part_of_lr) {
  for (const Schedule kind : {Schedule::cosine, Schedule::linear}) {
    const Config config{.lr = 0.5, .schedule = kind, .final_lr = 0.25};
    BOOST_TEST(learning_rate(config, 0.0) == 0.5F);
    BOOST_TEST(std::abs(learning_rate(config, 0.5) - 0.3125F) < 1e-7F);
    BOOST_TEST(learning_rate(config, 1.0) == 0.125F);
  }
}

BOOST_AUTO_TEST_CASE(step_multiplies_the_rate_at_each_of_its_places) {
  const Config config{.lr = 0.5,
                      .schedule = Schedule::step,
                      .warmup = 0.1,
                      .steps = {0.5, 0.75},
                      .step_factor = 0.25};
  BOOST_TEST(std::abs(learning_rate(config, 0.05) - 0.25F) < 1e-7F);
  BOOST_TEST(learning_rate(config, 0.1) == 0.5F);
  BOOST_TEST(learning_rate(config, 0.4999) == 0.5F);
  BOOST_TEST(learning_rate(config, 0.5) == 0.125F);
  BOOST_TEST(learning_rate(config, 0.7499) == 0.125F);
  BOOST_TEST(learning_rate(config, 0.75) == 0.03125F);
  BOOST_TEST(learning_rate(config, 1.0) == 0.03125F);
}

BOOST_AUTO_TEST_CASE(none_rises_after_the_warmup) {
  for (const Schedule kind :
       {Schedule::constant, Schedule::cosine, Schedule::linear, Schedule::step}) {
    const Config config{
        .lr = 0.5, .schedule = kind, .warmup = 0.1, .final_lr = 0.1, .steps = {0.2, 0.3, 0.9}};
    float previous = learning_rate(config, 0.1);
    for (int i = 101; i <= 1000; ++i) {
      const float lr = learning_rate(config, i / 1000.0);
      BOOST_TEST(lr <= previous);
      previous = lr;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_is_all_warmup_ends_at_lr) {
  const Config config{.lr = 0.5, .schedule = Schedule::cosine, .warmup = 1.0};
  BOOST_TEST(learning_rate(config, 1.0) == 0.5F);
}

BOOST_AUTO_TEST_SUITE_END()
