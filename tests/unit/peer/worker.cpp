#include "peer/worker.hpp"

#include <algorithm>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "train/trainer.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;

namespace {

/// A worker on the problem, and what it handed to its saver.
struct Fixture {
  explicit Fixture(bool batch_norm = false) : problem(31, batch_norm) {
    worker = problem.worker(loader, [this](const Snapshot& snapshot) -> base::Status {
      saved.assign(snapshot.parameters.begin(), snapshot.parameters.end());
      saved_buffers.assign(snapshot.buffers.begin(), snapshot.buffers.end());
      saved_step = snapshot.step;
      saved_counters.assign(snapshot.counters.begin(), snapshot.counters.end());
      if (disk_full) return base::fail(base::ErrorCode::data, "no space left");
      return {};
    });
    other.bytes.fill(9);
  }

  std::vector<Outcome> work() {
    std::vector<Outcome> outcomes;
    static_cast<void>(worker->work(outcomes));
    return outcomes;
  }
  std::vector<Outcome> work_all() {
    std::vector<Outcome> outcomes;
    while (worker->work(outcomes)) continue;
    return outcomes;
  }
  std::vector<float> replica() const {
    std::vector<float> x(worker->replica().size());
    worker->replica().read(x);
    return x;
  }

  std::vector<float> buffers() const {
    const auto values = worker->replica().buffers().values();
    return {values.begin(), values.end()};
  }

  Problem problem;
  data::Loader loader{*problem.data.train, problem.shards, problem.training.batch, 31, {}};
  std::unique_ptr<Worker> worker;
  base::PeerId other;
  std::vector<float> saved;
  std::vector<float> saved_buffers;
  base::StepNumber saved_step;
  std::vector<base::SampleCounter> saved_counters;
  bool disk_full = false;
};

/// The same with a batch norm.
struct Normed : Fixture {
  Normed() : Fixture(true) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(worker, Fixture)

BOOST_AUTO_TEST_CASE(without_a_job_nothing_is_done) {
  std::vector<Outcome> outcomes;
  BOOST_TEST(!worker->work(outcomes));
  BOOST_TEST(outcomes.empty());
}

BOOST_AUTO_TEST_CASE(a_step_moves_the_replica_and_counts) {
  worker->submit(StepJob{0.1F});
  worker->submit(StepJob{0.1F});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 2U);
  const auto& second = std::get<StepDone>(outcomes[1]);
  BOOST_TEST(second.step.value == 2U);
  BOOST_TEST(second.samples == 16U);
  BOOST_TEST(second.loss > 0.0F);
  BOOST_TEST((replica() != problem.initial));
}

BOOST_AUTO_TEST_CASE(the_exchange_goes_before_steps_that_wait) {
  worker->submit(StepJob{0.1F});
  worker->submit(exchange::OpenJob{.peer = other, .tag = 1});
  worker->submit(exchange::EncodeJob{.peer = other, .tag = 2, .exchange = {1}, .not_before = {1}});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 3U);
  BOOST_TEST(std::holds_alternative<exchange::Opened>(std::get<exchange::Outcome>(outcomes[0])));
  BOOST_TEST(std::holds_alternative<StepDone>(outcomes[1]));  // the delta waits for it
  const auto& encoded = std::get<exchange::Encoded>(std::get<exchange::Outcome>(outcomes[2]));
  BOOST_TEST(encoded.status.has_value());
  BOOST_TEST(encoded.step.value == 1U);
}

BOOST_AUTO_TEST_CASE(an_exchange_without_end_lets_a_step_through_now_and_then) {
  worker->submit(exchange::OpenJob{.peer = other, .tag = 1});
  work_all();
  for (int i = 0; i < 3; ++i) worker->submit(StepJob{0.1F});
  std::vector<Outcome> outcomes;
  for (std::uint64_t i = 0; i < 3 * (Turns::kExchangesMax + 1); ++i) {
    worker->submit(exchange::KeyframeJob{.peer = other, .tag = 2 + i});
    BOOST_REQUIRE(worker->work(outcomes));
  }
  BOOST_TEST(std::ranges::count_if(outcomes, [](const Outcome& outcome) {
               return std::holds_alternative<StepDone>(outcome);
             }) == 3);
}

BOOST_AUTO_TEST_CASE(a_gradient_and_its_application_are_a_step) {
  Fixture whole;
  whole.worker->submit(StepJob{0.1F});
  BOOST_REQUIRE(whole.work_all().size() == 1U);
  worker->submit(GradientJob{});
  auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 1U);
  auto& ready = std::get<GradientReady>(outcomes[0]);
  BOOST_TEST(ready.step.value == 1U);
  BOOST_TEST((replica() == problem.initial));
  worker->submit(ApplyJob{std::move(ready.gradient), 0.1F});
  outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 1U);
  BOOST_TEST(std::get<StepDone>(outcomes[0]).step.value == 1U);
  BOOST_TEST((replica() == whole.replica()));
}

