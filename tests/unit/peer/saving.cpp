#include "peer/saving.hpp"

#include <boost/test/unit_test.hpp>

#include "bench.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

constexpr base::Duration kBenchEvery = std::chrono::seconds(10);

Config saved_by_time() {
  Config config = bench_config();
  config.checkpoint_every = kBenchEvery;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(saving)

BOOST_AUTO_TEST_CASE(checkpoints_come_by_time_until_the_timer_ends) {
  Bench bench(saved_by_time());
  BOOST_TEST(!bench.saving.next_at());
  bench.saving.begin_timer(kBenchBegin);
  BOOST_TEST((bench.saving.next_at() == kBenchBegin + kBenchEvery));
  bench.saving.expire(kBenchBegin + kBenchEvery, bench.out);
  BOOST_TEST(bench.jobs<SaveJob>() == 1U);
  BOOST_TEST((bench.saving.next_at() == kBenchBegin + 2 * kBenchEvery));
  bench.saving.end_timer();
  BOOST_TEST(!bench.saving.next_at());
}

BOOST_AUTO_TEST_CASE(without_a_time_none_comes_by_itself) {
  Bench bench;
  bench.saving.begin_timer(kBenchBegin);
  BOOST_TEST(!bench.saving.next_at());
}

BOOST_AUTO_TEST_CASE(one_that_is_asked_for_twice_is_written_once) {
  Bench bench;
  for (int i = 0; i < 3; ++i) bench.saving.save_if_idle(bench.out);
  BOOST_TEST(bench.jobs<SaveJob>() == 1U);
  BOOST_TEST(bench.saving.end(Saved{}, bench.out));
  bench.saving.save_if_idle(bench.out);
  BOOST_TEST(bench.jobs<SaveJob>() == 2U);
}

BOOST_AUTO_TEST_CASE(only_the_last_of_several_tells_what_was_not_saved) {
  Bench bench;
  for (int i = 0; i < 2; ++i) bench.saving.save(bench.out);
  const Saved failed{.status = base::fail(base::ErrorCode::data, "no space left")};
  BOOST_TEST(!bench.saving.end(failed, bench.out));
  BOOST_TEST(bench.saving.unsaved().text.empty());
  BOOST_TEST(bench.saving.end(Saved{}, bench.out));
  BOOST_TEST(bench.saving.unsaved().text.empty());
  bench.saving.save(bench.out);
  BOOST_TEST(bench.saving.end(failed, bench.out));
  BOOST_TEST(!bench.saving.unsaved().text.empty());
  BOOST_TEST(bench.count<base::LogEntry>() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
