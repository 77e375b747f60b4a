// A replica and its training in a device's memory, against the same in the processor's.
#include "compute/resident.hpp"

#include <limits>
#include <memory>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "checks.hpp"
#include "exchange/replica.hpp"
#include "exchange/weight.hpp"
#include "harness.hpp"
#include "tests/unit/compute/networks.hpp"
#include "tests/unit/exchange/replica_pair.hpp"
#include "train/trainer.hpp"
#include "twins.hpp"

namespace starling::conformance {

using namespace compute;
using compute::testing::need;
using exchange::Averaging;
using exchange::MirrorOf;
using exchange::Replica;
using exchange::test::peer;

namespace {

/// A neighbour of both: an ordinary replica that moves by itself.
struct Neighbour {
  base::PeerId id;
  Replica replica;
};

/// 0 now and then, and otherwise a power of two around 1.
std::int8_t some_weight(base::Rng& rng) {
  return rng.below(8) == 0 ? wire::kNoWeight : static_cast<std::int8_t>(rng.below(4));
}

/// Exchanges with both neighbours, committed together, as `options` say.
void exchange_with(Twins& twins, std::span<Neighbour> neighbours, const delta::Options& options,
                   std::uint64_t number, base::Rng& rng) {
  const base::PeerId self = peer(1);
  std::vector<exchange::CommitJob> jobs;
  std::vector<base::Bytes> payloads(2 * neighbours.size());
  twins.both([&](Replica& replica) { replica.expect_deltas(neighbours.size()); });
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    exchange::test::train(neighbours[k].replica, rng, 0.1F);
    base::Bytes& own = payloads[2 * k] = twins.encode(neighbours[k].id, options);
    base::Bytes& their = payloads[2 * k + 1];
    need(neighbours[k].replica.encode(self, options, their));
    jobs.push_back({.peer = neighbours[k].id,
                    .exchange = base::ExchangeNumber{number},
                    .own = own,
                    .their = their,
                    .w = 0.25F,
                    .parts = exchange::end_parts(static_cast<std::int8_t>(k), some_weight(rng)),
                    .degree_inverse = 0.5F});
  }
  twins.train(rng, 0.1F);
  twins.both([&](Replica& replica) {
    for (const auto& job : jobs) need(replica.stage(job));
    replica.apply_staged();
  });
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    exchange::CommitJob& job = jobs[k];
    std::swap(job.own, job.their);
    std::swap(job.parts.own, job.parts.their);
    std::swap(job.parts.own_share, job.parts.their_share);
    job.peer = self;
    need(neighbours[k].replica.stage(job));
    neighbours[k].replica.apply_staged();
  }
}

/// With peers 2 and so on.
void exchanges_agree(const std::string& device, const Graph& graph, float lambda,
                     Averaging averaging, std::uint8_t links = 2) {
  constexpr std::uint64_t kSeed = 61;
  base::Rng rng(kSeed);
  Twins twins(device, graph, exchange::test::noises(graph.parameter_count, rng), lambda, averaging);
  std::vector<Neighbour> neighbours;
  for (std::uint8_t number = 2; number < 2 + links; ++number) {
    neighbours.push_back({peer(number), Replica(twins.initial(), lambda, {}, averaging)});
    need(neighbours.back().replica.open_fresh(peer(1)));
    twins.both([&](Replica& replica) { need(replica.open_fresh(peer(number))); });
  }
  twins.train(rng, 0.1F);
  for (std::uint64_t t = 1; t <= 4; ++t) {
    // The last one takes all; its results are the same everywhere except for rounding.
    const delta::Options options{.density = t == 4 ? 1.0 : 0.01 * static_cast<double>(t)};
    BOOST_TEST_CONTEXT("seed " << kSeed << ", exchange " << t) {
      exchange_with(twins, neighbours, options, t, rng);
      twins.check_same({peer(2), peer(3)});
      for (const Neighbour& other : neighbours) {
        twins.both([&](const Replica& replica) {
          BOOST_TEST(replica.mirror_hash(other.id, MirrorOf::mine) ==
                     other.replica.mirror_hash(peer(1), MirrorOf::theirs));
        });
      }
    }
  }
  twins.both([](Replica& replica) { replica.suspend(peer(2)); });
  twins.check_same({peer(2), peer(3)});
  twins.both([](Replica& replica) { replica.close(peer(3)); });
  twins.check_same({peer(2)});
}

}  // namespace

void replica_has_the_same_bits(const std::string& device) {
  const Graph graph = layers(200, 250);
  for (const auto mirror : {delta::MirrorType::float32, delta::MirrorType::bfloat16}) {
    BOOST_TEST_CONTEXT("mirrors of " << (mirror == delta::MirrorType::float32 ? 32 : 16)
                                     << " bits") {
      exchanges_agree(device, graph, 0.5F, {.mirror = mirror});
      exchanges_agree(device, layers(3, 2), 1.0F, {.mirror = mirror});
      // More than one of the CUDA backend's kernels takes.
      exchanges_agree(device, layers(20, 30), 0.5F, {.mirror = mirror}, 11);
      exchanges_agree(device, graph, 0.0F,
                      {.mode = exchange::Mode::choco, .gamma = 0.3F, .mirror = mirror});
      exchanges_agree(device, graph, 0.5F,
                      {.momentum = 0.6F, .momentum_step = 0.5F, .mirror = mirror});
    }
  }
}