BOOST_AUTO_TEST_CASE(a_round_of_local_steps_ends_with_the_mean_of_what_moved) {
  worker->submit(AnchorJob{1.0F, 0.0F});
  worker->submit(StepJob{0.1F});
  worker->submit(StepJob{0.1F});
  worker->submit(OuterGradientJob{});
  auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 3U);
  std::vector<float> values = std::get<OuterGradient>(outcomes[2]).values;
  const std::vector<float> stepped = replica();
  BOOST_REQUIRE(values.size() == stepped.size());
  for (std::size_t i = 0; i < stepped.size(); ++i) {
    BOOST_REQUIRE(values[i] == problem.initial[i] - stepped[i]);
    values[i] *= 0.5F;  // another peer has not moved
  }
  worker->submit(OuterStepJob{values});
  outcomes = work_all();
  BOOST_TEST(std::holds_alternative<OuterStepDone>(outcomes.at(0)));
  const std::vector<float> averaged = replica();
  for (std::size_t i = 0; i < stepped.size(); ++i) {
    BOOST_REQUIRE(averaged[i] == problem.initial[i] - values[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_mean_of_what_moved_that_is_not_finite_is_not_applied) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Fixture one;
    one.worker->submit(AnchorJob{1.0F, 0.0F});
    one.worker->submit(StepJob{0.1F});
    one.worker->submit(OuterGradientJob{});
    auto outcomes = one.work_all();
    std::vector<float> values = std::get<OuterGradient>(outcomes.at(1)).values;
    values.back() = value;
    const std::vector<float> before = one.replica();
    one.worker->submit(OuterStepJob{std::move(values)});
    outcomes = one.work_all();
    BOOST_REQUIRE(std::holds_alternative<Failed>(outcomes.at(0)));
    BOOST_TEST((std::get<Failed>(outcomes[0]).error.code == base::ErrorCode::diverged));
    BOOST_TEST((one.replica() == before));
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_of_the_replica_at_its_start_and_lets_the_exchange_pass) {
  worker->submit(EvaluateJob{});
  const auto alone = work_all();
  worker->submit(EvaluateJob{});
  worker->submit(SaveJob{});
  worker->submit(exchange::OpenJob{.peer = other, .tag = 1});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 3U);
  BOOST_TEST(std::holds_alternative<exchange::Outcome>(outcomes[0]));
  const auto& evaluated = std::get<Evaluated>(outcomes[1]);
  BOOST_TEST(evaluated.whole);
  BOOST_TEST(evaluated.samples == problem.data.test->size());
  BOOST_TEST(evaluated.loss == std::get<Evaluated>(alone[0]).loss);
  BOOST_TEST(evaluated.accuracy <= 1.0);
  BOOST_TEST(std::holds_alternative<Saved>(outcomes[2]));
}

BOOST_AUTO_TEST_CASE(an_evaluation_of_a_part_says_so_and_takes_samples_spread_over_the_set) {
  worker->submit(EvaluateJob{50});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 1U);
  const auto& evaluated = std::get<Evaluated>(outcomes[0]);
  BOOST_TEST(evaluated.samples == 50U);
  BOOST_TEST(!evaluated.whole);
  data::BatchBuffer spread;
  problem.data.test->fill_spread(0, 50, 50, spread);
  auto trainer = train::Trainer::create(problem.model.graph, problem.training).value();
  const auto expected = trainer.evaluate(problem.initial, {}, spread.view()).value();
  BOOST_TEST(evaluated.loss == expected.loss, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(what_is_saved_is_the_replica_and_a_failure_is_an_outcome) {
  worker->submit(StepJob{0.1F});
  worker->submit(SaveJob{});
  auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 2U);
  BOOST_TEST(std::get<Saved>(outcomes[1]).status.has_value());
  BOOST_TEST(saved_step.value == 1U);
  BOOST_TEST((saved == replica()));
  disk_full = true;
  worker->submit(SaveJob{});
  outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 1U);
  BOOST_TEST(std::get<Saved>(outcomes[0]).status.error().text == "no space left");
}

// Only the next step's loss shows what a step did to the parameters.
BOOST_AUTO_TEST_CASE(what_is_not_finite_is_not_saved) {
  worker->submit(StepJob{std::numeric_limits<float>::infinity()});
  worker->submit(SaveJob{});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 2U);
  const base::Status& status = std::get<Saved>(outcomes[1]).status;
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST((status.error().code == base::ErrorCode::diverged));
  BOOST_TEST(saved.empty());
}

