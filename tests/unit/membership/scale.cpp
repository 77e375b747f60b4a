// Larger swarms: joining at once, bytes when nothing happens, faults of several peers.
#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "swarm.hpp"

using namespace std::chrono_literals;
using namespace starling;
using membership::testing::address_of;
using membership::testing::Swarm;
using membership::testing::Traffic;
using wire::MemberState;

namespace {

// All know peer 0 alone, and start within a second.
void storm(Swarm& swarm, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(count);
    swarm.add(i == 0 ? std::vector<std::string>{} : std::vector{address_of(0)},
              base::from_seconds(at));
  }
}

bool settled(Swarm& swarm, std::size_t count) {
  return swarm.up(count - 1) && swarm.degrees_at_least(4) && swarm.connected() &&
         swarm.tables_agree();
}

// Runs until all is settled, looked at each second.
bool settles(Swarm& swarm, std::size_t count, double seconds) {
  for (int i = 0; i < seconds && !settled(swarm, count); ++i) swarm.run_for(1s);
  return settled(swarm, count);
}

// None of the peers from `first` on ever took another of them for dead.
void require_no_false_death(Swarm& swarm, std::size_t first) {
  for (std::size_t i = first; i < swarm.size(); ++i) {
    BOOST_TEST(swarm.verdicts(i, first) == 0U, "peer " << i);
  }
}

// Prints what it took, a line a virtual second.
void require_storm_settles(std::size_t count, int seconds) {
  Swarm swarm(1, {.counts_bytes = true});
  storm(swarm, count);
  std::vector<std::size_t> before(count);
  std::size_t most = 0;  // links that a peer, the first left out, got in a second
  int took = 0;
  while (took < seconds && !settled(swarm, count)) {
    swarm.run_for(1s);
    ++took;
    std::size_t full = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) most = std::max(most, swarm.readies(i) - before[i]);
      before[i] = swarm.readies(i);
      if (swarm.up(i) && swarm.core(i).table().alive_count() == count) ++full;
    }
    BOOST_TEST_MESSAGE("after " << took << " s " << full << " of " << count
                                << " know all; links at the first: " << swarm.readies(0)
                                << ", most at another in a second: " << most);
  }
  BOOST_TEST(settled(swarm, count));
  BOOST_TEST(swarm.readies(0) < count + count / 8);
  BOOST_TEST(most < 64U);
  std::uint64_t sent = 0;
  for (std::size_t i = 0; i < count; ++i) {
    BOOST_TEST(swarm.degree(i) <= 5U);
    sent += swarm.sent(i).membership;
  }
  BOOST_TEST(swarm.sent(0).membership < 6 * sent / count);
  swarm.kill(0);
  BOOST_TEST(settles(swarm, count, 30));
  require_no_false_death(swarm, 1);
}

// Bytes that one peer sends are received by another: both directions have the same mean.
void require_quiet_is_cheap(std::size_t count) {
  Swarm swarm(2, {.counts_bytes = true});
  storm(swarm, count);
  BOOST_TEST(settles(swarm, count, 41));
  const auto train = [&](int seconds) {
    for (int tick = 0; tick < 4 * seconds; ++tick) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto* own = swarm.core(i).progress().find(swarm.id(i).prefix());
        const std::uint64_t made = own == nullptr ? 0 : own->samples;
        swarm.core(i).set_own_progress({.samples = made + 50}, true, swarm.now());
      }
      swarm.run_for(250ms);
    }
  };
  train(10);
  const base::Duration stale = swarm.core(0).progress().horizon();
  const int round = static_cast<int>(base::seconds(stale)) + 1;
  train(round);
  std::vector<Traffic> before;
  for (std::size_t i = 0; i < count; ++i) before.push_back(swarm.sent(i));
  const int seconds = 2 * round + 30;
  train(seconds);
  std::uint64_t progress = 0;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Traffic& sent = swarm.sent(i);
    most = std::max(most, (sent.membership - before[i].membership) / seconds);
    progress += sent.progress - before[i].progress;
  }
  BOOST_TEST_MESSAGE(count << " peers, bytes a second: membership " << most << " at most, progress "
                           << progress / seconds / count << "; no counter is older than "
                           << base::seconds(stale) << " s");
  BOOST_TEST(most < 1000U);
  BOOST_TEST(progress / seconds / count < 1000U);
  const double sum = 200.0 * (10 + round + seconds) * static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const membership::ProgressTable& table = swarm.core(i).progress();
    for (std::size_t j = 0; j < count; ++j) {
      const auto age = table.age(swarm.id(j).prefix(), swarm.now());
      if (!age || *age > stale) BOOST_ERROR("peer " << j << " at " << i << " is not known or old");
    }
    const double total = static_cast<double>(table.total(swarm.now()));
    BOOST_TEST(total == sum, boost::test_tools::tolerance(0.01));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scale)

BOOST_AUTO_TEST_CASE(a_storm_of_joiners_finds_its_places_and_overruns_nobody) {
  require_storm_settles(300, 41);
}

// Minutes, and 2 GB: test_membership --run_test=+scale/a_storm_of_2000* --log_level=message
BOOST_AUTO_TEST_CASE(a_storm_of_2000_joiners_is_settled_within_41_s,
                     *boost::unit_test::disabled()) {
  require_storm_settles(2000, 41);
}

