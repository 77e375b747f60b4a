#include "ring/ring.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling;
using ring::Ring;

namespace {

base::PeerId peer_named(char name) { return {{static_cast<std::uint8_t>(name)}}; }

std::vector<base::PeerId> peers_of(std::size_t count) {
  std::vector<base::PeerId> peers;
  for (std::size_t i = 0; i < count; ++i) peers.push_back(peer_named(static_cast<char>('a' + i)));
  return peers;
}

// A ring whose messages and gradients come in random order (a link's messages in theirs), and whose
// links may be replaced, with what is on them: neither end knows when the other one notices.
struct World {
  // From a peer to its successor, as each end knows it.
  struct Link {
    int of_sender = 0;
    int of_receiver = 0;
    std::deque<wire::Reduce> messages;
    std::deque<Ring::Position> words;  // back to the sender
  };

  // A ring of one has no link.
  World(std::size_t count, std::size_t elements_, std::uint64_t seed, std::uint64_t replaced_)
      : elements(elements_),
        replaced(replaced_),
        rng(seed),
        links(count > 1 ? count : 0),
        means(count),
        steps(count, 0) {
    for (const auto& peer : peers_of(count)) {
      rings.emplace_back(peers_of(count), peer, elements, base::StepNumber{1});
    }
    for (std::size_t i = 0; i < links.size(); ++i) begin_at_receiver(i);
    for (std::size_t i = 0; i < links.size(); ++i) begin_at_sender(i);
  }

  Ring& receiver_of(std::size_t link) { return rings[(link + 1) % rings.size()]; }

  // Messages in flight on the old link are lost, either way.
  void begin_at_receiver(std::size_t link) {
    ++links[link].of_receiver;
    links[link].messages.clear();
    links[link].words = {receiver_of(link).received()};
  }

  void begin_at_sender(std::size_t link) {
    ++links[link].of_sender;
    give(link, Ring::SuccessorLost{});
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
    const std::size_t before = (i + rings.size() - 1) % rings.size();
    for (Ring::Action& action : out) {
      if (auto* send = std::get_if<Ring::SendToSuccessor>(&action)) {
        bytes += send->message.payload.size();
        Link& to = links[i];
        if (to.of_sender == to.of_receiver) to.messages.push_back(std::move(send->message));
      } else if (auto* tell = std::get_if<Ring::TellPredecessor>(&action)) {
        links[before].words.push_back(tell->position);
      } else if (auto* done = std::get_if<Ring::Reduced>(&action)) {
        BOOST_TEST(done->step.value == steps[i]);
        means[i].push_back(std::move(done->mean));
      } else {
        BOOST_ERROR(std::get<Ring::Failed>(action).error.text);
      }
    }
  }

  void deliver(std::size_t link) {
    wire::Reduce message = std::move(links[link].messages.front());
    links[link].messages.pop_front();
    give((link + 1) % rings.size(), Ring::Received{std::move(message)});
  }

  void tell(std::size_t link) {
    const Ring::Position position = links[link].words.front();
    links[link].words.pop_front();
    give(link, Ring::SuccessorHas{position});
  }

  // One thing that can happen does; false when all have `target` means and know that of others.
  bool advance(std::size_t target) {
    std::vector<std::function<void()>> can;
    for (std::size_t i = 0; i < rings.size(); ++i) {
      if (steps[i] == means[i].size() && steps[i] < target) can.emplace_back([&, i] { start(i); });
    }
    for (std::size_t i = 0; i < links.size(); ++i) {
      const Link& link = links[i];
      const bool same = link.of_sender == link.of_receiver;
      if (!link.messages.empty()) can.emplace_back([&, i] { deliver(i); });
      if (link.of_receiver < link.of_sender) can.emplace_back([&, i] { begin_at_receiver(i); });
      if (link.of_sender < link.of_receiver) can.emplace_back([&, i] { begin_at_sender(i); });
      if (same && !link.words.empty()) can.emplace_back([&, i] { tell(i); });
    }
    if (can.empty()) return false;
    if (replaced > 0 && rng.below(20) == 0) {
      --replaced;
      const std::size_t link = rng.below(rings.size());
      if (links[link].of_sender != links[link].of_receiver) return true;
      rng.below(2) == 0 ? begin_at_sender(link) : begin_at_receiver(link);
      return true;
    }
    can[rng.below(can.size())]();
    return true;
  }