// Steps that were handed out before are in the replica that is saved, and in the own counter.
BOOST_AUTO_TEST_CASE(the_counters_that_are_saved_are_of_the_moment_of_the_replica) {
  const SaveJob save{.others = {{7, 500}}, .own_prefix = 3, .recalled = 100};
  for (int i = 0; i < 2; ++i) worker->submit(StepJob{0.1F});
  worker->submit(save);
  work_all();
  const std::vector<base::SampleCounter> expected{{7, 500}, {3, 100 + 2 * problem.training.batch}};
  BOOST_TEST((saved_counters == expected));
}

BOOST_FIXTURE_TEST_CASE(steps_move_the_buffers_and_checkpoints_hold_them, Normed) {
  BOOST_TEST((buffers() == problem.buffers.initial));
  worker->submit(StepJob{0.1F});
  worker->submit(SaveJob{});
  BOOST_REQUIRE(work_all().size() == 2U);
  BOOST_TEST(buffers().size() == 16U);
  BOOST_TEST((buffers() != problem.buffers.initial));
  BOOST_TEST((saved_buffers == buffers()));
}

BOOST_FIXTURE_TEST_CASE(an_evaluation_takes_the_buffers_as_they_were_at_its_start, Normed) {
  for (int i = 0; i < 50; ++i) worker->submit(StepJob{0.1F});
  work_all();
  worker->submit(EvaluateJob{});
  const auto evaluated = std::get<Evaluated>(work_all().at(0));
  BOOST_TEST(evaluated.accuracy > 0.8);
  // Those of another peer change what evaluation says, and nothing else did.
  exchange::Replica away(problem.initial, 0.5F, problem.buffers);
  BOOST_REQUIRE(away.open_fresh(other).has_value());
  base::Bytes keyframe, statistics;
  BOOST_REQUIRE(away.encode_keyframe(keyframe).has_value());
  for (float& value : away.buffers().values()) value += 3.0F;
  BOOST_REQUIRE(away.buffers().write(statistics).has_value());
  worker->submit(exchange::OpenJob{.peer = other,
                                   .tag = 1,
                                   .decision = exchange::OpenDecision::adopt,
                                   .their = keyframe,
                                   .their_buffers = statistics});
  worker->submit(EvaluateJob{});
  const auto outcomes = work_all();
  BOOST_REQUIRE(outcomes.size() == 2U);
  BOOST_TEST((buffers() ==
              std::vector<float>(away.buffers().values().begin(), away.buffers().values().end())));
  BOOST_TEST(std::get<Evaluated>(outcomes[1]).loss != evaluated.loss);
}

BOOST_FIXTURE_TEST_CASE(an_all_reduce_carries_the_buffers_behind_the_gradient, Normed) {
  Normed whole;
  whole.worker->submit(StepJob{0.1F});
  BOOST_REQUIRE(whole.work_all().size() == 1U);
  worker->submit(GradientJob{});
  auto outcomes = work_all();
  auto& ready = std::get<GradientReady>(outcomes.at(0));
  BOOST_REQUIRE(ready.gradient.size() == problem.initial.size() + 16U);
  std::vector<float> mean = ready.gradient;
  worker->submit(ApplyJob{mean, 0.1F});
  BOOST_TEST(std::holds_alternative<StepDone>(work_all().at(0)));
  BOOST_TEST((replica() == whole.replica()));
  BOOST_TEST((buffers() == whole.buffers()));
  worker->submit(GradientJob{});
  work_all();
  for (std::size_t i = problem.initial.size(); i < mean.size(); ++i) mean[i] = 5.0F;
  worker->submit(ApplyJob{mean, 0.1F});
  BOOST_TEST(std::holds_alternative<StepDone>(work_all().at(0)));
  BOOST_TEST((buffers() == std::vector<float>(16, 5.0F)));
  mean.back() = -1.0F;  // of a variance
  worker->submit(ApplyJob{mean, 0.1F});
  BOOST_TEST(std::holds_alternative<Failed>(work_all().at(0)));
}

BOOST_AUTO_TEST_CASE(training_that_diverges_is_a_failure) {
  worker->submit(StepJob{std::numeric_limits<float>::infinity()});
  for (int i = 0; i < 3; ++i) worker->submit(StepJob{0.1F});
  bool failed = false;
  for (const Outcome& outcome : work_all()) {
    if (const auto* failure = std::get_if<Failed>(&outcome)) {
      BOOST_TEST((failure->error.code == base::ErrorCode::diverged));
      failed = true;
    }
  }
  BOOST_TEST(failed);
}

BOOST_AUTO_TEST_CASE(a_data_thread_that_has_stopped_is_a_failure) {
  loader.stop();
  worker->submit(StepJob{0.1F});
  bool failed = false;
  // Batches that were filled before the stop may still be used.
  for (std::size_t i = 0; i <= data::Loader::kPool && !failed; ++i) {
    for (const Outcome& outcome : work()) failed = std::holds_alternative<Failed>(outcome);
    worker->submit(StepJob{0.1F});
  }
  BOOST_TEST(failed);
}

BOOST_AUTO_TEST_SUITE_END()
