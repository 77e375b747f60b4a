#include "io/record_size.hpp"

#include <chrono>

#include <boost/test/unit_test.hpp>

using namespace std::chrono_literals;
using namespace starling::io;
using starling::base::Time;

namespace {

constexpr std::uint32_t kMuch = 1024 * 1024;

}  // namespace

BOOST_AUTO_TEST_SUITE(record_size)

BOOST_AUTO_TEST_CASE(a_line_counts_as_fast_when_it_has_shown_it) {
  RecordSize size;
  BOOST_TEST(size.max() == kRecordSmall);
  size.taken(kMuch, Time(100s));  // since when is not known
  BOOST_TEST(size.max() == kRecordSmall);
  size.taken(kMuch + 1000, Time(100s + 10ms));  // too little to tell
  BOOST_TEST(size.max() == kRecordSmall);
  size.taken(2 * kMuch, Time(100s + 500ms));
  BOOST_TEST(size.max() == kCellMax);
}

BOOST_AUTO_TEST_CASE(a_line_that_has_become_slow_gets_small_records) {
  RecordSize size;
  std::uint32_t total = 0xfff00000;  // it wraps
  size.taken(total, Time(100s));
  size.taken(total += kMuch, Time(100s + 100ms));
  BOOST_TEST(size.max() == kCellMax);
  size.taken(total += kMuch, Time(140s));
  BOOST_TEST(size.max() == kRecordSmall);
}

BOOST_AUTO_TEST_SUITE_END()
