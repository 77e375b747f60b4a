#include "hostile/attacker.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "delta/codec.hpp"
#include "wire/messages.hpp"

using namespace starling;
using namespace starling::hostile;
using exchange::CommitJob;
using exchange::Encoded;
using exchange::EncodeJob;
using exchange::MirrorOf;
using exchange::Replica;

namespace {

base::PeerId id_of(std::uint8_t number) {
  base::PeerId id;
  id.bytes[0] = number;
  return id;
}

/// A hostile peer with links to three honest ones; each knows the first value of the others.
struct Swarm {
  static constexpr std::size_t kElements = 64;

  Swarm() {
    for (std::uint8_t number = 1; number <= 3; ++number) {
      BOOST_REQUIRE(own.open_fresh(id_of(number)).has_value());
    }
    BOOST_REQUIRE(neighbour.open_fresh(id_of(0)).has_value());
    for (float& y : own.trained()) y += 0.5F;
    for (float& y : neighbour.trained()) y -= 0.25F;
  }
  void begin(const Attack& attack) {
    attacker.emplace(
        attack, [this] { return seconds; }, 1);
  }
  static EncodeJob encode(std::uint8_t to) {
    return {.peer = id_of(to), .tag = to, .options = {.density = 1.0, .bits = 8}};
  }
  std::vector<exchange::Outcome> run(const exchange::Job& job) {
    return attacker->exchange(std::span(&job, 1), own, {});
  }
  Encoded written(const EncodeJob& job) {
    const auto outcomes = run(job);
    BOOST_REQUIRE(outcomes.size() == 1);
    const auto& encoded = std::get<Encoded>(outcomes.front());
    BOOST_REQUIRE(encoded.status.has_value());
    return encoded;
  }
  /// What the neighbour 1 takes the replica for, after a delta of all elements.
  float told() {
    const Encoded encoded = written(encode(1));
    delta::Elements elements;
    BOOST_REQUIRE(delta::decode(encoded.payload, kElements, elements).has_value());
    return own.mirror(id_of(1), MirrorOf::mine).front() +
           (elements.size() == 0 ? 0 : elements.values.front());
  }
  /// One exchange of both ends with neighbour 1.
  void meet() {
    const Encoded mine = written(encode(1));
    base::Bytes their;
    BOOST_REQUIRE(neighbour.encode(id_of(0), {.density = 1.0, .bits = 8}, their).has_value());
    run(CommitJob{.peer = id_of(1), .tag = 5, .own = mine.payload, .their = their, .w = 0.5F});
    BOOST_REQUIRE(
        neighbour.stage({.peer = id_of(0), .own = their, .their = mine.payload, .w = 0.5F})
            .has_value());
    neighbour.apply_staged();
  }
  [[nodiscard]] float parameter() const { return own.trained().front(); }

