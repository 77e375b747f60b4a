// Tracked link averaging against its formulas, to the bit.
#include <algorithm>
#include <array>
#include <numeric>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/hash.hpp"
#include "exchange/weight.hpp"
#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::Rng;

namespace {

// One element at a time, straight from the formulas.
struct Plain {
  std::vector<float> y;
  std::vector<float> r;
  std::vector<std::vector<float>> mine;
  std::vector<std::vector<float>> theirs;
  std::array<float, 3> parts{1, 1, 1};  ///< of each link's last step, that moved y

  void commit(std::size_t link, const delta::Elements& own, const delta::Elements& their, float w,
              const delta::EndParts& of) {
    for (std::size_t j = 0; j < own.size(); ++j) mine[link][own.indices[j]] += own.values[j];
    for (std::size_t j = 0; j < their.size(); ++j)
      theirs[link][their.indices[j]] += their.values[j];
    parts[link] = of.own;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float e = w * (theirs[link][i] - mine[link][i]);
      const float own_step = of.own * e;
      const float their_step = of.their * e;
      y[i] += own_step;
      mine[link][i] += own_step;
      theirs[link][i] -= their_step;
    }
  }

  // The part that a link's delta left out. `now`: of how many links it is the first; 0: it is not
  // the first.
  void hold_back(std::size_t link, const delta::Elements& delta, std::size_t now, float lambda) {
    const auto links = static_cast<float>(mine.size());
    const float heavy = std::max(std::accumulate(parts.begin(), parts.end(), 0.0F), 1.0F);
    const float gain = lambda * parts[link] / heavy;
    const float keep = 1.0F - static_cast<float>(now) / links;
    const auto move = [&](std::size_t i, auto&& held) {
      const float x = y[i] + r[i];
      r[i] = held(x);
      y[i] = x - r[i];
    };
    for (std::size_t i = 0; i < y.size(); ++i) {
      move(i, [&](float x) { return keep * r[i] + gain * (x - mine[link][i]); });
    }
    for (std::size_t j = 0; j < delta.size(); ++j) {
      const std::size_t i = delta.indices[j];
      move(i, [&](float) { return r[i] - gain * delta.values[j]; });
    }
  }
};

/// A weight of a peer, near to others' or far from them; now and then 0.
std::int8_t some_weight(Rng& rng) {
  if (rng.below(8) == 0) return wire::kNoWeight;
  const int range = rng.below(2) == 0 ? 2 : 30;
  return static_cast<std::int8_t>(static_cast<int>(rng.below(2 * range + 1)) - range);
}

const auto kMirrorTypes = boost::unit_test::data::make({MirrorType::float32, MirrorType::bfloat16});

}  // namespace

namespace starling::delta {

std::ostream& operator<<(std::ostream& out, MirrorType type) {
  return out << (type == MirrorType::float32 ? "float32" : "bfloat16");
}

}  // namespace starling::delta

BOOST_AUTO_TEST_SUITE(replica_averaging)