  std::size_t elements;
  std::uint64_t replaced;
  base::Rng rng;
  std::vector<Ring> rings;
  std::vector<Link> links;
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::size_t> steps;
  std::size_t bytes = 0;
};

void check_means(const World& world, std::size_t all) {
  const std::size_t count = world.rings.size();
  for (std::size_t step = 1; step <= all; ++step) {
    std::vector<double> mean(world.elements, 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      const auto part = world.gradient(i, step);
      for (std::size_t e = 0; e < mean.size(); ++e) {
        mean[e] += static_cast<double>(part[e]) / static_cast<double>(count);
      }
    }
    double error = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      BOOST_REQUIRE(world.means[i].size() == all);
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
}

// One of two peers, whose successor has said that it has nothing yet.
Ring open_ring() {
  Ring ring(peers_of(2), peer_named('a'), 4, {1});
  std::vector<Ring::Action> out;
  ring.handle(Ring::SuccessorHas{{{1}, 0}}, out);
  BOOST_TEST(out.empty());
  return ring;
}

// A ring's answer to an event.
std::string answer(Ring& ring, Ring::Event event) {
  std::vector<Ring::Action> out;
  ring.handle(std::move(event), out);
  for (const Ring::Action& action : out) {
    if (const auto* failed = std::get_if<Ring::Failed>(&action)) return failed->error.text;
  }
  return "taken";
}

const wire::Reduce kFirst{.step = {1},
                          .phase = wire::ReducePhase::scatter,
                          .hop = 0,
                          .chunk = 1,
                          .bucket = 0,
                          .payload = base::Bytes(8)};
const wire::Reduce kSecond{.step = {1},
                           .phase = wire::ReducePhase::gather,
                           .hop = 0,
                           .chunk = 0,
                           .bucket = 0,
                           .payload = base::Bytes(8)};

}  // namespace

BOOST_AUTO_TEST_SUITE(ring)

BOOST_AUTO_TEST_CASE(all_peers_get_the_same_mean_in_any_order_of_events) {
  const std::size_t sizes[] = {1, 2, 5, 7, 1000, 300'000};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      const std::size_t count = 1 + rng.below(6);
      World world(count, sizes[rng.below(6)], seed, 0);
      while (world.advance(3)) {
      }
      check_means(world, 3);
      BOOST_TEST(world.bytes == 3 * 2 * (count - 1) * world.elements * sizeof(float));
      for (const Ring& one : world.rings) BOOST_TEST(one.successor_has_all());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_replaced_link_has_lost_is_sent_on_the_next_one) {
  const std::size_t sizes[] = {1, 2, 5, 7, 1000, 300'000};
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      const std::size_t count = 2 + rng.below(5);
      World world(count, sizes[rng.below(seed < 20 ? 6 : 5)], seed, 10 + rng.below(50));
      while (world.advance(5)) {
      }
      check_means(world, 5);
      for (const Ring& one : world.rings) BOOST_TEST(one.successor_has_all());
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_before_the_successor_says_what_it_has) {
  Ring ring(peers_of(2), peer_named('a'), 4, {1});
  std::vector<Ring::Action> out;
  ring.handle(Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}, out);
  BOOST_TEST(out.empty());
  ring.handle(Ring::SuccessorHas{{{1}, 0}}, out);
  BOOST_REQUIRE(out.size() == 1U);
  ring.handle(Ring::SuccessorLost{}, out);
  ring.handle(Ring::Received{kFirst}, out);
  BOOST_TEST(out.size() == 1U);
  ring.handle(Ring::SuccessorHas{{{1}, 0}}, out);
  BOOST_REQUIRE(out.size() == 3U);
  const auto& again = std::get<Ring::SendToSuccessor>(out[1]).message;
  BOOST_TEST((again.payload == std::get<Ring::SendToSuccessor>(out[0]).message.payload));
}

BOOST_AUTO_TEST_CASE(a_message_that_is_not_due_ends_the_ring) {
  const auto refused = [&](wire::Reduce message, auto change, bool ready = true) {
    Ring ring = open_ring();
    if (ready) BOOST_TEST(answer(ring, Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}) == "taken");
    if (message.phase == wire::ReducePhase::gather) {
      BOOST_TEST(answer(ring, Ring::Received{kFirst}) == "taken");
    }
    change(message);
    return answer(ring, Ring::Received{std::move(message)}) != "taken";
  };
  const auto as_it_is = [](auto&) {};
  BOOST_TEST(!refused(kFirst, as_it_is));
  BOOST_TEST(!refused(kFirst, as_it_is, false));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.step = {2}; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.step = {0}; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.phase = wire::ReducePhase::none; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.hop = 1; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.chunk = 0; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.chunk = 7; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.bucket = 1; }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.payload.resize(4); }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m.payload.resize(12); }));
  BOOST_TEST(refused(kFirst, [](auto& m) { m = kSecond; }));
  BOOST_TEST(!refused(kSecond, as_it_is));
  BOOST_TEST(refused(kSecond, as_it_is, false));
  BOOST_TEST(refused(kSecond, [](auto& m) { m = kFirst; }));
}