  double seconds = 0;
  std::vector<float> initial = std::vector<float>(kElements, 1.0F);
  Replica own{initial, 0};
  Replica neighbour{initial, 0.5F};
  std::optional<Attacker> attacker;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(attackers, Swarm)

BOOST_AUTO_TEST_CASE(another_replica_is_told_and_the_own_one_stays) {
  begin({.kind = AttackKind::zeros});
  BOOST_TEST(std::abs(told()) < 0.01F);
  BOOST_TEST(parameter() == 1.5F);
}

BOOST_AUTO_TEST_CASE(both_ends_commit_what_was_told) {
  begin({.kind = AttackKind::zeros});
  meet();
  const auto mine = own.mirror_hash(id_of(1), MirrorOf::mine);
  BOOST_TEST(mine == neighbour.mirror_hash(id_of(0), MirrorOf::theirs));
  BOOST_TEST(parameter() == 1.5F);
  // Half of the way from 0.75 to 0.
  BOOST_TEST(neighbour.mirror(id_of(0), MirrorOf::mine).front() == 0.375F,
             boost::test_tools::tolerance(0.01F));
}

BOOST_AUTO_TEST_CASE(a_copycat_tells_what_the_neighbour_said_last) {
  begin({.kind = AttackKind::copycat});
  meet();
  BOOST_TEST(told() == own.mirror(id_of(1), MirrorOf::theirs).front(),
             boost::test_tools::tolerance(0.01F));
}

BOOST_AUTO_TEST_CASE(huge_values_are_such_as_deltas_carry) {
  begin({.kind = AttackKind::huge, .factor = 1e30});
  const float huge = told();
  BOOST_TEST(huge > 0.8e30F);
  BOOST_TEST(std::isfinite(huge));
}

BOOST_AUTO_TEST_CASE(an_attack_begins_at_its_time) {
  begin({.kind = AttackKind::zeros, .from = 10});
  BOOST_TEST(told() == 1.5F, boost::test_tools::tolerance(0.01F));
  seconds = 10;
  BOOST_TEST(std::abs(told()) < 0.01F);
}

BOOST_AUTO_TEST_CASE(an_attack_from_settling_begins_with_the_first_delta_of_it) {
  begin({.kind = AttackKind::zeros, .from_settling = true});
  BOOST_TEST(told() == 1.5F, boost::test_tools::tolerance(0.01F));
  EncodeJob settling = encode(2);
  settling.near_enough = 0.01;
  settling.at_once = true;
  static_cast<void>(written(settling));
  BOOST_TEST(std::abs(told()) < 0.01F);
}

BOOST_AUTO_TEST_CASE(poison_is_refused_by_the_other_end_and_committed_by_none) {
  for (const AttackKind kind : {AttackKind::nan, AttackKind::infinity}) {
    begin({.kind = kind});
    const Encoded mine = written(encode(1));
    BOOST_TEST(!delta::check(mine.payload, kElements).has_value());
    base::Bytes their;
    BOOST_REQUIRE(neighbour.encode(id_of(0), {.density = 1.0, .bits = 8}, their).has_value());
    const auto before = own.mirror_hash(id_of(1), MirrorOf::theirs);
    const auto outcomes =
        run(CommitJob{.peer = id_of(1), .tag = 5, .own = mine.payload, .their = their, .w = 0.5F});
    BOOST_REQUIRE(outcomes.size() == 1);
    BOOST_TEST((std::get<exchange::Committed>(outcomes.front()).result ==
                exchange::CommitResult::applied));
    BOOST_TEST(own.mirror_hash(id_of(1), MirrorOf::theirs) == before);
  }
}

BOOST_AUTO_TEST_CASE(who_never_commits_sends_and_says_nothing_of_the_commit) {
  begin({.kind = AttackKind::never_commits});
  const Encoded mine = written(encode(1));
  BOOST_TEST(!mine.payload.empty());
  BOOST_TEST(run(CommitJob{.peer = id_of(1), .own = mine.payload, .their = mine.payload, .w = 0.5F})
                 .empty());
}

BOOST_AUTO_TEST_CASE(who_disagrees_is_far_apart_in_settling_alone) {
  begin({.kind = AttackKind::disagrees});
  EncodeJob job = encode(1);
  BOOST_TEST(written(job).drift < 1);
  job.near_enough = 0.5;
  job.may_skip = true;
  const Encoded apart = written(job);
  BOOST_TEST(!apart.skipped);
  BOOST_TEST(apart.drift == 1);
  BOOST_TEST(apart.mirror_error == 1);
}

BOOST_AUTO_TEST_CASE(who_lies_about_its_weight_says_the_largest) {
  begin({.kind = AttackKind::weight_lie});
  peer::Config config;
  attacker->arrange(config);
  BOOST_TEST((config.weight == wire::kWeightMax));
}

BOOST_AUTO_TEST_CASE(nothing_is_held_back_from_a_replica_that_tells_others) {
  begin({.kind = AttackKind::stale});
  exchange::Config config;
  attacker->arrange(config);
  BOOST_TEST(config.lambda == 0);
}

BOOST_AUTO_TEST_SUITE_END()
