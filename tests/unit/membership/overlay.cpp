// The graph of links, over many seeds.
#include <algorithm>
#include <map>
#include <string>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "membership/overlay/dialer.hpp"
#include "swarm.hpp"

using namespace std::chrono_literals;
namespace base = starling::base;
namespace wire = starling::wire;
using starling::membership::Dialer;
using starling::membership::DialPurpose;
using starling::membership::Found;
using starling::membership::kDialsMax;
using starling::membership::kMembersMax;
using starling::membership::kOwnAddressMemory;
using starling::membership::kRevivalMin;
using starling::membership::kTakenMemory;
using starling::membership::testing::address_of;
using starling::membership::testing::Swarm;
using starling::membership::testing::SwarmOptions;

namespace {

void add_peers(Swarm& swarm, std::size_t count, starling::base::Duration apart) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::string> join =
        i == 0 ? std::vector<std::string>{} : std::vector{address_of(0)};
    swarm.add(join, static_cast<int>(i) * apart);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(overlay)

BOOST_AUTO_TEST_CASE(four_peers_that_start_within_100_ms_are_fully_linked_within_400_ms) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      add_peers(swarm, 4, 33ms);
      BOOST_TEST(swarm.run_until(
          400ms, [&] { return swarm.size() == 4 && swarm.up(3) && swarm.complete(); }));
      swarm.run_for(30s);
      BOOST_TEST(swarm.complete());
      BOOST_TEST(swarm.tables_agree());
    }
  }
}

BOOST_AUTO_TEST_CASE(peers_that_all_dial_each_other_at_once_keep_one_link_a_pair) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      std::vector<std::string> all;
      for (std::size_t i = 0; i < 5; ++i) all.push_back(address_of(i));
      for (std::size_t i = 0; i < 5; ++i) swarm.add(all);
      BOOST_TEST(swarm.run_until(500ms, [&] { return swarm.up(4) && swarm.complete(); }));
      swarm.run_for(1s);
      std::vector<std::size_t> downs;
      for (std::size_t i = 0; i < 5; ++i) downs.push_back(swarm.downs(i));
      swarm.run_for(30s);
      BOOST_TEST(swarm.complete());
      for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(swarm.downs(i) == downs[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(with_a_hub_the_overlay_is_a_star_that_its_death_takes_apart) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {.hub = "peer-3"});
      add_peers(swarm, 9, 33ms);  // by peer-0, which is not a hub
      const auto star = [&] {
        for (std::size_t i = 0; i < 9; ++i) {
          if (!swarm.up(i) || swarm.degree(i) != (i == 3 ? 8U : 1U)) return false;
        }
        return true;
      };
      BOOST_TEST(swarm.run_until(20s, star));
      swarm.run_for(30s);
      BOOST_TEST(star());
      BOOST_TEST(swarm.tables_agree());
      swarm.kill(3);
      swarm.run_for(60s);
      for (std::size_t i = 0; i < 9; ++i) {
        if (i != 3) BOOST_TEST(swarm.degree(i) == 0U);
      }
      swarm.restart(3, {address_of(0)});
      BOOST_TEST(swarm.run_until(120s, star));
    }
  }
}