BOOST_AUTO_TEST_CASE(exchanges_of_several_links_follow_the_formulas_to_the_bit) {
  constexpr std::uint64_t kSeed = 81;
  Rng rng(kSeed);
  constexpr float kLambda = 0.5F;
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{63}, std::size_t{1025}, std::size_t{5000}}) {
    auto initial = noises(n, rng);
    // Zeros, and numbers at both ends of what a float can be.
    const std::array special{0.0F, 1e-45F, -3e-39F, 1e30F, -1e30F};
    for (std::size_t i = 3; i < n; i += 1 + rng.below(200)) initial[i] = special[rng.below(5)];
    Replica replica(initial, kLambda);
    Plain plain{initial,
                std::vector<float>(n, 0.0F),
                {initial, initial, initial},
                {initial, initial, initial}};
    for (std::uint8_t k = 0; k < 3; ++k) BOOST_REQUIRE(replica.open_fresh(peer(k)).has_value());
    for (int t = 0; t < 30; ++t) {
      train(replica, rng, 0.1F);
      std::ranges::copy(replica.trained(), plain.y.begin());
      std::array<Bytes, 3> own;
      std::array<Bytes, 3> their;
      // Staged in any order, committed in order of peer id; not every link each time.
      std::vector<std::uint8_t> writing;
      for (const std::uint8_t k : {std::uint8_t{2}, std::uint8_t{0}, std::uint8_t{1}}) {
        if (rng.below(4) != 0) writing.push_back(k);
      }
      // The only one of its moment needs no word.
      if (writing.size() > 1) replica.expect_deltas(writing.size());
      for (const std::uint8_t k : writing) {
        BOOST_REQUIRE(replica.encode(peer(k), {.density = 0.05, .bits = 4}, own[k]));
        plain.hold_back(k, decoded(own[k], n), k == writing.front() ? writing.size() : 0, kLambda);
        delta::HostDelta sent;
        const auto other = noises(n, rng);
        BOOST_REQUIRE(delta::encode({.base = other, .offset = {}, .mirror = plain.theirs[k]},
                                    {.density = 0.05, .bits = 8}, their[k], sent));
        if (!own[k].empty()) BOOST_REQUIRE(!their[k].empty());
      }
      BOOST_REQUIRE(same(replica.trained(), plain.y));
      std::array<delta::EndParts, 3> parts;
      for (delta::EndParts& of : parts) of = end_parts(some_weight(rng), some_weight(rng));
      for (const std::uint8_t k : {std::uint8_t{2}, std::uint8_t{0}, std::uint8_t{1}}) {
        if (own[k].empty()) continue;
        BOOST_REQUIRE(replica.stage(
            {.peer = peer(k), .own = own[k], .their = their[k], .w = 0.2F, .parts = parts[k]}));
      }
      replica.apply_staged();
      for (std::uint8_t k = 0; k < 3; ++k) {
        if (own[k].empty()) continue;
        plain.commit(k, decoded(own[k], n), decoded(their[k], n), 0.2F, parts[k]);
      }
      BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", t " << t) {
        for (std::uint8_t k = 0; k < 3; ++k) {
          BOOST_REQUIRE(same(replica.mirror(peer(k), MirrorOf::mine), plain.mine[k]));
          BOOST_REQUIRE(same(replica.mirror(peer(k), MirrorOf::theirs), plain.theirs[k]));
        }
        BOOST_REQUIRE(same(replica.trained(), plain.y));
        for (std::size_t i = 0; i < n; ++i)
          BOOST_REQUIRE(x_of(replica)[i] == plain.y[i] + plain.r[i]);
      }
    }
  }
}

// CHOCO-SGD's algorithm 2, written once more: both ends move toward each other by the difference of
// their mirrors, and the mirrors stay.
BOOST_AUTO_TEST_CASE(choco_moves_replicas_and_leaves_the_mirrors_as_the_deltas_made_them) {
  constexpr std::uint64_t kSeed = 84;
  Rng rng(kSeed);
  constexpr std::size_t kN = 1500;
  constexpr float kW = 0.5F;
  constexpr Averaging kChoco{.mode = Mode::choco, .gamma = 0.25F};
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.0F, {}, kChoco);
  Replica b(initial, 0.0F, {}, kChoco);
  BOOST_REQUIRE(a.open_fresh(peer(2)).has_value());
  BOOST_REQUIRE(b.open_fresh(peer(1)).has_value());
  std::vector<float> of_a = initial;
  std::vector<float> of_b = initial;
  for (int t = 0; t < 50; ++t) {
    train(a, rng, 0.05F);
    train(b, rng, 0.02F);
    std::vector<float> x = x_of(a);
    Bytes qa;
    Bytes qb;
    encode(a, peer(2), {.density = 0.05}, qa);
    encode(b, peer(1), {.density = 0.02}, qb);
    commit(a, {.peer = peer(2), .own = qa, .their = qb, .w = kW});
    commit(b, {.peer = peer(1), .own = qb, .their = qa, .w = kW});
    for (auto [bytes, mirror] : {std::pair{&qa, &of_a}, std::pair{&qb, &of_b}}) {
      const auto delta = decoded(*bytes, kN);
      for (std::size_t j = 0; j < delta.size(); ++j) (*mirror)[delta.indices[j]] += delta.values[j];
    }
    for (std::size_t i = 0; i < kN; ++i) x[i] += kChoco.gamma * kW * (of_b[i] - of_a[i]);
    BOOST_TEST_CONTEXT("seed " << kSeed << ", t " << t) {
      BOOST_REQUIRE(mirrors_equal(a, peer(1), b, peer(2)));
      BOOST_REQUIRE(same(a.mirror(peer(2), MirrorOf::mine), of_a));
      BOOST_REQUIRE(same(a.trained(), x));  // nothing is held back
    }
  }
}

