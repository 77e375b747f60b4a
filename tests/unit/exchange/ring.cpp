#include "exchange/ring.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "transcript.hpp"

using namespace starling;
using exchange::Ring;
using exchange::test::peer_named;

namespace {

std::vector<base::PeerId> peers_of(std::size_t count) {
  std::vector<base::PeerId> peers;
  for (std::size_t i = 0; i < count; ++i) peers.push_back(peer_named(static_cast<char>('a' + i)));
  return peers;
}

// A ring whose messages and gradients come in random order (a link's messages in theirs).
struct World {
  World(std::size_t count, std::size_t elements_, std::uint64_t seed)
      : elements(elements_), rng(seed), inbox(count), means(count), steps(count, 0) {
    for (const auto& peer : peers_of(count)) {
      rings.emplace_back(peers_of(count), peer, elements, base::StepNumber{1});
    }
  }

  std::vector<float> gradient(std::size_t peer, std::uint64_t step) const {
    base::Rng values(step * 100 + peer);
    std::vector<float> all(elements);
    for (float& value : all) value = static_cast<float>(values.uniform() - 0.5);
    return all;
  }

  void start(std::size_t i) {
    ++steps[i];
    give(i, Ring::GradientReady{{steps[i]}, 32 * steps[i], gradient(i, steps[i])});
  }

  void give(std::size_t i, Ring::Event event) {
    std::vector<Ring::Action> out;
    rings[i].handle(std::move(event), out);
    for (Ring::Action& action : out) {
      if (auto* send = std::get_if<Ring::SendToSuccessor>(&action)) {
        bytes += send->message.payload.size();
        inbox[(i + 1) % rings.size()].push_back(std::move(send->message));
      } else if (auto* done = std::get_if<Ring::Reduced>(&action)) {
        BOOST_TEST(done->step.value == steps[i]);
        means[i].push_back(std::move(done->mean));
      } else {
        BOOST_ERROR(std::get<Ring::Failed>(action).error.text);
      }
    }
  }

  // One thing that can happen does; false when all have `target` means.
  bool advance(std::size_t target) {
    std::vector<std::size_t> can;
    for (std::size_t i = 0; i < rings.size(); ++i) {
      if (!inbox[i].empty()) can.push_back(i);
      if (steps[i] == means[i].size() && steps[i] < target) can.push_back(i + rings.size());
    }
    if (can.empty()) return false;
    const std::size_t what = can[rng.below(can.size())];
    if (what >= rings.size()) {
      start(what - rings.size());
    } else {
      wire::Reduce message = std::move(inbox[what].front());
      inbox[what].pop_front();
      give(what, Ring::Received{std::move(message)});
    }
    return true;
  }

  std::size_t elements;
  base::Rng rng;
  std::vector<Ring> rings;
  std::vector<std::deque<wire::Reduce>> inbox;
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::size_t> steps;
  std::size_t bytes = 0;
};

// What a ring of two says to a message, its gradient being ready or not.
std::string answer(wire::Reduce message, bool ready) {
  Ring ring(peers_of(2), peer_named('a'), 4, {1});
  std::vector<Ring::Action> out;
  if (ready) ring.handle(Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}, out);
  out.clear();
  ring.handle(Ring::Received{std::move(message)}, out);
  for (const Ring::Action& action : out) {
    if (const auto* failed = std::get_if<Ring::Failed>(&action)) return failed->error.text;
  }
  return "taken";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ring)

BOOST_AUTO_TEST_CASE(all_peers_get_the_same_mean_in_any_order_of_events) {
  const std::size_t sizes[] = {1, 2, 5, 7, 1000, 300'000};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      const std::size_t count = 1 + rng.below(6);
      World world(count, sizes[rng.below(6)], seed);
      while (world.advance(3)) {
      }
      for (std::size_t step = 1; step <= 3; ++step) {
        std::vector<double> mean(world.elements, 0.0);
        for (std::size_t i = 0; i < count; ++i) {
          const auto part = world.gradient(i, step);
          for (std::size_t e = 0; e < mean.size(); ++e) {
            mean[e] += static_cast<double>(part[e]) / static_cast<double>(count);
          }
        }
        double error = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
          BOOST_REQUIRE(world.means[i].size() == 3U);
          const auto& got = world.means[i][step - 1];
          BOOST_REQUIRE(got.size() == mean.size());
          BOOST_TEST(std::memcmp(got.data(), world.means[0][step - 1].data(),
                                 got.size() * sizeof(float)) == 0);
          for (std::size_t e = 0; e < mean.size(); ++e) {
            error = std::max(error, std::fabs(static_cast<double>(got[e]) - mean[e]));
          }
        }
        BOOST_TEST(error < 1e-6);
      }
      BOOST_TEST(world.bytes == 3 * 2 * (count - 1) * world.elements * sizeof(float));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_message_that_is_not_due_ends_the_ring) {
  const wire::Reduce good{.step = {1},
                          .phase = wire::ReducePhase::scatter,
                          .hop = 0,
                          .chunk = 1,
                          .bucket = 0,
                          .payload = base::Buffer(8)};
  BOOST_TEST(answer(good, true) == "taken");
  BOOST_TEST(answer(good, false) == "taken");
  const auto refused = [&](auto change, bool ready = true) {
    wire::Reduce message = good;
    change(message);
    return answer(message, ready) != "taken";
  };
  BOOST_TEST(refused([](auto& m) { m.step = {2}; }));
  BOOST_TEST(refused([](auto& m) { m.step = {0}; }));
  BOOST_TEST(refused([](auto& m) { m.phase = wire::ReducePhase::none; }));
  BOOST_TEST(refused([](auto& m) { m.hop = 1; }));
  BOOST_TEST(refused([](auto& m) { m.chunk = 0; }));
  BOOST_TEST(refused([](auto& m) { m.chunk = 7; }));
  BOOST_TEST(refused([](auto& m) { m.bucket = 1; }));
  BOOST_TEST(refused([](auto& m) { m.payload.resize(4); }));
  BOOST_TEST(refused([](auto& m) { m.payload.resize(12); }));
  const auto gather = [](auto& m) {
    m.phase = wire::ReducePhase::gather;
    m.chunk = 0;
  };
  BOOST_TEST(!refused(gather, true));
  BOOST_TEST(refused(gather, false));
}

BOOST_AUTO_TEST_CASE(a_message_that_comes_twice_ends_the_ring_and_nothing_follows) {
  Ring ring(peers_of(2), peer_named('a'), 4, {1});
  const wire::Reduce message{.step = {1},
                             .phase = wire::ReducePhase::scatter,
                             .hop = 0,
                             .chunk = 1,
                             .bucket = 0,
                             .payload = base::Buffer(8)};
  std::vector<Ring::Action> out;
  ring.handle(Ring::Received{message}, out);
  BOOST_TEST(out.empty());
  ring.handle(Ring::Received{message}, out);
  BOOST_REQUIRE(out.size() == 1U);
  BOOST_TEST(std::holds_alternative<Ring::Failed>(out[0]));
  ring.handle(Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}, out);
  BOOST_TEST(out.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_ring_closes_in_order_of_id) {
  const auto peers = peers_of(3);
  const Ring ring({peers[2], peers[0], peers[1]}, peers[2], 4, {1});
  BOOST_TEST((ring.successor() == peers[0]));
  BOOST_TEST((ring.predecessor() == peers[1]));
}

BOOST_AUTO_TEST_SUITE_END()