// Without this peer's part there is no mean.
BOOST_AUTO_TEST_CASE(a_mean_of_what_was_not_sent_ends_the_ring) {
  Ring ring(peers_of(2), peer_named('a'), 4, {1});
  BOOST_TEST(answer(ring, Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}) == "taken");
  BOOST_TEST(answer(ring, Ring::Received{kFirst}) == "taken");
  BOOST_TEST(answer(ring, Ring::Received{kSecond}).find("no part in") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_successor_that_says_what_can_not_be_ends_the_ring) {
  // After both messages of step 1, all of it is sent: one piece of the own chunk, then a mean.
  const auto refused = [](std::vector<Ring::Position> words, bool lost) {
    Ring ring = open_ring();
    for (int step = 1; step <= 2; ++step) {
      const base::StepNumber number{static_cast<std::uint64_t>(step)};
      (void)answer(ring, Ring::GradientReady{number, 32, {1, 2, 3, 4}});
      if (step == 2) break;
      (void)answer(ring, Ring::Received{kFirst});
      (void)answer(ring, Ring::Received{kSecond});
    }
    if (lost) (void)answer(ring, Ring::SuccessorLost{});
    std::string said = "taken";
    for (const Ring::Position& word : words) said = answer(ring, Ring::SuccessorHas{word});
    return said != "taken";
  };
  for (const bool lost : {false, true}) {
    BOOST_TEST(!refused({{{2}, 0}}, lost));
    BOOST_TEST(!refused({{{2}, 1}}, lost));
    BOOST_TEST(!refused({{{1}, 1}}, lost));  // the mean of step 1 is on its way, or lost
    BOOST_TEST(refused({{{1}, 3}}, lost));
    BOOST_TEST(refused({{{0}, 1}}, lost));
    BOOST_TEST(refused({{{2}, 2}}, lost));
    BOOST_TEST(refused({{{3}, 0}}, lost));
    BOOST_TEST(refused({{{~std::uint64_t{0}}, 0}}, lost));
    BOOST_TEST(refused({{{2}, ~std::uint64_t{0}}}, lost));
    BOOST_TEST(refused({{{2}, 0}, {{1}, 1}}, lost));  // it had more
  }
  // On an open link it may have been said before; on a new one the sum is gone: it is in the mean.
  BOOST_TEST(!refused({{{1}, 0}}, false));
  BOOST_TEST(refused({{{1}, 0}}, true));
}

BOOST_AUTO_TEST_CASE(a_message_that_comes_twice_ends_the_ring_and_nothing_follows) {
  Ring ring = open_ring();
  std::vector<Ring::Action> out;
  ring.handle(Ring::Received{kFirst}, out);
  BOOST_TEST(out.empty());
  ring.handle(Ring::Received{kFirst}, out);
  BOOST_REQUIRE(out.size() == 1U);
  BOOST_TEST(std::holds_alternative<Ring::Failed>(out[0]));
  ring.handle(Ring::GradientReady{{1}, 32, {1, 2, 3, 4}}, out);
  ring.handle(Ring::SuccessorHas{{{1}, 0}}, out);
  BOOST_TEST(out.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_ring_closes_in_order_of_id) {
  const auto peers = peers_of(3);
  const Ring ring({peers[2], peers[0], peers[1]}, peers[2], 4, {1});
  BOOST_TEST((ring.successor() == peers[0]));
  BOOST_TEST((ring.predecessor() == peers[1]));
}

BOOST_AUTO_TEST_SUITE_END()