BOOST_AUTO_TEST_CASE(
    an_average_in_bfloat16_is_the_one_in_float32_rounded_by_the_draw_of_each_element) {
  constexpr std::uint64_t kSeed = 89;
  Rng rng(kSeed);
  for (std::size_t n = 1; n < 100; ++n) {
    const auto draws = static_cast<std::uint32_t>(rng());
    const auto first = static_cast<std::uint32_t>(rng.below(1U << 31));
    const delta::ReplicaMemory::CommitStep step{
        .w = 0.3F,
        .parts = end_parts(some_weight(rng), some_weight(rng)),
        .moves_mirrors = n % 4 != 0};
    const auto before_y = noises(n, rng);
    const auto before_mine = noises(n, rng);
    const auto before_theirs = noises(n, rng);
    auto y = before_y;
    std::vector<base::BFloat16> mine(n);
    std::vector<base::BFloat16> theirs(n);
    delta::passes::average_halves(
        y.data(), before_mine.data(), before_theirs.data(), step,
        {.mine = mine.data(), .theirs = theirs.data(), .seed = draws, .first = first}, n);
    auto full_y = before_y;
    auto full_mine = before_mine;
    auto full_theirs = before_theirs;
    delta::passes::average(full_y.data(), full_mine.data(), full_theirs.data(), step, n);
    BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n) {
      BOOST_TEST(same(y, full_y));
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t more = base::draw(draws, first + i);
        BOOST_REQUIRE(mine[i].bits == base::narrow(full_mine[i], more).bits);
        BOOST_REQUIRE(theirs[i].bits == base::narrow(full_theirs[i], more).bits);
      }
    }
  }
}

BOOST_DATA_TEST_CASE(mirrors_are_bit_equal_at_both_ends_after_every_commit, kMirrorTypes) {
  constexpr std::uint64_t kSeed = 82;
  Rng rng(kSeed);
  constexpr std::size_t kN = 2500;
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F, {}, {.mirror = sample});
  Replica b(initial, 0.5F, {}, {.mirror = sample});
  BOOST_REQUIRE(a.open_fresh(peer(2)).has_value());
  BOOST_REQUIRE(b.open_fresh(peer(1)).has_value());
  for (int t = 0; t < 500; ++t) {
    train(a, rng, 0.05F);
    train(b, rng, 0.02F);
    const delta::Options options{.density = 0.001 + 0.1 * rng.uniform(),
                                 .bits = std::array{1, 2, 3, 4, 8}[rng.below(5)],
                                 .block = static_cast<std::uint32_t>(1 + rng.below(300))};
    const float w = 1.0F / static_cast<float>(2 + rng.below(64));
    Bytes qa;
    Bytes qb;
    encode(a, peer(2), options, qa);
    train(a, rng, 0.05F);  // an exchange is in flight while its ends go on
    encode(b, peer(1), {.density = 0.02}, qb);
    train(b, rng, 0.05F);
    const base::ExchangeNumber number{static_cast<std::uint64_t>(t)};
    const std::int8_t weights[2] = {some_weight(rng), some_weight(rng)};
    commit(a, {.peer = peer(2),
               .exchange = number,
               .own = qa,
               .their = qb,
               .w = w,
               .parts = end_parts(weights[0], weights[1])});
    train(a, rng, 0.05F);
    commit(b, {.peer = peer(1),
               .exchange = number,
               .own = qb,
               .their = qa,
               .w = w,
               .parts = end_parts(weights[1], weights[0])});
    BOOST_TEST_CONTEXT("seed " << kSeed << ", t " << t) {
      BOOST_REQUIRE(mirrors_equal(a, peer(1), b, peer(2)));
    }
  }
}

