// Links with momentum.
#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "delta/host_passes.hpp"
#include "exchange/weight.hpp"
#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::Rng;

namespace {

constexpr std::uint64_t kSeed = 91;
constexpr delta::Options kAll{.density = 1, .bits = 8};

/// Replicas of n elements at a ring's peers, each somewhere else, that have just met.
std::vector<Replica> merged_ring(std::size_t peers, std::size_t n, const Averaging& averaging) {
  Rng rng(kSeed);
  const std::vector<float> initial(n, 0.0F);
  std::vector<Replica> all;
  std::vector<Bytes> keyframes(peers);
  for (Bytes& keyframe : keyframes) {
    all.emplace_back(initial, 0.0F, BufferSpec{}, averaging);
    train(all.back(), rng, 1.0F);
    BOOST_REQUIRE(all.back().encode_keyframe(keyframe).has_value());
  }
  for (std::size_t i = 0; i < peers; ++i) {
    for (const std::size_t other : {(i + 1) % peers, (i + peers - 1) % peers}) {
      BOOST_REQUIRE(all[i].open_merge(peer(static_cast<std::uint8_t>(other)), keyframes[i],
                                      keyframes[other]));
    }
  }
  return all;
}

/// An exchange of everything on each of a ring's links; all deltas are written before any commit.
void ring_round(std::vector<Replica>& all) {
  const std::size_t peers = all.size();
  std::vector<Bytes> right(peers);
  std::vector<Bytes> left(peers);
  const auto at = [&](std::size_t i) { return peer(static_cast<std::uint8_t>(i % peers)); };
  for (std::size_t i = 0; i < peers; ++i) {
    encode(all[i], at(i + 1), kAll, right[i]);
    encode(all[i], at(i + peers - 1), kAll, left[i]);
  }
  for (std::size_t i = 0; i < peers; ++i) {
    const std::size_t next = (i + 1) % peers;
    const float w = 1.0F / 3.0F;
    const auto one = [&](std::size_t from, std::size_t to, const Bytes& own, const Bytes& their) {
      commit(all[from],
             {.peer = at(to), .own = own, .their = their, .w = w, .degree_inverse = 0.5F});
    };
    one(i, next, right[i], left[next]);
    one(next, i, left[next], right[i]);
    BOOST_REQUIRE(mirrors_equal(all[i], at(i), all[next], at(next)));
  }
}

double spread(const std::vector<Replica>& all) {
  double most = 0;
  for (const Replica& replica : all) {
    const auto x = x_of(replica);
    const auto first = x_of(all.front());
    for (std::size_t i = 0; i < x.size(); ++i) {
      most = std::max(most, static_cast<double>(std::abs(x[i] - first[i])));
    }
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(replica_momentum)

BOOST_AUTO_TEST_CASE(both_mirrors_and_the_replica_go_on_as_the_formulas_say) {
  constexpr std::size_t kN = 3000;
  constexpr float kMomentum = 0.6F;
  constexpr float kAhead = 0.7F;
  constexpr float kPart = 0.25F;
  constexpr float kW = 0.2F;
  const delta::EndParts parts = end_parts(3, 1);
  Rng rng(kSeed);
  const auto initial = noises(kN, rng);
  Replica replica(initial, 0.0F, {}, {.momentum = kMomentum, .momentum_step = kAhead});
  BOOST_REQUIRE(replica.open_fresh(peer(1)));
  std::vector<float> v(kN, 0.0F);
  auto mine = initial;
  auto theirs = initial;
  for (int t = 0; t < 20; ++t) {
    train(replica, rng, 0.1F);
    auto y = x_of(replica);
    Bytes own;
    Bytes their;
    encode(replica, peer(1), {.density = 0.05}, own);
    delta::HostDelta sent;
    const auto other = noises(kN, rng);
    BOOST_REQUIRE(delta::encode({.base = other, .offset = {}, .mirror = theirs}, {.density = 0.02},
                                their, sent));
    commit(replica, {.peer = peer(1),
                     .own = own,
                     .their = their,
                     .w = kW,
                     .parts = parts,
                     .degree_inverse = kPart});
    const auto mine_then = with_delta(mine, own);
    const auto theirs_then = with_delta(theirs, their);
    for (std::size_t i = 0; i < kN; ++i) {
      const auto agreed = [&](float own_at, float their_at) {
        return parts.own_share * own_at + parts.their_share * their_at;
      };
      const float moved = agreed(mine_then[i], theirs_then[i]) - agreed(mine[i], theirs[i]);
      v[i] = kMomentum * v[i] + 0.5F * moved;
      const float p = kAhead * v[i];
      mine[i] = mine_then[i] + p;
      theirs[i] = theirs_then[i] + p;
      y[i] += kPart * p;
      const float e = kW * (theirs[i] - mine[i]);
      mine[i] += parts.own * e;
      theirs[i] -= parts.their * e;
      y[i] += parts.own * e;
    }
    BOOST_TEST_CONTEXT("t " << t) {
      BOOST_REQUIRE(same(replica.mirror(peer(1), MirrorOf::mine), mine));
      BOOST_REQUIRE(same(replica.mirror(peer(1), MirrorOf::theirs), theirs));
      BOOST_REQUIRE(same(x_of(replica), y));
    }
  }
}

// Else who tells more and more of what leads nowhere takes it there by the momentum.
BOOST_AUTO_TEST_CASE(what_clips_the_step_clips_what_the_momentum_moves) {
  constexpr std::size_t kN = 300;
  constexpr float kRadius = 0.01F;
  Rng rng(kSeed);
  const auto initial = noises(kN, rng);
  Replica replica(initial, 0.0F, {}, {.momentum = 0.8F, .momentum_step = 0.2F});
  BOOST_REQUIRE(replica.open_fresh(peer(1)));
  auto before = x_of(replica);
  for (int t = 1; t <= 20; ++t) {
    Bytes own;
    Bytes their;
    encode(replica, peer(1), kAll, own);
    const auto theirs = replica.mirror(peer(1), MirrorOf::theirs);
    std::vector<float> other(theirs.begin(), theirs.end());
    for (float& value : other) value += static_cast<float>(t);
    delta::HostDelta sent;
    BOOST_REQUIRE(
        delta::encode({.base = other, .offset = {}, .mirror = theirs}, kAll, their, sent));
    commit(replica,
           {.peer = peer(1), .own = own, .their = their, .w = 0.5F, .own_radius = kRadius});
    const auto after = x_of(replica);
    double square = 0;
    for (std::size_t i = 0; i < kN; ++i) square += std::pow(double{after[i]} - before[i], 2);
    BOOST_TEST_CONTEXT("t " << t) { BOOST_TEST(std::sqrt(square) < 2 * kRadius); }
    before = after;
  }
}

BOOST_AUTO_TEST_CASE(both_ends_have_the_same_mirrors) {
  for (const MirrorType type : {MirrorType::float32, MirrorType::bfloat16}) {
    Rng rng(kSeed);
    const auto initial = noises(3000, rng);
    const Averaging averaging{.momentum = 0.8F, .momentum_step = 0.3F, .mirror = type};
    Replica a(initial, 0.8F, {}, averaging);
    Replica b(initial, 0.8F, {}, averaging);
    BOOST_REQUIRE(a.open_fresh(peer(2)));
    BOOST_REQUIRE(b.open_fresh(peer(1)));
    for (int t = 0; t < 100; ++t) {
      train(a, rng, 0.1F);
      train(b, rng, 0.1F);
      meet(a, peer(1), b, peer(2), 0.5F, {.density = 0.05, .bits = 1});
      BOOST_REQUIRE(mirrors_equal(a, peer(1), b, peer(2)));
    }
  }
}

// An agreed movement continues by itself, to 1 + momentum_step / (1 - momentum) times as far, and
// no delta has to carry the continuation.
BOOST_AUTO_TEST_CASE(what_momentum_moves_is_not_sent) {
  constexpr std::size_t kN = 100;
  const std::vector<float> initial(kN, 1.0F);
  constexpr Averaging kAveraging{.momentum = 0.9F, .momentum_step = 0.1F};
  Replica a(initial, 0.0F, {}, kAveraging);
  Replica b(initial, 0.0F, {}, kAveraging);
  BOOST_REQUIRE(a.open_fresh(peer(2)));
  BOOST_REQUIRE(b.open_fresh(peer(1)));
  for (float& y : a.trained()) y += 1.0F;
  for (int t = 0; t < 200; ++t) {
    meet(a, peer(1), b, peer(2), 0.5F, kAll);
    BOOST_TEST(a.distance(peer(2), MirrorOf::mine) < 1e-5);
    BOOST_TEST(b.distance(peer(1), MirrorOf::mine) < 1e-5);
  }
  // Half of a's step, since b made none.
  for (const Replica* replica : {&a, &b}) {
    for (const float x : x_of(*replica)) BOOST_TEST(std::abs(x - 2.0F) < 1e-4F);
  }
}

BOOST_AUTO_TEST_CASE(replicas_of_a_ring_come_together_sooner_with_momentum) {
  constexpr int kRounds = 30;
  double left[2];
  for (const bool has_momentum : {false, true}) {
    auto all = merged_ring(
        8, 50, has_momentum ? Averaging{.momentum = 0.5F, .momentum_step = 0.5F} : Averaging{});
    for (int t = 0; t < kRounds; ++t) ring_round(all);
    left[has_momentum ? 1 : 0] = spread(all);
  }
  BOOST_TEST(left[1] < 0.2 * left[0]);
}

// Processors take many times as long over subnormal numbers, in which it would end otherwise.
BOOST_AUTO_TEST_CASE(a_momentum_that_nothing_feeds_becomes_zero) {
  constexpr float kMomentum = 0.9F;
  constexpr int kStepsMax = 2000;
  std::vector<float> v{1.0F, -1.0F, 1e-10F, -1e-20F, 1e-38F};
  std::vector<float> mine(v.size(), 0.0F);
  std::vector<float> theirs(v.size(), 0.0F);
  std::vector<float> y(v.size(), 0.0F);
  int steps = 0;
  while (std::ranges::any_of(v, [](float value) { return value != 0; }) && steps < kStepsMax) {
    const std::vector<float> before(v.size(), 0.0F);
    std::ranges::fill(mine, 0.0F);
    std::ranges::fill(theirs, 0.0F);
    delta::passes::carry_on(v.data(), before.data(), mine.data(), theirs.data(), y.data(),
                            {.momentum = kMomentum, .momentum_step = 0.5F, .degree_inverse = 0.5F},
                            v.size());
    ++steps;
    for (const float value : v) BOOST_REQUIRE(std::fpclassify(value) != FP_SUBNORMAL);
  }
  BOOST_TEST(steps > 100);
  BOOST_TEST(steps < kStepsMax);
}

BOOST_AUTO_TEST_CASE(a_link_that_opens_again_has_no_momentum) {
  Rng rng(kSeed);
  const auto initial = noises(500, rng);
  Replica a(initial, 0.0F, {}, {.momentum = 0.9F, .momentum_step = 0.9F});
  Replica b(initial, 0.0F, {}, {.momentum = 0.9F, .momentum_step = 0.9F});
  BOOST_REQUIRE(a.open_fresh(peer(2)));
  BOOST_REQUIRE(b.open_fresh(peer(1)));
  train(a, rng, 0.1F);
  meet(a, peer(1), b, peer(2), 0.5F, kAll);
  a.close(peer(2));
  b.close(peer(1));
  Bytes ka;
  Bytes kb;
  BOOST_REQUIRE(a.encode_keyframe(ka));
  BOOST_REQUIRE(b.encode_keyframe(kb));
  BOOST_REQUIRE(a.open_merge(peer(2), ka, kb));
  BOOST_REQUIRE(b.open_merge(peer(1), kb, ka));
  for (int t = 0; t < 20; ++t) meet(a, peer(1), b, peer(2), 0.5F, kAll);
  const auto before = x_of(a);
  meet(a, peer(1), b, peer(2), 0.5F, kAll);
  BOOST_TEST(distance(before, x_of(a)) < 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
