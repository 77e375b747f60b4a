// A replica and its training in a device's memory, against the same in the processor's.
#include "compute/resident.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "checks.hpp"
#include "exchange/replica.hpp"
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

/// Exchanges with both neighbours, committed together, as `options` say.
void exchange_with(Twins& twins, std::span<Neighbour> neighbours, const delta::Options& options,
                   std::uint64_t number, base::Rng& rng) {
  const base::PeerId self = peer(1);
  std::vector<exchange::CommitInput> inputs;
  std::vector<base::Buffer> payloads(2 * neighbours.size());
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    exchange::test::train(neighbours[k].replica, rng, 0.1F);
    base::Buffer& own = payloads[2 * k] = twins.encode(neighbours[k].id, options);
    base::Buffer& their = payloads[2 * k + 1];
    const auto sent = need(neighbours[k].replica.encode(self, options, their));
    neighbours[k].replica.hold_back();
    exchange::CommitInput input{.peer = neighbours[k].id,
                                .exchange = base::ExchangeNumber{number},
                                .own = own,
                                .their = their,
                                .w = 0.25F};
    input.own_push = input.their_push = sent.push;
    inputs.push_back(input);
  }
  twins.both([](Replica& replica) { replica.hold_back(); });
  twins.train(rng, 0.1F);
  twins.both([&](Replica& replica) {
    for (const auto& input : inputs) need(replica.stage(input));
    replica.apply_staged();
  });
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    exchange::CommitInput input = inputs[k];
    std::swap(input.own, input.their);
    input.peer = self;
    need(neighbours[k].replica.commit(input));
  }
}

void exchanges_agree(const std::string& device, const Graph& graph, float lambda,
                     Averaging averaging) {
  constexpr std::uint64_t kSeed = 61;
  base::Rng rng(kSeed);
  Twins twins(device, graph, exchange::test::noises(graph.parameter_count, rng), lambda, averaging);
  std::vector<Neighbour> neighbours;
  for (const std::uint8_t number : {2, 3}) {
    neighbours.push_back({peer(number), Replica(twins.initial(), lambda, {}, averaging)});
    neighbours.back().replica.open_fresh(peer(1));
    twins.both([&](Replica& replica) { replica.open_fresh(peer(number)); });
  }
  twins.train(rng, 0.1F);
  for (std::uint64_t t = 1; t <= 4; ++t) {
    // The last one takes all; what it leaves is the same everywhere but for rounding.
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
  for (const auto mirror : {MirrorType::float32, MirrorType::bfloat16}) {
    BOOST_TEST_CONTEXT("mirrors of " << (mirror == MirrorType::float32 ? 32 : 16) << " bits") {
      exchanges_agree(device, graph, 0.5F, {.mirror = mirror});
      exchanges_agree(device, layers(3, 2), 1.0F, {.mirror = mirror});
      exchanges_agree(device, graph, 0.0F,
                      {.mode = exchange::Mode::choco, .gamma = 0.3F, .mirror = mirror});
      exchanges_agree(device, graph, 0.0F, {.mode = exchange::Mode::push_sum, .mirror = mirror});
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
  base::Buffer theirs;
  need(other.encode_keyframe(theirs));
  twins.train(rng, 0.1F);
  base::Buffer own[2];
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

/// The same steps by trainers that have parameters here and there.
void steps_agree(const std::string& device, const Graph& graph, const train::Config& config,
                 double tolerance) {
  constexpr std::uint64_t kSeed = 64;
  constexpr int kSteps = 8;
  base::Rng rng(kSeed);
  const Samples samples = random_samples(graph, config.batch, rng);
  const State start = random_state(graph, rng);
  State here = start;
  State there = start;
  const auto plain = trainer(device, graph, config);
  const auto moved = trainer(device, graph, config);
  ReplicaMemory* const memory = need(moved->reside(MirrorType::float32));
  BOOST_REQUIRE(memory != nullptr);
  need(memory->write(start.parameters));
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = samples.view(0, step % 2 == 0 ? config.batch : config.batch - 1);
    const auto seed = static_cast<std::uint64_t>(step);
    const float lr = 0.01F / static_cast<float>(1 + step);
    const float loss = need(plain->step(here.parameters, here.buffers, batch, lr, seed));
    // Told what comes next, not told, and told what does not come.
    const Batch next = samples.view(0, step % 2 == 0 ? config.batch - 1 : config.batch);
    const Batch* const told[] = {&next, nullptr, &batch};
    const float there_loss = need(moved->step(there.buffers, batch, told[step % 3], lr, seed));
    check_loss(static_cast<double>(there_loss), static_cast<double>(loss), "loss", tolerance);
  }
  need(memory->read(there.parameters));
  check_close(there.parameters, here.parameters, "parameters", tolerance);
  check_close(there.buffers, here.buffers, "buffers", tolerance);
  const auto states = need(plain->rule().state());
  const auto moved_states = need(moved->rule().state());
  BOOST_REQUIRE_EQUAL(moved_states.size(), states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    BOOST_TEST(moved_states[i].name == states[i].name);
    check_close(moved_states[i].values, states[i].values, states[i].name, tolerance);
  }
  BOOST_TEST(moved->rule().steps() == plain->rule().steps());
  need(moved->hold_still());
  const auto here_is = need(plain->evaluate(here.parameters, here.buffers, samples.view()));
  const auto there_is = need(moved->evaluate(there.buffers, samples.view()));
  check_loss(there_is.loss, here_is.loss, "loss of evaluation", tolerance);
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

void resident_outputs_are_those_of_the_program(const std::string& device, const Case& item) {
  const Graph graph = item.graph();
  base::Rng rng(65);
  const State state = random_state(graph, rng);
  const Samples samples = random_samples(graph, 3, rng);
  const auto plain = compile(device, graph, 3);
  const auto held = compile(device, graph, 3);
  Resident* const resident =
      need(held->reside({.decays = std::vector<bool>(graph.tensors.size())}));
  BOOST_REQUIRE(resident != nullptr);
  need(resident->replica().write(state.parameters));
  need(resident->hold_still());
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
