#include "peer/audits.hpp"

#include <limits>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using exchange::Trust;
using peer::Audits;
using peer::Tried;

namespace {

base::PeerId neighbour(std::uint8_t number) {
  base::PeerId id;
  id.bytes[0] = number;
  return id;
}

/// Neighbours 0, 1, ... with these losses, after so many exchanges of each.
exchange::Audited judge_after(std::uint64_t exchanges, Audits& audits, double own,
                              std::initializer_list<double> losses) {
  std::vector<Tried> tried;
  for (const double loss : losses) {
    tried.push_back({neighbour(static_cast<std::uint8_t>(tried.size())), loss, exchanges});
  }
  return audits.judge(own, tried);
}

/// After one more exchange of each.
exchange::Audited judge(Audits& audits, double own, std::initializer_list<double> losses) {
  static std::uint64_t exchanges = 0;
  return judge_after(++exchanges, audits, own, losses);
}

/// Neighbours 0, 1, ... that pull so hard.
std::vector<exchange::Pulling> pulling(std::initializer_list<double> pulled) {
  std::vector<exchange::Pulling> all;
  for (const double one : pulled) {
    all.push_back({neighbour(static_cast<std::uint8_t>(all.size())), one, 0});
  }
  return all;
}

/// Those that are tried when it is time.
std::vector<base::PeerId> tried(Audits& audits, const std::vector<exchange::Pulling>& all) {
  audits.trained(100'000);
  std::vector<base::PeerId> peers;
  for (const exchange::Pulling& one : audits.due(all)) peers.push_back(one.peer);
  return peers;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(audits)

BOOST_AUTO_TEST_CASE(no_neighbour_is_tried_before_there_is_time) {
  Audits audits(true);
  BOOST_TEST(audits.due(pulling({1.0, 1.0})).empty());
  BOOST_TEST(audits.due({}).empty());
}

BOOST_AUTO_TEST_CASE(the_neighbour_that_pulls_hardest_and_one_whose_turn_it_is_are_tried) {
  Audits audits(true);
  const auto all = pulling({1.0, 5.0, 2.0, 1.0});
  BOOST_TEST((tried(audits, all) == std::vector{neighbour(1), neighbour(2)}));
  static_cast<void>(audits.judge(
      1.0,
      std::vector<Tried>{{neighbour(1), 1.0, 1}, {neighbour(2), 1.0, 1}, {neighbour(0), 1.0, 1}}));
  // 3 is new, and of the others' turns 1's comes first: it pulls hardest.
  BOOST_TEST((tried(audits, all) == std::vector{neighbour(3), neighbour(1)}));
}

BOOST_AUTO_TEST_CASE(a_neighbour_in_doubt_is_tried_first) {
  Audits audits(true);
  const auto all = pulling({1.0, 5.0, 2.0});
  static_cast<void>(judge(audits, 1.0, {2.0, 1.0, 1.0}));
  BOOST_TEST((tried(audits, all).front() == neighbour(0)));
}

BOOST_AUTO_TEST_CASE(neighbours_that_are_compared_with_each_other_are_all_tried) {
  Audits audits(false);
  BOOST_TEST(tried(audits, pulling({1.0, 5.0, 2.0, 1.0})).size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_new_neighbour_is_tried_ahead_of_time) {
  Audits audits(true);
  static_cast<void>(judge(audits, 1.0, {1.0, 1.0}));
  BOOST_TEST(audits.due(pulling({1.0, 1.0})).empty());
  const auto chosen = audits.due(pulling({1.0, 1.0, 1.0}));
  BOOST_TEST_REQUIRE(!chosen.empty());
  BOOST_TEST((chosen.front().peer == neighbour(2)));
}

BOOST_AUTO_TEST_CASE(a_replica_that_does_about_as_well_is_vouched_for) {
  Audits audits(true);
  const auto audited = judge(audits, 1.0, {1.02, 0.9});
  BOOST_TEST_REQUIRE(audited.findings.size() == 2);
  for (const auto& finding : audited.findings) {
    BOOST_TEST((finding.trust == Trust::vouched));
    BOOST_TEST(!finding.ends);
  }
  BOOST_TEST(!audited.heals);
}

BOOST_AUTO_TEST_CASE(a_replica_that_stays_far_worse_loses_its_pull_and_then_its_link) {
  Audits audits(true);
  auto audited = judge(audits, 1.0, {2.0, 1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::doubted));
  for (int i = 0; i < 2; ++i) audited = judge(audits, 1.0, {2.0, 1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::none));
  BOOST_TEST(!audited.findings[0].ends);
  for (int i = 0; i < 7; ++i) audited = judge(audits, 1.0, {2.0, 1.0});
  BOOST_TEST(audited.findings[0].ends);
  BOOST_TEST(!audited.findings[1].ends);
}

BOOST_AUTO_TEST_CASE(mirrors_that_did_not_change_say_nothing_new_against_a_neighbour) {
  Audits audits(true);
  auto audited = judge_after(1, audits, 1.0, {2.0});
  for (int i = 0; i < 20; ++i) audited = judge_after(1, audits, 1.0, {2.0});
  BOOST_TEST((audited.findings[0].trust == Trust::doubted));
  for (const std::uint64_t exchanges : {2, 3}) {
    audited = judge_after(exchanges, audits, 1.0, {2.0});
  }
  BOOST_TEST((audited.findings[0].trust == Trust::none));
}

BOOST_AUTO_TEST_CASE(mirrors_that_did_not_change_may_speak_for_a_neighbour) {
  Audits audits(true);
  auto audited = judge_after(1, audits, 1.0, {2.0});
  for (int i = 0; i < 5; ++i) audited = judge_after(1, audits, 1.0, {1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::vouched));
}

BOOST_AUTO_TEST_CASE(a_replica_that_gets_better_is_not_turned_away) {
  Audits audits(true);
  double their = 3.0;
  for (int i = 0; i < 14; ++i) {
    BOOST_TEST(!judge(audits, 1.0, {their, 1.0}).findings[0].ends);
    their = 1.0 + (their - 1.0) * 0.7;
  }
  BOOST_TEST((judge(audits, 1.0, {their, 1.0}).findings[0].trust == Trust::vouched));
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_worse_by_turns_keeps_its_link) {
  Audits audits(true);
  for (int i = 0; i < 50; ++i) {
    BOOST_TEST(!judge(audits, 1.0, {1.7, 1.0}).findings[0].ends);
    BOOST_TEST(!judge(audits, 1.0, {1.05, 1.0}).findings[0].ends);
  }
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_absurd_loses_its_pull_at_once) {
  Audits audits(true);
  const auto audited = judge(audits, 1.0, {1e9, 1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::none));
  BOOST_TEST(!audited.findings[0].ends);
  BOOST_TEST(judge(audits, 1.0, {1e9, 1.0}).findings[0].ends);
}

BOOST_AUTO_TEST_CASE(who_did_better_and_is_absurd_now_loses_its_pull_at_once) {
  Audits audits(true);
  auto audited = judge(audits, 2.0, {0.7, 2.0});
  BOOST_TEST((audited.findings[0].trust == Trust::vouched));
  audited = judge(audits, 1.0, {1e9, 1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::none));
}

BOOST_AUTO_TEST_CASE(nobody_vouches_for_who_is_far_worse_now) {
  Audits audits(true);
  auto audited = judge(audits, 2.0, {0.7, 2.0});
  audited = judge(audits, 1.0, {2.0, 1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::unknown));
}

BOOST_AUTO_TEST_CASE(one_bad_audit_is_forgiven) {
  Audits audits(true);
  static_cast<void>(judge(audits, 1.0, {1.0}));
  static_cast<void>(judge(audits, 1.0, {2.5}));
  auto audited = judge(audits, 1.0, {1.0});
  for (int i = 0; i < 4; ++i) audited = judge(audits, 1.0, {1.0});
  BOOST_TEST((audited.findings[0].trust == Trust::vouched));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_a_number_is_the_worst) {
  Audits audits(true);
  const auto audited = judge(audits, 1.0, {std::numeric_limits<double>::quiet_NaN()});
  BOOST_TEST((audited.findings[0].trust == Trust::none));
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_far_behind_its_neighbours_heals_until_it_is_not) {
  Audits audits(true);
  BOOST_TEST(!judge(audits, 1.6, {1.0, 1.1}).heals);
  BOOST_TEST(judge(audits, 1.6, {1.0, 1.1}).heals);
  BOOST_TEST(judge(audits, 1.3, {1.0, 1.1}).heals);
  BOOST_TEST(!judge(audits, 1.1, {1.0, 1.1}).heals);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_very_far_behind_heals_at_once) {
  Audits audits(true);
  BOOST_TEST(judge(audits, 3.0, {1.0, 1.1}).heals);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_far_behind_doubts_those_that_are_as_bad_as_itself) {
  Audits audits(true);
  const auto audited = judge(audits, 3.0, {1.0, 3.0, 3.1});
  BOOST_TEST((audited.findings[0].trust == Trust::vouched));
  BOOST_TEST((audited.findings[1].trust == Trust::doubted));
  BOOST_TEST((audited.findings[2].trust == Trust::doubted));
}

BOOST_AUTO_TEST_CASE(where_samples_differ_between_peers_a_neighbour_is_compared_with_the_others) {
  Audits audits(false);
  auto audited = judge(audits, 0.5, {1.0, 1.1, 0.9, 1.0});
  for (int i = 0; i < 5; ++i) audited = judge(audits, 0.5, {1.0, 1.1, 0.9, 4.0});
  for (int i = 0; i < 4; ++i) BOOST_TEST((audited.findings[i].trust != Trust::doubted));
  for (int i = 0; i < 5; ++i) audited = judge(audits, 0.5, {1.0, 1.1, 0.9, 30.0});
  for (int i = 0; i < 3; ++i) BOOST_TEST((audited.findings[i].trust != Trust::doubted));
  BOOST_TEST((audited.findings[3].trust == Trust::none));
}

BOOST_AUTO_TEST_CASE(how_many_times_as_bad_a_replica_is_has_bounds) {
  BOOST_TEST(Audits::times_worse(1.0, 1.0) == 1.0);
  BOOST_TEST(Audits::times_worse(0.0, 0.005) < 1.2);  // small losses are alike
  BOOST_TEST(Audits::times_worse(1.0, 1e30) < 25.0);
  BOOST_TEST(Audits::times_worse(1.0, std::numeric_limits<double>::quiet_NaN()) > 15.0);
}

BOOST_AUTO_TEST_CASE(small_losses_are_alike) {
  Audits audits(true);
  const auto audited = judge(audits, 0.002, {0.004});
  BOOST_TEST((audited.findings[0].trust == Trust::vouched));
}

// Two that trained apart are both good, and what lies between them is not.
BOOST_AUTO_TEST_CASE(who_trained_apart_is_not_turned_away_for_it) {
  Audits audits(true);
  BOOST_TEST(audits.is_suspicious(1.0, 3.0));
  BOOST_TEST(!audits.is_suspicious(1.0, 1.1));
  for (std::uint64_t exchanges = 1; exchanges < 50; ++exchanges) {
    const auto audited = audits.judge(1.0, std::vector<Tried>{{neighbour(0), 3.0, exchanges, true},
                                                              {neighbour(1), 1.0, exchanges}});
    BOOST_TEST((audited.findings[0].trust == Trust::unknown));
    BOOST_TEST(!audited.findings[0].ends);
    BOOST_TEST((audited.findings[1].trust == Trust::vouched));
  }
}

BOOST_AUTO_TEST_CASE(audits_keep_to_their_share_of_the_time) {
  Audits audits(true);
  constexpr std::uint32_t kBatch = 64;
  constexpr std::uint32_t kSteps = 10'000;
  double tried = 0;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    if (!audits.due(pulling({1.0, 1.0})).empty()) {
      static_cast<void>(judge(audits, 1.0, {1.0, 4.0}));  // one is in doubt, and stays
      tried += 4 * peer::kAuditSamples;                   // the own one, and that twice
    }
    audits.trained(kBatch);
  }
  const double trained = 3.0 * kBatch * kSteps;
  BOOST_TEST(tried / trained < 1.01 * peer::kAuditShare);
  BOOST_TEST(tried / trained > 0.9 * peer::kAuditShare);
}

BOOST_AUTO_TEST_SUITE_END()