BOOST_AUTO_TEST_CASE(sixteen_peers_all_find_degree_neighbours_and_are_connected) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      add_peers(swarm, 16, 5ms);
      BOOST_TEST(swarm.run_until(30s, [&] {
        return swarm.up(15) && swarm.degrees_at_least(4) && swarm.connected() &&
               swarm.symmetric() && swarm.tables_agree();
      }));
      BOOST_TEST(swarm.degrees_at_least(4));
      BOOST_TEST(swarm.connected());
      BOOST_TEST(swarm.symmetric());
      BOOST_TEST(swarm.tables_agree());
      for (std::size_t i = 0; i < 16; ++i) BOOST_TEST(swarm.degree(i) <= 5);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_circles_in_which_nobody_misses_a_neighbour_become_one_overlay) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {.degree = 2});
      for (std::size_t i = 0; i < 6; ++i) swarm.add({address_of(i / 3 * 3)});
      swarm.run_for(1s);
      const auto train = [&](int seconds) {
        for (int second = 1; second <= seconds; ++second) {
          for (std::size_t i = 0; i < 6; ++i) {
            const auto* own = swarm.core(i).progress().find(swarm.id(i).prefix());
            const std::uint64_t made = own == nullptr ? 0 : own->samples;
            swarm.core(i).set_own_progress({.samples = made + 50}, true, swarm.now());
          }
          swarm.run_for(1s);
        }
      };
      train(10);
      BOOST_REQUIRE(swarm.degrees_at_least(2));
      // As after a cut in which nobody died: all hold all alive.
      for (const std::size_t circle : {0, 3}) {
        wire::Gossip others;
        for (std::size_t i = 0; i < 3; ++i) {
          others.members.push_back(swarm.core(3 - circle + i).self());
        }
        swarm.forge(circle, circle + 1, others);
        swarm.forge(circle + 1, circle, others);
      }
      BOOST_TEST(!swarm.connected());
      train(60);
      BOOST_TEST(swarm.connected());
      BOOST_TEST(swarm.degrees_at_least(2));
      for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(swarm.degree(i) <= 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(sixtyfour_peers_settle) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      add_peers(swarm, 64, 20ms);
      BOOST_TEST(swarm.run_until(60s, [&] {
        return swarm.up(63) && swarm.degrees_at_least(4) && swarm.connected() &&
               swarm.tables_agree();
      }));
      swarm.run_for(5s);
      std::size_t downs = 0;
      for (std::size_t i = 0; i < 64; ++i) downs += swarm.downs(i);
      swarm.run_for(60s);
      std::size_t later = 0;
      for (std::size_t i = 0; i < 64; ++i) later += swarm.downs(i);
      BOOST_TEST(downs == later);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_whose_configured_address_answers_late_keeps_dialing) {
  Swarm swarm(1, {});
  swarm.add({address_of(1)});
  swarm.run_for(100s);
  swarm.add({});
  BOOST_TEST(swarm.run_until(16s, [&] { return swarm.up(1) && swarm.complete(); }));
  BOOST_TEST(swarm.dials(0) > 6);
  BOOST_TEST(swarm.dials(0) < 40);
}

BOOST_AUTO_TEST_CASE(peers_that_find_no_room_do_not_dial_all_members_over_and_over) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {.delay_min = 100us, .delay_max = 300us});
      add_peers(swarm, 32, 5ms);
      swarm.run_for(30s);
      // Those that stood still are held dead for a while, and look for links all the same.
      for (std::size_t round = 0; round < 6; ++round) {
        for (std::size_t i = 0; i < 8; ++i) swarm.pause((8 * round + i) % 32);
        swarm.run_for(32s);
        for (std::size_t i = 0; i < 8; ++i) swarm.resume((8 * round + i) % 32);
        swarm.run_for(28s);
      }
      std::size_t most = 0;
      for (std::size_t i = 0; i < 32; ++i) most = std::max(most, swarm.dials(i));
      BOOST_TEST(most <= 400U);  // in 390 s
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_is_not_its_own_neighbour) {
  Swarm swarm(1, {});
  swarm.add({address_of(0)});
  swarm.run_for(kOwnAddressMemory - 1s);
  BOOST_TEST(swarm.degree(0) == 0);
  BOOST_TEST(swarm.dials(0) == 1);
  // Somebody else may have the address by now.
  swarm.run_for(30s);
  BOOST_TEST(swarm.dials(0) == 2);
}

BOOST_AUTO_TEST_CASE(a_member_at_whose_address_another_answers_is_left_alone_for_a_while) {
  Dialer dialer({}, base::Rng(1));
  wire::MemberRecord old{.addresses = {"a:1"}};
  old.id.bytes[0] = 1;
  base::PeerId other;
  other.bytes[0] = 2;
  const base::Time now{1000s};
  BOOST_REQUIRE(dialer.dial(old, now));
  dialer.answered("a:1", other, now);
  BOOST_TEST(!dialer.dial(old, now + 1s));
  BOOST_TEST((dialer.history().due(old.id) >= now + kRevivalMin / 2));
}

