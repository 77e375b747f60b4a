#include "peer/lifecycle.hpp"

#include <limits>
#include <optional>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "bench.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

void begin(Bench& bench) {
  bench.lifecycle.start(kBenchBegin);
  bench.lifecycle.start_if_ready(kBenchBegin, bench.out);
}

void make_step(Bench& bench) {
  const base::StepNumber step{bench.training.so_far().step.value + 1};
  bench.lifecycle.on(StepDone{step, 8, 1.0F}, kBenchBegin, bench.out);
}

void save(Bench& bench, base::Status status = {}) {
  bench.lifecycle.on(Saved{.status = std::move(status)}, kBenchBegin, bench.out);
}

void make_all_steps(Bench& bench) {
  while (bench.phase() == Phase::training) make_step(bench);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lifecycle)

BOOST_AUTO_TEST_CASE(who_waits_for_nobody_trains_at_once) {
  Bench bench;
  begin(bench);
  BOOST_TEST((bench.phase() == Phase::training));
  BOOST_TEST(bench.jobs<StepJob>() == kStepsAhead);
  BOOST_TEST(!bench.lifecycle.timers().wait_until);
}

BOOST_AUTO_TEST_CASE(who_waits_for_others_trains_when_they_are_here_or_the_wait_is_over) {
  Config config = bench_config();
  config.membership.wait_for = 1;
  Bench met(config);
  begin(met);
  BOOST_TEST((met.phase() == Phase::waiting));
  met.neighbours.add(bench_peer(2), {1, 1});
  met.lifecycle.start_if_ready(kBenchBegin, met.out);
  BOOST_TEST((met.phase() == Phase::training));

  Bench alone(config);
  begin(alone);
  alone.lifecycle.end_wait(*alone.lifecycle.timers().wait_until, alone.out);
  BOOST_TEST((alone.phase() == Phase::training));
  BOOST_TEST(alone.count<base::LogEntry>() == 1U);
}

BOOST_AUTO_TEST_CASE(who_leaves_ends_when_its_checkpoint_is_written) {
  Bench bench;
  begin(bench);
  bench.lifecycle.leave(kBenchBegin, bench.out);
  BOOST_TEST(bench.jobs<SaveJob>() == 1U);
  BOOST_TEST(!bench.finished());
  save(bench);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->reason == EndReason::left));
}

BOOST_AUTO_TEST_CASE(who_leaves_before_it_trains_ends_at_once) {
  Config config = bench_config();
  config.membership.wait_for = 1;
  Bench bench(config);
  begin(bench);
  bench.lifecycle.leave(kBenchBegin, bench.out);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->reason == EndReason::left));
  BOOST_TEST(bench.jobs<SaveJob>() == 0U);
}

BOOST_AUTO_TEST_CASE(after_the_last_step_it_saves_then_evaluates_then_is_done) {
  Bench bench;
  begin(bench);
  make_all_steps(bench);
  BOOST_TEST((bench.phase() == Phase::finishing));
  BOOST_TEST(bench.training.so_far().samples >= 100U);
  BOOST_TEST(bench.jobs<SaveJob>() == 1U);
  BOOST_TEST(bench.jobs<EvaluateJob>() == 1U);
  save(bench);
  BOOST_TEST(!bench.finished());
  bench.lifecycle.end_evaluation(Evaluated{.loss = 1.0}, kBenchBegin, bench.out);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->reason == EndReason::done));
  BOOST_TEST(bench.finished()->error.text.empty());
}

BOOST_AUTO_TEST_CASE(who_is_done_tells_that_its_model_was_not_saved) {
  Bench bench;
  begin(bench);
  make_all_steps(bench);
  bench.lifecycle.end_evaluation(std::nullopt, kBenchBegin, bench.out);
  save(bench, base::fail(base::ErrorCode::data, "no space left"));
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->reason == EndReason::done));
  BOOST_TEST(!bench.finished()->error.text.empty());
}

BOOST_AUTO_TEST_CASE(who_has_settled_is_done_and_names_those_that_it_left_out) {
  Bench bench;
  begin(bench);
  exchange::Settled settled{};
  settled.left_out.push_back({bench_peer(2), exchange::LeftOutFor::silent});
  settled.left_out.push_back({bench_peer(3), exchange::LeftOutFor::lost});  // and nobody misses it
  bench.lifecycle.on(settled, kBenchBegin, bench.out);
  BOOST_TEST(bench.count<base::LogEntry>() == 1U);
  BOOST_REQUIRE(bench.lifecycle.left_out().size() == 1U);
  BOOST_TEST((bench.lifecycle.left_out()[0].peer == bench_peer(2)));
  BOOST_TEST((bench.lifecycle.settled() == true));
  save(bench);
  bench.lifecycle.end_evaluation(Evaluated{.loss = 1.0}, kBenchBegin, bench.out);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->reason == EndReason::done));
  BOOST_TEST(bench.finished()->error.text.empty());
}

BOOST_AUTO_TEST_CASE(who_agreed_with_none_of_the_others_is_done_and_tells) {
  for (const bool is_saved : {true, false}) {
    Bench bench;
    begin(bench);
    BOOST_TEST(!bench.lifecycle.settled().has_value());
    bench.lifecycle.on(exchange::Settled{.unsettled = true}, kBenchBegin, bench.out);
    BOOST_TEST((bench.lifecycle.settled() == false));
    bench.lifecycle.end_evaluation(Evaluated{.loss = 1.0}, kBenchBegin, bench.out);
    save(bench, is_saved ? base::Status{} : base::fail(base::ErrorCode::data, "no space left"));
    BOOST_REQUIRE(bench.finished());
    BOOST_TEST((bench.finished()->reason == EndReason::done));
    const base::ErrorCode code = bench.finished()->error.code;
    BOOST_TEST((code == (is_saved ? base::ErrorCode::unsettled : base::ErrorCode::data)));
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_that_is_not_finite_ends_a_peer) {
  Config config = bench_config();
  config.evaluate_every = 8;
  Bench bench(config);
  begin(bench);
  make_step(bench);
  BOOST_TEST(bench.jobs<EvaluateJob>() == 1U);
  const Evaluated evaluated{.loss = std::numeric_limits<double>::quiet_NaN()};
  bench.lifecycle.end_evaluation(evaluated, kBenchBegin, bench.out);
  BOOST_REQUIRE(bench.finished());
  BOOST_TEST((bench.finished()->error.code == base::ErrorCode::diverged));
}

BOOST_AUTO_TEST_CASE(nothing_comes_after_the_end) {
  Bench bench;
  begin(bench);
  for (int i = 0; i < 2; ++i) {
    bench.lifecycle.end({EndReason::failed, {base::ErrorCode::data, "x"}}, kBenchBegin, bench.out);
  }
  BOOST_TEST(bench.count<Finished>() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