BOOST_AUTO_TEST_CASE(
    a_quiet_swarm_that_trains_costs_a_kilobyte_a_second_each_and_its_counters_are_fresh) {
  require_quiet_is_cheap(128);
}

// Minutes: test_membership --run_test=+scale/a_quiet_swarm_of_1000* --log_level=message
BOOST_AUTO_TEST_CASE(a_quiet_swarm_of_1000_is_as_cheap, *boost::unit_test::disabled()) {
  require_quiet_is_cheap(1000);
}

BOOST_AUTO_TEST_CASE(one_changed_record_of_a_thousand_costs_little) {
  Swarm swarm(3, {.counts_bytes = true});
  storm(swarm, 2);
  swarm.run_for(3s);
  base::Rng rng(4);
  const auto stranger = [&] {
    wire::MemberRecord record{.name = "s", .addresses = {"s:1"}, .incarnation = 1};
    for (auto& byte : record.id.bytes) byte = static_cast<std::uint8_t>(rng.below(256));
    record.state = MemberState::left;  // nobody dials it
    membership::SimulatedSigner signer(record.id);
    membership::sign(record, signer);
    return record;
  };
  const auto same = [&] { return swarm.core(0).table().hash() == swarm.core(1).table().hash(); };
  for (int i = 0; i < 1000; ++i) swarm.forge(0, 1, wire::Gossip{{stranger()}, {}});
  BOOST_TEST(!same());
  BOOST_TEST(swarm.run_until(30s, same));
  BOOST_TEST(swarm.core(0).members().size() == 1002U);
  swarm.run_for(10s);

  const auto sent = [&] { return swarm.sent(0).membership + swarm.sent(1).membership; };
  const std::uint64_t quiet = sent();
  swarm.run_for(10s);
  const std::uint64_t beats = sent() - quiet;
  const std::uint64_t before = sent();
  swarm.forge(0, 1, wire::Gossip{{stranger()}, {}});
  BOOST_TEST(!same());
  swarm.run_for(10s);
  BOOST_TEST(same());
  BOOST_TEST(sent() - before < beats + 2500);
}

BOOST_AUTO_TEST_CASE(crashes_are_found_everywhere_within_seconds_and_nobody_else_dies) {
  constexpr std::size_t kCount = 64;
  for (const bool silent : {false, true}) {
    BOOST_TEST_CONTEXT("silent " << silent) {
      Swarm swarm(5, {});
      storm(swarm, kCount);
      BOOST_TEST(settles(swarm, kCount, 41));
      swarm.run_for(5s);
      constexpr std::size_t kCrashed = 6;
      for (std::size_t i = 0; i < kCrashed; ++i) swarm.kill(i, silent);
      const auto found = [&] {
        for (std::size_t i = kCrashed; i < kCount; ++i) {
          for (std::size_t j = 0; j < kCrashed; ++j) {
            if (swarm.state(j, i) != MemberState::dead) return false;
          }
        }
        return true;
      };
      BOOST_TEST(swarm.run_until(silent ? 11s : 6s, found));
      const wire::DeathReason reason = swarm.core(kCount - 1).death_reason_of(swarm.id(0));
      BOOST_TEST((reason == wire::DeathReason::silent || reason == wire::DeathReason::reset ||
                  reason == wire::DeathReason::refused));
      BOOST_TEST(settles(swarm, kCount, 20));
      require_no_false_death(swarm, kCrashed);
    }
  }
}

BOOST_AUTO_TEST_CASE(stopped_processes_kill_no_healthy_one_and_return) {
  constexpr std::size_t kCount = 32;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      storm(swarm, kCount);
      BOOST_TEST(settles(swarm, kCount, 41));
      swarm.run_for(5s);
      const std::size_t stopped = seed;
      for (std::size_t i = 0; i < stopped; ++i) swarm.pause(i);
      swarm.run_for(static_cast<int>(4 * seed) * 1s);
      for (std::size_t i = 0; i < stopped; ++i) swarm.resume(i);
      BOOST_TEST(settles(swarm, kCount, 10));
      require_no_false_death(swarm, stopped);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_on_a_bad_line_does_not_come_and_go_and_others_stay) {
  constexpr std::size_t kCount = 64;
  Swarm swarm(6, {});
  storm(swarm, kCount);
  BOOST_TEST(settles(swarm, kCount, 41));
  swarm.lossy({0}, 0.8, 200ms);
  swarm.run_for(600s);
  BOOST_TEST(swarm.verdicts(0) <= 10U);
  require_no_false_death(swarm, 1);
}

BOOST_AUTO_TEST_CASE(peers_heard_by_nobody_every_other_20_s_are_out_and_others_stay) {
  constexpr std::size_t kCount = 32;
  Swarm swarm(7, {});
  storm(swarm, kCount);
  BOOST_TEST(settles(swarm, kCount, 41));
  for (int turn = 0; turn < 15; ++turn) {
    swarm.mute({0});
    swarm.run_for(20s);
    swarm.heal();
    swarm.run_for(20s);
  }
  BOOST_TEST(swarm.verdicts(0) >= 1U);
  BOOST_TEST(swarm.verdicts(0) <= 10U);
  require_no_false_death(swarm, 1);
  // Also what was held back is believed at last, on either side.
  BOOST_TEST(settles(swarm, kCount, base::seconds(membership::kHoldMax) + 30));
}

BOOST_AUTO_TEST_SUITE_END()
