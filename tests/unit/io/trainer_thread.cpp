#include "io/trainer_thread.hpp"

#include <future>
#include <memory>
#include <new>
#include <optional>

#include <boost/test/unit_test.hpp>

#include "../peer/world.hpp"
#include "harness.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A trainer thread, and the loop that it wakes.
struct Fixture {
  void start(TrainerThread::MakeWorker make) { thread.emplace(port, std::move(make)); }
  void start_worker() {
    start([this]() -> base::Result<std::unique_ptr<peer::Worker>> {
      return problem.worker(loader, [](const peer::Snapshot&) { return base::Status{}; });
    });
  }
  /// The next outcome; nothing where none comes.
  std::optional<peer::Outcome> next() {
    std::optional<peer::Outcome> outcome;
    BOOST_TEST(run_until(loop, [&] { return outcome || (outcome = port.take()).has_value(); }));
    return outcome;
  }

  peer::testing::Problem problem{41};
  data::Loader loader{*problem.data.train, problem.shards, problem.training.batch, 41, {}};
  Loop loop = make_loop();
  WakeUp wake{loop, [] {}};
  TrainerPort port{[this] { wake.wake(); }};
  std::optional<TrainerThread> thread;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(trainer_thread, Fixture)

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_made_is_reported) {
  start([]() -> base::Result<std::unique_ptr<peer::Worker>> {
    return base::fail(base::ErrorCode::device, "no such device");
  });
  port.submit(peer::StepJob{0.1F});  // has no one to run it
  const auto outcome = next();
  BOOST_REQUIRE(outcome);
  const auto& failed = std::get<peer::Failed>(*outcome);
  BOOST_TEST((failed.error.code == base::ErrorCode::device));
  BOOST_TEST(failed.error.text == "no such device");
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_there_is_reported) {
  start([]() -> base::Result<std::unique_ptr<peer::Worker>> { throw std::bad_alloc(); });
  const auto outcome = next();
  BOOST_REQUIRE(outcome);
  const auto& failed = std::get<peer::Failed>(*outcome);
  BOOST_TEST((failed.error.code == base::ErrorCode::device));
  BOOST_TEST(failed.error.text.starts_with("out of memory"));
}

BOOST_AUTO_TEST_CASE(jobs_run_in_order_and_the_loop_is_woken_for_each_outcome) {
  start_worker();
  for (int i = 0; i < 3; ++i) port.submit(peer::StepJob{0.1F});
  port.submit(peer::SaveJob{});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto outcome = next();
    BOOST_REQUIRE(outcome);
    BOOST_TEST(std::get<peer::StepDone>(*outcome).step.value == step);
  }
  const auto last = next();
  BOOST_REQUIRE(last);
  BOOST_TEST(std::get<peer::Saved>(*last).step.value == 3U);
}

BOOST_AUTO_TEST_CASE(an_idle_thread_takes_a_job_that_comes_later) {
  start_worker();
  port.submit(peer::StepJob{0.1F});
  BOOST_REQUIRE(next());
  port.submit(peer::EvaluateJob{});
  const auto outcome = next();
  BOOST_REQUIRE(outcome);
  BOOST_TEST(std::get<peer::Evaluated>(*outcome).whole);
}

BOOST_AUTO_TEST_CASE(closing_the_port_ends_it_after_the_job_that_it_is_at) {
  std::promise<void> begun;
  std::promise<void> closed;
  int saves = 0;
  start([&]() -> base::Result<std::unique_ptr<peer::Worker>> {
    return problem.worker(loader, [&](const peer::Snapshot&) {
      if (++saves == 1) {
        begun.set_value();
        closed.get_future().wait();
      }
      return base::Status{};
    });
  });
  for (int i = 0; i < 3; ++i) port.submit(peer::SaveJob{});
  begun.get_future().wait();
  port.close();
  closed.set_value();
  thread.reset();
  BOOST_TEST(saves == 1);
  BOOST_TEST(!port.take());
}

BOOST_AUTO_TEST_SUITE_END()
