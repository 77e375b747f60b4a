#include "embed/worker.hpp"

#include <cfenv>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "exchange/config.hpp"

using namespace starling;

namespace {

constexpr std::uint32_t kSamples = 40;
constexpr std::uint32_t kBatch = 8;

struct WorkerFixture {
  embed::Worker make(Evaluate evaluate = {}, base::StepNumber first = {}) {
    const std::vector<float> initial{1, 2, 3};
    return {port,
            exchange::make_replica(initial, {}, {}),
            data::SampleOrder(shards, 5),
            kBatch,
            std::move(evaluate),
            [this](const peer::Snapshot& snapshot) {
              saved.assign(snapshot.parameters.begin(), snapshot.parameters.end());
              saved_rule = snapshot.rule;
              saved_samples = snapshot.samples;
              return base::Status{};
            },
            first,
            100};
  }
  template <class T>
  T outcome() {
    auto next = port.take();
    BOOST_REQUIRE(next.has_value());
    BOOST_REQUIRE(std::holds_alternative<T>(*next));
    return std::get<T>(std::move(*next));
  }

  io::TrainerPort port{[] {}};
  data::Shards shards{kSamples, {}, {}, 1};
  std::vector<float> saved;
  train::UpdateRule* saved_rule = nullptr;
  std::uint64_t saved_samples = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(embed_worker, WorkerFixture)

BOOST_AUTO_TEST_CASE(a_step_has_its_number_rate_and_samples) {
  embed::Worker worker = make({}, base::StepNumber{41});
  port.submit(peer::StepJob{0.25F});
  const auto step = worker.next_step();
  BOOST_REQUIRE(step.has_value());
  BOOST_TEST(step->number == 42U);
  BOOST_TEST(step->learning_rate == 0.25F);
  BOOST_TEST(step->samples.size() == kBatch);
  for (const std::uint32_t index : step->samples) BOOST_TEST(index < kSamples);
  BOOST_TEST(worker.stepping());
  worker.step_done(0.5F);
  BOOST_TEST(!worker.stepping());
  const auto done = outcome<peer::StepDone>();
  BOOST_TEST(done.step.value == 42U);
  BOOST_TEST(done.samples == kBatch);
  BOOST_TEST(done.loss == 0.5F);
  BOOST_TEST((done.took > base::Duration{}));
}

BOOST_AUTO_TEST_CASE(shards_and_batches_hold_from_the_next_step_on) {
  embed::Worker worker = make();
  constexpr std::uint32_t kShard = 3;
  port.submit(peer::ShardsJob{.owned = {kShard}, .batch = 2});
  port.submit(peer::StepJob{});
  const auto step = worker.next_step();
  BOOST_REQUIRE(step.has_value());
  BOOST_TEST(step->samples.size() == 2U);
  for (const std::uint32_t index : step->samples) {
    BOOST_TEST(std::ranges::count(shards.samples(kShard), index) == 1);
  }
}

BOOST_AUTO_TEST_CASE(exchanges_come_before_a_step_that_was_asked_for_earlier) {
  embed::Worker worker = make();
  const base::PeerId other{};
  port.submit(peer::StepJob{});
  port.submit(exchange::Job(exchange::OpenJob{.peer = other, .tag = 7}));
  BOOST_TEST(worker.next_step().has_value());
  const auto opened = std::get<exchange::Opened>(outcome<exchange::Outcome>());
  BOOST_TEST(opened.tag == 7U);
  BOOST_TEST(opened.status.has_value());
}

BOOST_AUTO_TEST_CASE(mirrors_are_those_of_other_peers_however_the_program_rounds) {
  const auto x_and_mirror = [&](int rounding) {
    embed::Worker worker = make();
    const base::PeerId other{};
    const auto run = [&](exchange::Job job) {
      port.submit(std::move(job));
      port.submit(peer::StepJob{});
      BOOST_REQUIRE(std::fesetround(rounding) == 0);
      const bool has_step = worker.next_step().has_value();
      BOOST_TEST(std::fegetround() == rounding);
      BOOST_REQUIRE(std::fesetround(FE_TONEAREST) == 0);
      BOOST_REQUIRE(has_step);
      auto made = outcome<exchange::Outcome>();
      for (float& y : worker.replica().trained()) y += 0.1F * y;
      worker.step_done(1);
      (void)outcome<peer::StepDone>();
      return made;
    };
    (void)run(exchange::OpenJob{.peer = other});
    base::Bytes their;
    for (const std::uint64_t t : {1, 2, 3}) {
      const base::ExchangeNumber number{t};
      auto encoded = std::get<exchange::Encoded>(
          run(exchange::EncodeJob{.peer = other, .exchange = number, .options = {.density = 1}}));
      BOOST_REQUIRE(encoded.status.has_value());
      if (t == 1) their = encoded.payload;
      const auto committed = std::get<exchange::Committed>(run(exchange::CommitJob{
          .peer = other, .exchange = number, .own = encoded.payload, .their = their, .w = 0.3F}));
      BOOST_TEST((committed.result == exchange::CommitResult::applied));
    }
    std::vector<float> x(worker.replica().size());
    worker.replica().read(x);
    return std::pair(x, worker.replica().mirror_hash(other, exchange::MirrorOf::mine));
  };
  const auto usual = x_and_mirror(FE_TONEAREST);
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    BOOST_TEST((x_and_mirror(rounding) == usual));
  }
}

BOOST_AUTO_TEST_CASE(what_is_saved_is_the_replica_and_no_optimizer) {
  embed::Worker worker = make({}, base::StepNumber{3});
  port.submit(peer::StepJob{});
  port.submit(peer::SaveJob{});
  port.submit(peer::StepJob{});
  BOOST_TEST(worker.next_step().has_value());
  worker.step_done(1);
  (void)outcome<peer::StepDone>();
  BOOST_TEST(worker.next_step().has_value());
  BOOST_TEST((saved == std::vector<float>{1, 2, 3}));
  BOOST_TEST(saved_samples == 100U + kBatch);
  BOOST_TEST(saved_rule == nullptr);
  BOOST_TEST(outcome<peer::Saved>().step.value == 4U);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_not_saved) {
  embed::Worker worker = make();
  port.submit(peer::StepJob{});
  BOOST_TEST(worker.next_step().has_value());
  worker.replica().trained()[1] = std::numeric_limits<float>::quiet_NaN();
  worker.step_done(1);
  (void)outcome<peer::StepDone>();
  port.submit(peer::SaveJob{});
  port.submit(peer::StepJob{});
  BOOST_TEST(worker.next_step().has_value());
  const auto status = outcome<peer::Saved>().status;
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST((status.error().code == base::ErrorCode::diverged));
  BOOST_TEST(saved.empty());
}

BOOST_AUTO_TEST_CASE(an_evaluation_asks_the_program) {
  std::uint32_t asked = 1;
  embed::Worker worker =
      make([&](std::span<const float> parameters, std::span<const float>, std::uint32_t samples) {
        asked = samples;
        return Evaluation{.accuracy = 0.5, .loss = static_cast<double>(parameters[2])};
      });
  for (const std::uint32_t samples : {200U, 0U}) {
    port.submit(peer::EvaluateJob{samples});
    port.submit(peer::StepJob{});
    BOOST_TEST(worker.next_step().has_value());
    worker.step_done(0);
    const auto evaluated = outcome<peer::Evaluated>();
    BOOST_TEST(asked == samples);
    BOOST_TEST(evaluated.whole == (samples == 0));
    BOOST_TEST(evaluated.accuracy == 0.5);
    BOOST_TEST(evaluated.loss == 3.0);
    (void)outcome<peer::StepDone>();
  }
}

BOOST_AUTO_TEST_CASE(without_an_evaluation_the_peer_hears_that_there_is_none) {
  embed::Worker worker = make();
  port.submit(peer::EvaluateJob{});
  port.submit(peer::StepJob{});
  BOOST_TEST(worker.next_step().has_value());
  (void)outcome<peer::NotEvaluated>();
}

BOOST_AUTO_TEST_CASE(what_an_evaluation_throws_reaches_the_program_and_the_peer_goes_on) {
  embed::Worker worker =
      make([](std::span<const float>, std::span<const float>, std::uint32_t) -> Evaluation {
        throw std::runtime_error("no test set");
      });
  port.submit(peer::EvaluateJob{});
  port.submit(peer::StepJob{});
  BOOST_CHECK_THROW((void)worker.next_step(), std::runtime_error);
  (void)outcome<peer::NotEvaluated>();
  BOOST_TEST(worker.next_step().has_value());
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_ends_the_peer) {
  embed::Worker worker = make();
  port.submit(peer::StepJob{});
  BOOST_TEST(worker.next_step().has_value());
  port.submit(peer::StepJob{});
  worker.step_done(std::numeric_limits<float>::quiet_NaN());
  BOOST_TEST((outcome<peer::Failed>().error.code == base::ErrorCode::diverged));
  port.close();
  BOOST_TEST(!worker.next_step().has_value());
}

BOOST_AUTO_TEST_CASE(nothing_runs_once_the_port_is_closed) {
  embed::Worker worker = make();
  port.submit(peer::SaveJob{});
  port.close();
  BOOST_TEST(!worker.next_step().has_value());
  BOOST_TEST(saved.empty());
}

BOOST_AUTO_TEST_SUITE_END()