void replica_opens_in_every_way(const std::string& device) {
  constexpr std::uint64_t kSeed = 62;
  base::Rng rng(kSeed);
  const Graph graph = layers(20, 30);
  Twins twins(device, graph, exchange::test::noises(graph.parameter_count, rng), 0.5F, {});
  Replica other(twins.initial(), 0.5F);
  exchange::test::train(other, rng, 0.2F);
  base::Bytes theirs;
  need(other.encode_keyframe(theirs));
  twins.train(rng, 0.1F);
  base::Bytes own[2];
  std::size_t at = 0;
  twins.both([&](Replica& replica) { need(replica.encode_keyframe(own[at++])); });
  BOOST_TEST((own[0] == own[1]));
  twins.both([&](Replica& replica) { need(replica.open_merge(peer(2), own[0], theirs)); });
  twins.both([&](Replica& replica) { need(replica.open_gave(peer(3), own[0])); });
  twins.check_same({peer(2), peer(3)});
  twins.both([&](Replica& replica) { need(replica.open_adopted(peer(4), theirs)); });
  twins.check_same({peer(2), peer(3), peer(4)});
}

namespace {

std::unique_ptr<train::Trainer> trainer(const std::string& device, const Graph& graph,
                                        const train::Config& config) {
  const auto backend = need(open(device));
  return std::make_unique<train::Trainer>(need(train::Trainer::create(*backend, graph, config)));
}

/// Trainers with parameters on the host and on the device, and the values that must be equal.
class Trained {
 public:
  Trained(const std::string& device, const Graph& graph, const train::Config& config,
          const State& start, double tolerance)
      : has_same_bits_(device.starts_with(kHostDevice)),
        tolerance_(tolerance),
        here_(start),
        there_(start),
        plain_(trainer(device, graph, config)),
        moved_(trainer(device, graph, config)),
        memory_(need(moved_->move_to_device(delta::MirrorType::float32))) {
    BOOST_REQUIRE(memory_ != nullptr);
    need(memory_->write(start.parameters));
  }

  void step(const Batch& batch, const Batch* next, float lr, std::uint64_t seed) {
    const float here = need(plain_->step(here_.parameters, here_.buffers, batch, lr, seed));
    const float there = need(moved_->step({}, there_.buffers, batch, lr, seed, next));
    check({&there, 1}, {&here, 1}, "loss");
  }
  /// A step that changes neither parameters nor state, since `what` is not finite.
  void fail_step(const Batch& batch, const std::string& what) {
    const State before = here_;
    const auto here = plain_->step(here_.parameters, here_.buffers, batch, 0.1F, 0);
    const auto there = moved_->step({}, there_.buffers, batch, 0.1F, 0);
    for (const auto* const failed : {&here, &there}) {
      BOOST_REQUIRE(!*failed);
      BOOST_TEST((failed->error().code == base::ErrorCode::diverged));
      BOOST_TEST(failed->error().text.starts_with(what), failed->error().text);
    }
    BOOST_TEST(same_bits(here_.parameters, before.parameters));
    check_same();
  }

  void check_same() {
    need(memory_->read(there_.parameters));
    check(there_.parameters, here_.parameters, "parameters");
    check(there_.buffers, here_.buffers, "buffers");
    const auto states = need(plain_->rule().state());
    const auto moved_states = need(moved_->rule().state());
    BOOST_REQUIRE_EQUAL(moved_states.size(), states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      BOOST_TEST(moved_states[i].name == states[i].name);
      check(moved_states[i].values, states[i].values, states[i].name);
    }
    BOOST_TEST(moved_->rule().steps() == plain_->rule().steps());
  }
  void check_evaluation(const Batch& set) {
    need(moved_->snapshot(0, {}));
    const auto here = need(plain_->evaluate(here_.parameters, here_.buffers, set));
    const auto there = need(moved_->evaluate(there_.buffers, set));
    check_loss(there.loss, here.loss, "loss of evaluation", tolerance_);
  }

 private:
  /// A GPU fuses products with sums, which the processor does not.
  void check(std::span<const float> values, std::span<const float> expected,
             const std::string& what) const {
    check_close(values, expected, what, tolerance_);
    if (has_same_bits_) BOOST_TEST(same_bits(values, expected), what);
  }

