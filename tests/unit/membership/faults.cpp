// Deaths, pauses, cuts and lies.
#include <limits>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "swarm.hpp"

using namespace std::chrono_literals;
using namespace starling;
using membership::testing::address_of;
using membership::testing::Swarm;
using wire::MemberState;

namespace {

// Peers 1.. know peer 0 alone; returns when all is settled.
void make(Swarm& swarm, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    swarm.add(i == 0 ? std::vector<std::string>{} : std::vector{address_of(0)},
              static_cast<int>(i) * 7ms);
  }
  const std::size_t least = std::min<std::size_t>(4, count - 1);
  BOOST_REQUIRE(swarm.run_until(40s, [&] {
    return swarm.up(count - 1) && swarm.degrees_at_least(least) && swarm.connected() &&
           swarm.tables_agree();
  }));
  swarm.run_for(3s);
}

void require_bounds(Swarm& swarm, std::size_t peer) {
  base::Bounds bounds;
  swarm.core(peer).add_bounds(bounds);
  swarm.core(peer).add_timers(swarm.now(), bounds);
  BOOST_TEST((bounds.broken() ? bounds.broken()->what : "") == "");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(faults)

BOOST_AUTO_TEST_CASE(the_first_peer_can_die_and_others_still_meet) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      make(swarm, 4);
      swarm.kill(0);
      swarm.add({address_of(0), address_of(2)});
      BOOST_TEST(swarm.run_until(10s, [&] { return swarm.up(4) && swarm.complete(); }));
      BOOST_TEST(swarm.run_until(10s, [&] { return swarm.tables_agree(); }));
      BOOST_TEST((swarm.state(0, 4) == MemberState::dead));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_dead_neighbour_is_replaced) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const bool silent : {false, true}) {
      BOOST_TEST_CONTEXT("seed " << seed << " silent " << silent) {
        Swarm swarm(seed, {});
        make(swarm, 16);
        swarm.kill(seed % 16, silent);
        BOOST_TEST(swarm.run_until(30s, [&] {
          return swarm.degrees_at_least(4) && swarm.connected() && swarm.symmetric() &&
                 swarm.tables_agree();
        }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_stood_still_for_20_s_returns_by_itself) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      make(swarm, 4);
      swarm.pause(2);
      swarm.run_for(20s);
      BOOST_TEST((swarm.state(2, 0) == MemberState::dead));
      BOOST_TEST(swarm.degree(0) == 2);
      swarm.resume(2);
      BOOST_TEST(swarm.run_until(2s, [&] { return swarm.complete() && swarm.tables_agree(); }));
      for (const std::size_t other : {0, 1, 3}) {
        BOOST_TEST((swarm.state(other, 2) == MemberState::alive));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_restarted_peer_is_taken_back_also_where_its_end_was_not_seen) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    for (const bool silent : {false, true}) {
      BOOST_TEST_CONTEXT("seed " << seed << " silent " << silent) {
        Swarm swarm(seed, {});
        make(swarm, 4);
        swarm.run_for(10s);
        swarm.kill(1, silent);
        swarm.run_for(500ms);
        swarm.restart(1, {address_of(0)});
        BOOST_TEST(swarm.run_until(1s, [&] { return swarm.complete() && swarm.symmetric(); }));
        BOOST_TEST(swarm.run_until(10s, [&] { return swarm.tables_agree(); }));
        swarm.run_for(20s);
        BOOST_TEST(swarm.complete());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_broken_link_comes_back_and_nobody_dies_of_it) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      make(swarm, 4);
      swarm.reset_links(0, 1);
      BOOST_TEST(!swarm.relations(0).contains(1));
      BOOST_TEST(swarm.run_until(500ms, [&] { return swarm.complete(); }));
      swarm.run_for(6s);
      swarm.lose_links(0, 1);  // peer 1 still believes in its link
      BOOST_TEST(swarm.run_until(500ms, [&] { return swarm.complete(); }));
      BOOST_TEST(swarm.run_until(2s, [&] { return swarm.tables_agree(); }));
    }
  }
}

BOOST_AUTO_TEST_CASE(two_halves_apart_for_60_s_become_one_swarm_again) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::size_t count : {4, 16}) {
      BOOST_TEST_CONTEXT("seed " << seed << " peers " << count) {
        Swarm swarm(seed, {});
        make(swarm, count);
        std::vector<int> groups;
        for (std::size_t i = 0; i < count; ++i) groups.push_back(i < count / 2 ? 0 : 1);
        swarm.partition(groups);
        swarm.run_for(60s);
        BOOST_TEST((swarm.state(count - 1, 0) == MemberState::dead));
        BOOST_TEST(swarm.core(0).table().alive_count() == count / 2);
        swarm.heal();
        BOOST_TEST(swarm.run_until(61s, [&] { return swarm.tables_agree(); }));
        const std::size_t least = std::min<std::size_t>(4, count - 1);
        BOOST_TEST(swarm.run_until(30s, [&] {
          return swarm.connected() && swarm.degrees_at_least(least) && swarm.symmetric();
        }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(halves_meet_after_10_minutes_though_the_only_configured_peer_is_dead) {
  constexpr std::size_t kCount = 16;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      swarm.add({});
      for (std::size_t i = 1; i < kCount; ++i) swarm.add({address_of(0)});
      swarm.run_for(10s);
      BOOST_TEST(swarm.tables_agree());
      std::vector<int> groups(kCount);
      for (std::size_t i = 0; i < kCount; ++i) groups[i] = static_cast<int>(i % 2);
      swarm.partition(groups);
      swarm.kill(0);
      swarm.run_for(540s);
      std::vector<std::size_t> before;
      for (std::size_t i = 0; i < kCount; ++i) before.push_back(swarm.dials(i));
      swarm.run_for(60s);
      // From both sides, and not more than every 20 s to each that is lost.
      for (std::size_t i = 1; i < kCount; ++i) {
        BOOST_TEST(swarm.dials(i) > before[i]);
        BOOST_TEST(swarm.dials(i) - before[i] <= 3 * (kCount / 2 + 1));
      }
      swarm.heal();
      BOOST_TEST(swarm.run_until(61s, [&] { return swarm.tables_agree(); }));
      BOOST_TEST(swarm.run_until(30s, [&] {
        return swarm.connected() && swarm.degrees_at_least(4) && swarm.symmetric();
      }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cut_that_comes_and_goes_holds_nobody_back) {
  constexpr std::size_t kCount = 16;
  Swarm swarm(9, {});
  make(swarm, kCount);
  std::vector<int> groups(kCount);
  for (std::size_t i = 0; i < kCount; ++i) groups[i] = static_cast<int>(i % 2);
  for (int turn = 0; turn < 5; ++turn) {
    swarm.partition(groups);
    swarm.run_for(20s);
    BOOST_TEST(swarm.core(0).table().alive_count() < kCount);
    swarm.heal();
    BOOST_TEST(swarm.run_until(30s, [&] { return swarm.tables_agree(); }), "turn " << turn);
  }
}

BOOST_AUTO_TEST_CASE(a_leaving_peer_is_not_suspected_and_not_dialed_again) {
  Swarm swarm(5, {});
  make(swarm, 4);
  swarm.leave(3);
  swarm.run_for(100ms);
  BOOST_TEST((swarm.state(3, 0) == MemberState::left));
  BOOST_TEST(swarm.degree(3) == 0);
  BOOST_TEST(!swarm.core(3).next_deadline().has_value());
  const std::size_t dials = swarm.dials(0) + swarm.dials(1) + swarm.dials(2);
  swarm.run_for(120s);
  BOOST_TEST(swarm.dials(0) + swarm.dials(1) + swarm.dials(2) == dials);
}

BOOST_AUTO_TEST_CASE(who_leaves_while_its_return_is_not_believed_yet_is_not_dialed_again) {
  Swarm swarm(1, {});
  make(swarm, 4);  // degree 4: each looks for one neighbour more
  for (const auto pause : {30s, 8s}) {
    swarm.partition({0, 0, 0, 1});
    BOOST_REQUIRE(swarm.run_until(60s, [&] {
      return swarm.state(3, 0) == MemberState::dead && swarm.state(3, 1) == MemberState::dead &&
             swarm.state(3, 2) == MemberState::dead;
    }));
    swarm.heal();
    swarm.run_for(pause);
  }
  BOOST_REQUIRE((swarm.state(3, 0) == MemberState::dead));  // its second death within minutes
  swarm.leave(3);
  swarm.run_for(1s);
  swarm.kill(3);
  const auto dials = [&] { return swarm.dials(0) + swarm.dials(1) + swarm.dials(2); };
  const std::size_t before = dials();
  swarm.run_for(50s);
  BOOST_TEST(dials() == before);
}

// A checkpoint may have the counters of hundreds that were there once.
BOOST_AUTO_TEST_CASE(counters_of_peers_that_are_long_gone_make_no_swarm_large) {
  Swarm swarm(5, {});
  make(swarm, 4);
  const base::Duration before = swarm.core(0).progress().horizon();
  std::vector<base::SampleCounter> counters;
  for (std::uint64_t i = 1; i <= 500; ++i) counters.push_back({i * 0x9e3779b97f4a7c15ULL, 1000});
  swarm.core(1).progress().restore(counters);
  swarm.run_for(30s);
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(swarm.core(i).progress().size() >= 500U);
    BOOST_TEST((swarm.core(i).progress().horizon() == before));
  }
}

BOOST_AUTO_TEST_CASE(claims_about_a_peer_are_refuted_by_it) {
  for (const MemberState state : {MemberState::suspect, MemberState::dead}) {
    BOOST_TEST_CONTEXT("state " << wire::to_string(state)) {
      Swarm swarm(9, {});
      make(swarm, 4);
      const wire::MemberRecord self = swarm.core(1).self();
      wire::Gossip lie;
      for (std::uint64_t by = 1; by <= 4; ++by) {
        lie.claims.push_back({.subject = self.id.prefix(),
                              .by = by,
                              .incarnation = self.incarnation,
                              .state = state,
                              .reason = wire::DeathReason::silent});
      }
      swarm.forge(3, 2, lie);
      BOOST_TEST(swarm.run_until(1s, [&] { return swarm.tables_agree(); }));
      BOOST_TEST(swarm.core(1).self().incarnation > self.incarnation);
      BOOST_TEST(swarm.complete());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_suspicion_of_during_a_cut_is_told_over_the_first_new_link_after_it) {
  Swarm swarm(9, {});
  make(swarm, 4);
  swarm.partition({0, 0, 1, 1});
  const wire::MemberRecord about = swarm.core(2).self();
  const wire::Claim claim{.subject = about.id.prefix(),
                          .by = 5,
                          .incarnation = about.incarnation,
                          .state = MemberState::suspect,
                          .reason = wire::DeathReason::silent};
  swarm.forge(0, 1, wire::Gossip{{}, {claim}});
  swarm.run_for(1s);
  swarm.heal();
  swarm.run_for(1s);
  BOOST_TEST((swarm.state(2, 1) == MemberState::suspect));
  swarm.reset_links(1, 3);
  BOOST_TEST(swarm.run_until(1s, [&] { return swarm.state(2, 1) == MemberState::alive; }));
  BOOST_TEST(swarm.core(2).self().incarnation > about.incarnation);
}

BOOST_AUTO_TEST_CASE(that_a_peer_is_dead_is_a_word_that_it_refutes) {
  Swarm swarm(9, {});
  make(swarm, 4);
  wire::MemberRecord lie = swarm.core(1).self();
  lie.state = MemberState::dead;
  swarm.forge(0, 1, wire::Gossip{{lie}, {}});
  swarm.forge(3, 2, wire::Gossip{{lie}, {}});
  BOOST_TEST(swarm.run_until(1s, [&] { return swarm.tables_agree(); }));
  BOOST_TEST(swarm.core(1).self().incarnation > lie.incarnation);
  BOOST_TEST(swarm.complete());
}

BOOST_AUTO_TEST_CASE(who_passes_on_a_record_that_its_owner_did_not_sign_is_banned) {
  for (const std::uint64_t ahead : {0, 1, 1000}) {
    for (const MemberState state : {MemberState::alive, MemberState::dead, MemberState::left}) {
      if (ahead == 0 && state != MemberState::left) continue;  // nothing new, or no lie
      BOOST_TEST_CONTEXT("state " << wire::to_string(state) << " ahead " << ahead) {
        Swarm swarm(9, {});
        make(swarm, 4);
        wire::MemberRecord lie = swarm.core(1).self();
        lie.state = state;
        lie.incarnation += ahead;
        swarm.forge(3, 2, wire::Gossip{{lie}, {}});
        BOOST_TEST(!swarm.relations(2).contains(3));
        BOOST_TEST((swarm.state(1, 2) == MemberState::alive));
        swarm.run_for(20s);
        BOOST_TEST(!swarm.relations(2).contains(3));
        BOOST_TEST(swarm.core(1).self().incarnation == 1U);
        BOOST_TEST(swarm.run_until(70s, [&] { return swarm.complete(); }));
        BOOST_TEST(swarm.tables_agree());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(absurd_incarnations_are_ignored) {
  Swarm swarm(9, {});
  make(swarm, 4);
  wire::MemberRecord lie = swarm.core(1).self();
  lie.incarnation = std::numeric_limits<std::uint64_t>::max();
  lie.state = MemberState::dead;
  const std::uint64_t before = swarm.core(1).self().incarnation;
  swarm.forge(0, 1, wire::Gossip{{lie}, {}});
  swarm.forge(0, 2, wire::Gossip{{lie}, {}});
  swarm.run_for(1s);
  BOOST_TEST(swarm.core(1).self().incarnation == before);
  BOOST_TEST(swarm.tables_agree());
}

BOOST_AUTO_TEST_CASE(a_flood_of_members_fills_the_table_to_its_bound_and_no_further) {
  Swarm swarm(2, {});
  make(swarm, 2);
  base::Rng rng(3);
  for (int frame = 0; frame < 80; ++frame) {
    wire::Gossip gossip;
    for (std::size_t i = 0; i < wire::kMembersPerGossip; ++i) {
      wire::MemberRecord record{.name = "x", .addresses = {"nowhere:1"}, .incarnation = 1};
      for (auto& byte : record.id.bytes) byte = static_cast<std::uint8_t>(rng.below(256));
      membership::SimulatedSigner signer(record.id);
      membership::sign(record, signer);
      gossip.members.push_back(record);
    }
    swarm.forge(1, 0, gossip);
  }
  BOOST_TEST(swarm.core(0).members().size() == membership::kMembersMax);
  BOOST_TEST(swarm.relations(0).contains(1));
  swarm.run_for(1s);
  BOOST_TEST(swarm.dials(0) < 50);
}

BOOST_AUTO_TEST_CASE(of_members_that_a_full_table_let_go_nothing_is_kept) {
  Swarm swarm(2, {});
  make(swarm, 2);
  base::Rng rng(4);
  for (std::size_t gone = 0; gone < 2 * membership::kMembersMax;) {
    wire::Gossip gossip;
    for (std::size_t i = 0; i < wire::kMembersPerGossip; ++i, ++gone) {
      wire::MemberRecord record{.name = "x", .addresses = {"nowhere:1"}, .incarnation = 1};
      record.state = MemberState::left;
      for (auto& byte : record.id.bytes) byte = static_cast<std::uint8_t>(rng.below(256));
      membership::SimulatedSigner signer(record.id);
      membership::sign(record, signer);
      gossip.members.push_back(record);
    }
    swarm.forge(1, 0, gossip);
    require_bounds(swarm, 0);
  }
  BOOST_TEST(swarm.core(0).members().size() == membership::kMembersMax);
}

BOOST_AUTO_TEST_CASE(a_pause_puts_timers_off_once_however_much_has_waited_meanwhile) {
  Swarm swarm(6, {});
  make(swarm, 8);
  swarm.kill(2, true);
  BOOST_REQUIRE(swarm.run_until(20s, [&] { return swarm.state(2, 1) == MemberState::suspect; }));
  swarm.pause(1);
  swarm.run_for(20s);
  swarm.resume(1);
  require_bounds(swarm, 1);
  BOOST_TEST(swarm.run_until(60s, [&] { return swarm.state(2, 1) == MemberState::dead; }));
}

BOOST_AUTO_TEST_CASE(nothing_grows_or_waits_beyond_its_limit_while_peers_come_and_go) {
  Swarm swarm(5, {});
  make(swarm, 12);
  for (std::size_t round = 0; round < 20; ++round) {
    const std::size_t victim = 1 + round % 5;
    swarm.kill(victim, round % 2 == 0);
    for (int tick = 0; tick < 60; ++tick) {
      if (tick == 30) swarm.restart(victim, {address_of(0)});
      swarm.run_for(100ms);
      for (std::size_t i = 0; i < swarm.size(); ++i) {
        if (swarm.up(i)) require_bounds(swarm, i);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