BOOST_AUTO_TEST_CASE(an_address_that_leads_to_another_peer_is_that_peers) {
  Dialer dialer({}, base::Rng(1));
  wire::MemberRecord member{.addresses = {"bridge:1", "card:1"}};
  member.id.bytes[0] = 1;
  base::PeerId other;
  other.bytes[0] = 2;
  base::Time now{1000s};
  BOOST_TEST(dialer.may_be_elsewhere(member, now));
  BOOST_REQUIRE(dialer.dial(member, now) == "bridge:1");
  dialer.answered("bridge:1", other, now);
  BOOST_TEST(dialer.may_be_elsewhere(member, now));  // at the card's
  for (int i = 0; i < 5; ++i) {
    now += 61s;
    BOOST_REQUIRE(dialer.dial(member, now) == "card:1");
    BOOST_REQUIRE(dialer.failed("card:1", false, false, now));
    BOOST_TEST(!dialer.may_be_elsewhere(member, now));
  }
  // A newer record may mean that it is there again, and so may time.
  const base::Time later = now + 61s;
  ++member.incarnation;
  BOOST_REQUIRE(dialer.dial(member, later) == "bridge:1");
  dialer.answered("bridge:1", other, later);
  BOOST_REQUIRE(dialer.dial(member, later + kTakenMemory - 1s) == "card:1");
  BOOST_REQUIRE(dialer.failed("card:1", false, false, later + kTakenMemory - 1s));
  BOOST_TEST((dialer.dial(member, later + kTakenMemory + 60s) == "bridge:1"));
}

BOOST_AUTO_TEST_CASE(what_never_worked_is_tried_last_where_something_does) {
  Dialer dialer({}, base::Rng(1));
  wire::MemberRecord member{.addresses = {"dead:1", "works:1", "dead:2"}};
  member.id.bytes[0] = 1;
  base::Time now{1000s};
  std::map<std::string, int> dialed;
  for (int i = 0; i < 40; ++i) {
    now += 61s;
    const auto address = dialer.dial(member, now);
    BOOST_REQUIRE(address);
    ++dialed[*address];
    if (address->starts_with("works")) {
      dialer.answered(*address, member.id, now);
    } else {
      BOOST_REQUIRE(dialer.failed(*address, false, false, now));
    }
  }
  BOOST_TEST(dialed["dead:1"] == 1);
  BOOST_TEST(dialed["dead:2"] == 0);
  // Once nothing works, each has its turn.
  dialed.clear();
  for (int i = 0; i < 30; ++i) {
    now += 61s;
    const auto address = dialer.dial(member, now);
    BOOST_REQUIRE(address);
    ++dialed[*address];
    BOOST_REQUIRE(dialer.failed(*address, false, false, now));
  }
  BOOST_TEST(!dialer.may_be_elsewhere(member, now));
  for (const std::string& address : member.addresses) BOOST_TEST(dialed[address] > 0, address);
}

BOOST_AUTO_TEST_CASE(what_is_known_of_a_members_addresses_is_bounded) {
  Dialer dialer({}, base::Rng(1));
  wire::MemberRecord member;
  member.id.bytes[0] = 1;
  base::Time now{1000s};
  for (int i = 0; i < 100; ++i) {
    member.addresses = {std::to_string(i) + ":1", std::to_string(i) + ":2"};
    for (int dial = 0; dial < 2; ++dial) {
      now += 61s;
      const auto address = dialer.dial(member, now);
      BOOST_REQUIRE(address);
      BOOST_REQUIRE(dialer.failed(*address, false, false, now));
    }
  }
  base::Bounds bounds;
  dialer.add_bounds(bounds);
  BOOST_TEST((bounds.broken() ? bounds.broken()->what : "") == "");
}

// As with a bridge that all machines have, whose address is told first.
BOOST_AUTO_TEST_CASE(nobody_is_called_dead_for_an_address_that_leads_elsewhere) {
  Swarm swarm(7, {});
  add_peers(swarm, 6, 50ms);
  swarm.run_for(5s);
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    swarm.inject(i, starling::membership::Moved{
                        {"nowhere:1", address_of((i + 1) % swarm.size()), address_of(i)}});
  }
  swarm.run_for(60s);
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    for (const auto& [id, member] : swarm.core(i).table().members()) {
      BOOST_TEST((member.record.state == wire::MemberState::alive));
    }
  }
  BOOST_TEST(swarm.connected());
}

BOOST_AUTO_TEST_CASE(a_dial_over_which_this_peer_stood_still_is_known) {
  Dialer dialer({}, base::Rng(1));
  wire::MemberRecord before{.addresses = {"a:1"}};
  before.id.bytes[0] = 1;
  wire::MemberRecord after{.addresses = {"b:1"}};
  after.id.bytes[0] = 2;
  const base::Time now{1000s};
  BOOST_REQUIRE(dialer.dial(before, now));
  dialer.extend(30s);
  BOOST_TEST(dialer.overdue(now + 30s).empty());
  BOOST_REQUIRE(dialer.dial(after, now + 30s));
  BOOST_TEST(dialer.stood_still("a:1"));
  BOOST_TEST(!dialer.stood_still("b:1"));
  BOOST_REQUIRE(dialer.failed("a:1", false, false, now + 31s));
  BOOST_TEST(!dialer.stood_still("a:1"));
}

