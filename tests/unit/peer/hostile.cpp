// Peers that break the protocol once they are neighbours.
#include <chrono>
#include <functional>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "peer/core.hpp"
#include "world.hpp"

using namespace starling;
using namespace starling::peer;
using namespace starling::peer::testing;
using namespace std::chrono_literals;

namespace {

/// Two peers that train for longer than a test looks at them, slowly, and are linked.
void add_pair(World& world) {
  Config config = config_for(world.problem, exchange::Mode::tracked);
  config.target_samples = std::uint64_t{1} << 40;
  config.evaluate_every = 0;
  config.step_interval = 100ms;
  world.add(config);
  world.add(config, {World::address_of(0)});
  BOOST_REQUIRE(world.run_until(20s, [&] { return world.status(0).exchanges > 4; }));
}

/// Peer 1 does `breach` on its link with peer 0, which is told so.
void break_the_protocol(std::uint64_t seed, const std::function<Event(base::LinkId)>& breach) {
  BOOST_TEST_CONTEXT("seed " << seed) {
    World world(seed);
    add_pair(world);
    const std::size_t before = world.network().size();
    const base::LinkId link = world.any_link(0);
    world.give(0, breach(link));
    BOOST_TEST(world.status(0).links.empty());
    BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
    BOOST_REQUIRE(world.peer(0).warnings.size() == 1U);
    BOOST_TEST(world.peer(0).warnings[0].find("broke the protocol") != std::string::npos);
    const auto linked = [&] { return !world.status(0).links.empty(); };
    BOOST_TEST(!world.run_until(membership::kBanTime - 1s, linked));
    // The other end was told, so it does not dial over and over, and holds nobody dead.
    BOOST_TEST(world.network().size() - before <= 1U);
    for (const MemberStatus& member : world.status(1).members) {
      BOOST_TEST((member.record.state == wire::MemberState::alive));
    }
    BOOST_TEST(world.run_until(20s, linked));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_AUTO_TEST_CASE(who_breaks_the_exchange_s_protocol_is_banned) {
  for (const std::uint64_t seed : {1, 2}) {
    break_the_protocol(seed, [](base::LinkId link) {
      return Received{link, wire::Delta{.exchange = {1'000'000}}};
    });
    break_the_protocol(seed, [](base::LinkId link) {
      return Received{link, wire::ReduceReceived{}};  // there is no ring here
    });
  }
}

BOOST_AUTO_TEST_CASE(who_sends_what_cannot_be_read_is_banned) {
  for (const std::uint64_t seed : {1, 2}) {
    break_the_protocol(seed, [](base::LinkId link) {
      return Unreadable{link, "a delta without an end"};
    });
  }
}

BOOST_AUTO_TEST_CASE(who_refuses_a_link_or_says_bye_on_it_loses_it) {
  const wire::Message said[] = {wire::Refuse{.reason = wire::RefuseReason::none, .text = "no"},
                                wire::Bye{.reason = wire::ByeReason::left, .text = ""}};
  for (const wire::Message& message : said) {
    BOOST_TEST_CONTEXT("message " << message.index()) {
      World world(7);
      add_pair(world);
      const base::LinkId link = world.any_link(0);
      world.give(0, Received{link, message});
      BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_finds_no_room_is_left_alone_for_a_minute_and_not_accused) {
  for (const std::uint64_t seed : {5, 6}) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      World world(seed);
      add_pair(world);
      const base::PeerId other = world.peer(1).id;
      const base::LinkId link = world.any_link(0);
      bool failed = false;
      world.tamper = [&](std::size_t index, Outcome& outcome) {
        auto* const exchanged = std::get_if<exchange::Outcome>(&outcome);
        auto* const encoded =
            exchanged == nullptr ? nullptr : std::get_if<exchange::Encoded>(exchanged);
        if (index != 0 || encoded == nullptr || failed) return;
        encoded->status = base::fail(base::ErrorCode::no_room, "a delta needs 1 MB");
        failed = true;
      };
      BOOST_REQUIRE(world.run_until(5s, [&] { return failed; }));
      BOOST_TEST(world.status(0).links.empty());
      BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
      BOOST_REQUIRE(world.peer(0).warnings.size() == 1U);
      BOOST_TEST(world.peer(0).warnings[0].find("no link with " + other.brief()) !=
                 std::string::npos);
      const auto linked = [&] { return !world.status(0).links.empty(); };
      BOOST_TEST(!world.run_until(membership::kNoRoomTime - 1s, linked));
      for (const std::size_t at : {0, 1}) {
        for (const MemberStatus& member : world.status(at).members) {
          BOOST_TEST((member.record.state == wire::MemberState::alive));
        }
      }
      BOOST_TEST(world.run_until(20s, linked));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_before_a_hello_ends_the_link) {
  World world(3);
  world.add(config_for(world.problem, exchange::Mode::tracked));
  base::PeerId id;
  id.bytes.fill(7);
  const base::LinkId link = world.connect_stranger(0, id);
  world.give(0, Unreadable{link, "a hello without an end"});
  BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
  BOOST_TEST(world.status(0).members.size() == 1U);
}

BOOST_AUTO_TEST_CASE(who_has_said_hello_gets_no_run_file) {
  World world(4);
  add_pair(world);
  const base::LinkId link = world.any_link(0);
  world.give(0, Received{link, wire::RunFileRequest{}});
  BOOST_TEST(std::ranges::count(world.peer(0).closed, link) == 1);
  BOOST_REQUIRE(world.peer(0).warnings.size() == 1U);
  BOOST_TEST(world.peer(0).warnings[0].find("asked for a run file") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
