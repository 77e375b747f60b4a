#include "io/host_pace.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

#include "base/ip.hpp"

using namespace starling;
using namespace starling::io;
using namespace std::chrono_literals;

namespace {

base::Ip ip(const std::string& text) { return base::Ip::parse(text).value(); }

int taken(HostPace& pace, const base::Ip& from, base::Time now, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += pace.take(from, now) ? 1 : 0;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_pace)

BOOST_AUTO_TEST_CASE(a_host_comes_so_often_a_second_after_a_burst) {
  HostPace pace;
  const base::Time start{100s};
  BOOST_TEST(taken(pace, ip("192.0.2.1"), start, 1000) == HostPace::kBurst);
  BOOST_TEST(taken(pace, ip("192.0.2.1"), start + 1s, 1000) == HostPace::kEachSecond);
  BOOST_TEST(taken(pace, ip("192.0.2.2"), start + 1s, 1000) == HostPace::kBurst);
}

BOOST_AUTO_TEST_CASE(all_addresses_of_one_holder_are_one_host_and_this_machine_is_none) {
  HostPace pace;
  const base::Time now{100s};
  BOOST_TEST(taken(pace, ip("2001:db8::1"), now, 1000) == HostPace::kBurst);
  BOOST_TEST(taken(pace, ip("2001:db8::2"), now, 1000) == 0);
  BOOST_TEST(taken(pace, ip("2001:db8:0:1::1"), now, 1) == 1);
  BOOST_TEST(taken(pace, ip("127.0.0.1"), now, 1000) == 1000);
  BOOST_TEST(taken(pace, ip("::1"), now, 1000) == 1000);
}

BOOST_AUTO_TEST_CASE(who_came_longest_ago_is_forgotten_first) {
  HostPace pace;
  base::Time now{100s};
  const base::Ip first = ip("198.51.100.1");
  const base::Ip second = ip("198.51.100.2");
  for (const base::Ip& host : {first, second}) {
    BOOST_TEST(taken(pace, host, now, 1000) == HostPace::kBurst);
    now += 1ms;
  }
  for (std::size_t i = 1; i < HostPace::kHostsMax; ++i) {
    const std::string host = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    BOOST_TEST(pace.take(ip(host), now));
  }
  BOOST_TEST(!pace.take(second, now));
  BOOST_TEST(pace.take(first, now));
}

BOOST_AUTO_TEST_SUITE_END()
