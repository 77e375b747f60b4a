#include "peer/speed_meter.hpp"

#include <boost/test/unit_test.hpp>

#include "wire/messages.hpp"

using namespace starling;
using namespace std::chrono_literals;
using peer::kSpeedAgain;
using peer::kSpeedFirst;
using peer::SpeedMeter;

namespace {

constexpr base::Time kMeterBegin{100s};

}  // namespace

BOOST_AUTO_TEST_SUITE(speed_meter)

BOOST_AUTO_TEST_CASE(the_first_speed_is_told_soon) {
  SpeedMeter meter;
  BOOST_TEST(!meter.measure(500, 0, kMeterBegin));
  BOOST_TEST(!meter.measure(600, 0, kMeterBegin + kSpeedFirst - 1ns));
  BOOST_TEST((meter.measure(700, 0, kMeterBegin + kSpeedFirst) == 20.0F));
}

BOOST_AUTO_TEST_CASE(a_speed_is_told_again_when_it_has_changed_by_half_or_more) {
  constexpr float kTold = 20;  // 1,200 samples in kSpeedAgain
  const auto news = [](std::uint64_t samples) {
    SpeedMeter meter;
    BOOST_TEST(!meter.measure(0, kTold, kMeterBegin));
    BOOST_TEST(!meter.measure(samples - 1, kTold, kMeterBegin + kSpeedAgain - 1ns));
    return meter.measure(samples, kTold, kMeterBegin + kSpeedAgain);
  };
  BOOST_TEST(!news(1200));
  BOOST_TEST(!news(1799));
  BOOST_TEST((news(1800) == 30.0F));
  BOOST_TEST(!news(801));
  BOOST_TEST((news(600) == 10.0F));
}

BOOST_AUTO_TEST_CASE(each_measurement_begins_where_the_last_one_ended) {
  SpeedMeter meter;
  (void)meter.measure(0, 20, kMeterBegin);
  BOOST_TEST(!meter.measure(1200, 20, kMeterBegin + kSpeedAgain));
  BOOST_TEST((meter.measure(4200, 20, kMeterBegin + 2 * kSpeedAgain) == 50.0F));
}

BOOST_AUTO_TEST_CASE(what_is_told_is_a_speed_that_others_take) {
  SpeedMeter meter;
  (void)meter.measure(0, 0, kMeterBegin);
  const auto none = meter.measure(0, 0, kMeterBegin + kSpeedFirst);
  BOOST_REQUIRE(none);
  BOOST_TEST(*none > 0);
  const auto most = meter.measure(std::uint64_t{1} << 60, *none, kMeterBegin + 10 * kSpeedAgain);
  BOOST_TEST((most == wire::kSpeedMax));
}

BOOST_AUTO_TEST_SUITE_END()