BOOST_DATA_TEST_CASE(zeros_of_either_sign_stay_bit_equal, kMirrorTypes) {
  // a - a is +0 at both ends, where the other end would need -0: only mirrors without -0 survive.
  const std::vector<float> initial{-0.0F, 0.0F, 1.0F, -1.0F};
  Replica a(initial, 0.5F, {}, {.mirror = sample});
  Replica b(initial, 0.5F, {}, {.mirror = sample});
  BOOST_REQUIRE(a.open_fresh(peer(2)).has_value());
  BOOST_REQUIRE(b.open_fresh(peer(1)).has_value());
  for (int t = 0; t < 4; ++t) {
    a.trained()[2] -= 1.0F;  // elements that come to cancel
    b.trained()[3] += 1.0F;
    meet(a, peer(1), b, peer(2), 0.5F, {.density = 1.0, .bits = 8});
    BOOST_TEST(mirrors_equal(a, peer(1), b, peer(2)));
  }
}

// Mirrors in bfloat16 are as coarse as 1/128 of a value; what two replicas come nearer by at a
// commit may be less than that, and is seldom among the largest differences.
BOOST_AUTO_TEST_CASE(bfloat16_mirrors_lose_no_step_that_is_too_small_for_them) {
  constexpr std::uint64_t kSeed = 86;
  Rng rng(kSeed);
  constexpr std::size_t kN = 4000;
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.0F, {}, {.mirror = MirrorType::bfloat16});
  Replica b(initial, 0.0F, {}, {.mirror = MirrorType::bfloat16});
  BOOST_REQUIRE(a.open_fresh(peer(2)).has_value());
  BOOST_REQUIRE(b.open_fresh(peer(1)).has_value());
  train(a, rng, 0.02F);
  train(b, rng, 0.02F);
  const auto of_a = x_of(a);
  const auto of_b = x_of(b);
  for (std::uint64_t t = 0; t < 400; ++t) {
    Bytes qa;
    Bytes qb;
    encode(a, peer(2), {.density = 0.02}, qa);
    encode(b, peer(1), {.density = 0.02}, qb);
    commit(a, {.peer = peer(2), .exchange = {t}, .own = qa, .their = qb, .w = 0.25F});
    commit(b, {.peer = peer(1), .exchange = {t}, .own = qb, .their = qa, .w = 0.25F});
    BOOST_REQUIRE(mirrors_equal(a, peer(1), b, peer(2)));
  }
  const auto x = x_of(a);
  const auto other = x_of(b);
  BOOST_TEST_CONTEXT("seed " << kSeed) {
    BOOST_TEST(distance(of_a, of_b) > 0.02);
    BOOST_TEST(distance(x, other) < 0.006);
    for (std::size_t i = 0; i < kN; ++i) {  // what one gains the other loses
      BOOST_REQUIRE(std::fabs((x[i] + other[i]) - (of_a[i] + of_b[i])) < 1e-4F);
    }
  }
}