  const bool has_same_bits_;
  const double tolerance_;
  State here_;
  State there_;
  std::unique_ptr<train::Trainer> plain_;
  std::unique_ptr<train::Trainer> moved_;
  delta::ReplicaMemory* memory_;
};

void steps_agree(const std::string& device, const Graph& graph, const train::Config& config,
                 double tolerance) {
  constexpr std::uint64_t kSeed = 64;
  constexpr int kSteps = 8;
  base::Rng rng(kSeed);
  const Samples samples = random_samples(graph, config.batch, rng);
  Trained trained(device, graph, config, random_state(graph, rng), tolerance);
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = samples.view(0, step % 2 == 0 ? config.batch : config.batch - 1);
    const float lr = 0.01F / static_cast<float>(1 + step);
    // With the right next batch, without one, and with a wrong one.
    const Batch next = samples.view(0, step % 2 == 0 ? config.batch - 1 : config.batch);
    const Batch* const told[] = {&next, nullptr, &batch};
    trained.step(batch, told[step % 3], lr, static_cast<std::uint64_t>(step));
  }
  trained.check_same();
  trained.check_evaluation(samples.view());
}

}  // namespace

void resident_steps_are_those_of_the_host(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  // Steps carry rounding errors along, and adamw divides by small numbers.
  const double tolerance = 20 * item.tolerance;
  train::Config sgd{.weight_decay = 0.01, .clip = 0.5, .batch = 5};
  steps_agree(device, graph, sgd, tolerance);
  sgd.nesterov = true;
  sgd.accumulate = 2;
  steps_agree(device, graph, sgd, tolerance);
  train::Config adamw = train::defaults(train::Optimizer::adamw);
  adamw.weight_decay = 0.1;
  adamw.epsilon = 1e-3;
  adamw.batch = 4;
  steps_agree(device, graph, adamw, tolerance);
}

namespace {

/// Two dense layers with two outputs, whose squared distance to targets is the loss.
Graph regression() {
  auto builder = need(GraphBuilder::start({2}));
  need(builder.linear(2, {.bias = false}));
  need(builder.linear(2, {.bias = false}));
  return need(std::move(builder).finish_mean_squared());
}

void failed_steps_agree(const std::string& device, const train::Config& config) {
  // The input of a weight this small gets a gradient that is larger in proportion.
  const std::vector<float> parameters{1e-37F, 0, 0, 1, 1, 0, 0, 1};
  Samples samples{.samples = {0, 1, 0, 0.5F, 0, -1, 0, 2},
                  .targets = {0.5F, 0.5F, 0, 1, 1, 0, -1, 0},
                  .count = 4};
  const Graph graph = regression();
  Trained trained(device, graph, config, {parameters, {}}, kTolerance);
  const auto step = [&] { trained.step(samples.view(), nullptr, 0.1F, 0); };
  const auto fail = [&](float& value, float with, const char* what) {
    const float kept = std::exchange(value, with);
    trained.fail_step(samples.view(), what);
    value = kept;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLarge = 3e38F;
  step();
  for (float& value : samples.samples) fail(value, kInfinity, "the loss");
  for (float& value : samples.targets) fail(value, kLarge, "the loss");
  for (std::size_t i = 0; i < samples.samples.size(); i += 2) {
    fail(samples.samples[i], kLarge, "the gradient");
  }
  step();
  trained.check_same();
}

}  // namespace

void what_is_not_finite_is_not_applied(const std::string& device) {
  for (const train::Optimizer optimizer : {train::Optimizer::sgd, train::Optimizer::adamw}) {
    for (const std::uint32_t pieces : {1U, 2U, 4U}) {
      train::Config config = train::defaults(optimizer);
      config.batch = 4;
      config.accumulate = pieces;
      config.clip = pieces == 2 ? 0.1 : 0;
      BOOST_TEST_CONTEXT("optimizer " << static_cast<int>(optimizer) << ", " << pieces
                                      << " pieces") {
        failed_steps_agree(device, config);
      }
    }
  }
}

void resident_outputs_are_those_of_the_program(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  base::Rng rng(65);
  const State state = random_state(graph, rng);
  const Samples samples = random_samples(graph, 3, rng);
  const auto plain = compile(device, graph, 3);
  const auto held = compile(device, graph, 3);
  Resident* const resident =
      need(held->move_to_device({.decays = std::vector<bool>(graph.tensors.size())}));
  BOOST_REQUIRE(resident != nullptr);
  need(resident->replica().write(state.parameters));
  need(resident->snapshot());
  for (const std::size_t count : {std::size_t{3}, std::size_t{1}}) {
    const Batch batch = samples.view(0, count);
    const auto values = need(resident->outputs(state.buffers, batch));
    BOOST_TEST(same_bits(values, outputs(*plain, state, batch)));
    const Evaluation expected = evaluate(*plain, state, batch);
    const Evaluation found = need(resident->evaluate(state.buffers, batch));
    BOOST_TEST(found.loss_sum == expected.loss_sum);
    BOOST_TEST(found.correct == expected.correct);
    BOOST_TEST(found.count == expected.count);
  }
}

}  // namespace starling::conformance