BOOST_AUTO_TEST_CASE(dials_under_way_do_not_push_the_table_of_pauses_over_its_limit) {
  Dialer dialer({}, base::Rng(1));
  const base::Time now{1000s};
  const auto member = [](std::size_t number) {
    wire::MemberRecord record{.addresses = {std::to_string(number) + ":1"}};
    record.id.bytes[0] = static_cast<std::uint8_t>(number);
    record.id.bytes[1] = static_cast<std::uint8_t>(number >> 8);
    return record;
  };
  for (std::size_t i = 0; i < kDialsMax; ++i) BOOST_REQUIRE(dialer.dial(member(i), now));
  for (std::size_t i = kDialsMax; i < kDialsMax + kMembersMax; ++i) {
    dialer.postpone(member(i).id, 10s, now);
  }
  for (std::size_t i = 0; i < kDialsMax; ++i) {
    BOOST_TEST(dialer.failed(member(i).addresses[0], false, true, now));
  }
  base::Bounds bounds;
  dialer.add_bounds(bounds);
  dialer.add_timers(now, bounds);
  BOOST_TEST((bounds.broken() ? bounds.broken()->what : "") == "");
}

BOOST_AUTO_TEST_CASE(peers_that_hear_of_each_other_meet_without_an_address) {
  Swarm swarm(1, {});
  for (int i = 0; i < 3; ++i) swarm.add({});
  swarm.run_for(1s);
  BOOST_TEST(!swarm.connected());
  swarm.inject(0, Found{swarm.id(1), address_of(1)});
  swarm.inject(2, Found{swarm.id(1), address_of(1)});
  BOOST_TEST(swarm.run_until(3s, [&] { return swarm.complete(); }));
}

BOOST_AUTO_TEST_CASE(of_a_crowd_that_hears_a_stranger_few_dial_it_and_two_swarms_become_one) {
  constexpr std::size_t kCount = 48;
  Swarm swarm(2, {});
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t first = i < kCount / 2 ? 0 : kCount / 2;
    swarm.add(i == first ? std::vector<std::string>{} : std::vector{address_of(first)});
  }
  swarm.run_for(10s);
  BOOST_TEST(!swarm.connected());
  const std::size_t stranger = kCount - 1;
  std::size_t dials = 0;
  for (int turn = 0; turn < 20 && !swarm.connected(); ++turn) {
    for (std::size_t i = 0; i < kCount / 2; ++i) {
      const std::size_t before = swarm.dials(i);
      swarm.inject(i, Found{swarm.id(stranger), address_of(stranger)});
      dials += swarm.dials(i) - before;
    }
    BOOST_TEST(dials < 12U);
    swarm.run_for(1s);
  }
  BOOST_TEST(dials >= 1U);
  BOOST_TEST(swarm.run_until(20s, [&] { return swarm.connected() && swarm.tables_agree(); }));
}

BOOST_AUTO_TEST_CASE(a_weight_reaches_all_and_the_same_one_again_nobody) {
  Swarm swarm(5, {});
  add_peers(swarm, 12, 50ms);
  swarm.run_for(10s);
  swarm.inject(3, starling::membership::SpeedMeasured{250});
  swarm.run_for(5s);
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    const wire::MemberRecord* record = swarm.core(i).table().find(swarm.id(3));
    BOOST_REQUIRE(record != nullptr);
    BOOST_TEST(record->speed == 250);
    BOOST_TEST((record->state == wire::MemberState::alive));
  }
  BOOST_TEST(swarm.tables_agree());
  const std::uint64_t incarnation = swarm.core(3).self().incarnation;
  swarm.inject(3, starling::membership::SpeedMeasured{250});
  BOOST_TEST(swarm.core(3).self().incarnation == incarnation);
}