// The numbers are sums of few powers of two, so that nothing is rounded.
BOOST_AUTO_TEST_CASE(a_commit_conserves_the_sum_of_replicas_times_their_weights) {
  constexpr std::size_t kN = 64;
  for (const auto& [weight_a, weight_b] : {std::pair(0, 0), {3, 0}, {-2, 5}, {0, 10}}) {
    Replica a(std::vector<float>(kN, 0.0F), 0.0F);
    Replica b(std::vector<float>(kN, 0.0F), 0.0F);
    BOOST_REQUIRE(a.open_fresh(peer(2)));
    BOOST_REQUIRE(b.open_fresh(peer(1)));
    for (std::size_t i = 0; i < kN; ++i) a.trained()[i] = static_cast<float>(1 << i % 8);
    Bytes qa;
    Bytes qb;
    encode(a, peer(2), {.density = 1.0, .bits = 8, .block = 16}, qa);
    encode(b, peer(1), {.density = 1.0, .bits = 8, .block = 16}, qb);
    const auto before = x_of(a);
    const auto own = static_cast<std::int8_t>(weight_a);
    const auto their = static_cast<std::int8_t>(weight_b);
    commit(a, {.peer = peer(2), .own = qa, .their = qb, .w = 0.5F, .parts = end_parts(own, their)});
    commit(b, {.peer = peer(1), .own = qb, .their = qa, .w = 0.5F, .parts = end_parts(their, own)});
    const auto x = x_of(a);
    const auto other = x_of(b);
    for (std::size_t i = 0; i < kN; ++i) {
      BOOST_REQUIRE(std::ldexp(x[i], weight_a) + std::ldexp(other[i], weight_b) ==
                    std::ldexp(before[i], weight_a));
    }
    BOOST_TEST((other[7] != 0 && x[7] < before[7]));
  }
}

BOOST_AUTO_TEST_CASE(equal_replicas_do_not_move_each_other) {
  Rng rng(83);
  const auto initial = noises(1000, rng);
  Replica a(initial, 0.5F);
  Replica b(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(peer(2)).has_value());
  BOOST_REQUIRE(b.open_fresh(peer(1)).has_value());
  meet(a, peer(1), b, peer(2), 0.5F, {});
  BOOST_TEST(same(x_of(a), initial));
  BOOST_TEST(same(a.trained(), initial));
}

BOOST_DATA_TEST_CASE(a_fixed_history_gives_the_same_mirrors_on_every_machine_and_with_every_flag,
                     kMirrorTypes) {
  // The constants come from a build without optimization; an FMA or a reordered sum would move
  // them.
  struct Hashes {
    std::uint64_t mine, theirs, y;
  };
  const Hashes expected =
      sample == MirrorType::float32
          ? Hashes{8017499417044012175U, 16884721396952296799U, 10661532854031757163U}
          : Hashes{2001395923480956321U, 16617049682916824935U, 17509078628094706392U};
  Rng rng(84);
  const auto initial = noises(40000, rng);
  Replica a(initial, 0.5F, {}, {.mirror = sample});
  Replica b(initial, 0.5F, {}, {.mirror = sample});
  train(a, rng, 0.3F);
  Bytes keyframe_a;
  Bytes keyframe_b;
  BOOST_REQUIRE(a.encode_keyframe(keyframe_a).has_value());
  BOOST_REQUIRE(b.encode_keyframe(keyframe_b).has_value());
  BOOST_REQUIRE(a.open_merge(peer(2), keyframe_a, keyframe_b).has_value());
  BOOST_REQUIRE(b.open_merge(peer(1), keyframe_b, keyframe_a).has_value());
  for (const int bits : {2, 4, 8}) {
    train(a, rng, 0.1F);
    train(b, rng, 0.1F);
    meet(a, peer(1), b, peer(2), 1.0F / 3.0F, {.density = 0.02, .bits = bits});
  }
  BOOST_TEST(mirrors_equal(a, peer(1), b, peer(2)));
  BOOST_TEST(a.mirror_hash(peer(2), MirrorOf::mine) == expected.mine);
  BOOST_TEST(a.mirror_hash(peer(2), MirrorOf::theirs) == expected.theirs);
  BOOST_TEST(base::xxh3(base::bytes_of(std::span<const float>(a.trained()))) == expected.y);
}

BOOST_AUTO_TEST_SUITE_END()