BOOST_AUTO_TEST_CASE(where_a_peer_has_moved_to_reaches_all) {
  Swarm swarm(6, {});
  add_peers(swarm, 12, 50ms);
  swarm.run_for(10s);
  const std::vector<std::string> there{"elsewhere:1", "elsewhere:2"};
  swarm.inject(3, starling::membership::Moved{there});
  swarm.run_for(5s);
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    const wire::MemberRecord* record = swarm.core(i).table().find(swarm.id(3));
    BOOST_REQUIRE(record != nullptr);
    BOOST_TEST(record->addresses == there);
    BOOST_TEST((record->state == wire::MemberState::alive));
  }
}

BOOST_AUTO_TEST_CASE(of_each_member_the_first_address_is_remembered_before_the_second_of_any) {
  constexpr std::size_t kCount = 10;
  Swarm swarm(6, {});
  add_peers(swarm, kCount, 50ms);
  swarm.run_for(10s);
  for (std::size_t i = 1; i < kCount; ++i) {
    std::vector<std::string> all;
    for (int rank = 0; rank < 8; ++rank) {
      all.push_back(std::to_string(rank) + ":" + std::to_string(i));
    }
    swarm.inject(i, starling::membership::Moved{all});
  }
  swarm.run_for(5s);
  const std::vector<std::string> remembered = swarm.core(0).addresses_of_others();
  BOOST_TEST(remembered.size() == starling::membership::kRememberedMax);
  for (std::size_t i = 0; i < remembered.size(); ++i) {
    BOOST_TEST(remembered[i].starts_with(std::to_string(i / (kCount - 1)) + ":"));
  }
}

BOOST_AUTO_TEST_CASE(dials_of_dead_members_count_apart) {
  Dialer dialer({}, base::Rng(1));
  const base::Time now{1000s};
  wire::MemberRecord dead{.addresses = {"a:1"}, .state = wire::MemberState::dead};
  dead.id.bytes[0] = 1;
  wire::MemberRecord alive{.addresses = {"b:1"}};
  alive.id.bytes[0] = 2;
  BOOST_REQUIRE(dialer.dial(dead, now, DialPurpose::revival));
  BOOST_TEST(dialer.count(DialPurpose::wanted) == 0U);
  BOOST_TEST(dialer.count(DialPurpose::revival) == 1U);
  BOOST_REQUIRE(dialer.dial(alive, now));
  BOOST_TEST(dialer.count(DialPurpose::wanted) == 1U);
  // Its record says so until its return is believed, but it is dialed as a neighbour.
  wire::MemberRecord held_back{.addresses = {"c:1"}, .state = wire::MemberState::dead};
  held_back.id.bytes[0] = 3;
  BOOST_REQUIRE(dialer.dial(held_back, now));
  BOOST_TEST(dialer.count(DialPurpose::wanted) == 2U);
  BOOST_REQUIRE(dialer.failed("a:1", false, true, now));
  BOOST_TEST(dialer.count(DialPurpose::revival) == 0U);
}

// Each of their dials takes as long as one may: the few on this side of a cut would be linked after
// one to two minutes otherwise.
BOOST_AUTO_TEST_CASE(many_dead_members_keep_no_peer_from_the_living) {
  constexpr std::size_t kFew = 6;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Swarm swarm(seed, {});
      add_peers(swarm, 60, 20ms);
      BOOST_REQUIRE(swarm.run_until(60s, [&] { return swarm.up(59) && swarm.tables_agree(); }));
      std::vector<int> sides(60, 1);
      std::fill_n(sides.begin(), kFew, 0);
      swarm.partition(sides);
      swarm.run_for(30s);
      const auto linked = [&] {
        for (std::size_t i = 0; i < kFew; ++i) {
          if (swarm.degree(i) < 4) return false;
        }
        return true;
      };
      BOOST_TEST(swarm.run_until(30s, linked));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_configured_address_is_dialed_again_once_who_was_there_has_left) {
  Dialer dialer({"a:1"}, base::Rng(1));
  base::PeerId peer;
  peer.bytes[0] = 1;
  const auto nobody = [](const std::string&, std::optional<base::PeerId>&) { return false; };
  const base::Time now{1000s};
  BOOST_REQUIRE(dialer.dial_join(false, nobody, now));
  dialer.answered("a:1", peer, now);
  BOOST_TEST(!dialer.join_due(false, now + 1h));
  dialer.forget_found(peer, now + 1h);
  BOOST_TEST(!dialer.join_due(false, now + 1h));
  BOOST_TEST(dialer.join_due(false, now + 1h + kRevivalMin));
}

BOOST_AUTO_TEST_SUITE_END()
