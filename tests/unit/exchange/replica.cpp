// The life of a link, and what a hostile one cannot do.
#include "exchange/replica.hpp"

#include <cstring>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::Rng;

namespace {

constexpr std::size_t kN = 3000;
const base::PeerId kA = peer(1);
const base::PeerId kB = peer(2);
const base::PeerId kC = peer(3);

Bytes keyframe(const Replica& replica) {
  Bytes bytes;
  BOOST_REQUIRE(replica.encode_keyframe(bytes).has_value());
  return bytes;
}

// All that a failed call must leave as it was.
struct Snapshot {
  explicit Snapshot(const Replica& replica, const base::PeerId& link)
      : y(replica.trained().begin(), replica.trained().end()),
        x(x_of(replica)),
        mine(replica.mirror_hash(link, MirrorOf::mine)),
        theirs(replica.mirror_hash(link, MirrorOf::theirs)) {}

  friend bool operator==(const Snapshot&, const Snapshot&) = default;

  std::vector<float> y;
  std::vector<float> x;
  std::uint64_t mine;
  std::uint64_t theirs;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(replica)

BOOST_AUTO_TEST_CASE(without_a_link_what_is_trained_is_the_replica) {
  Rng rng(61);
  const auto initial = noises(kN, rng);
  Replica replica(initial, 0.5F);
  BOOST_TEST(same(replica.trained(), initial));
  train(replica, rng, 0.1F);
  BOOST_TEST(same(replica.trained(), x_of(replica)));
}

BOOST_AUTO_TEST_CASE(a_fresh_link_stands_at_the_initial_parameters_on_both_ends) {
  Rng rng(62);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  BOOST_TEST(same(a.mirror(kB, MirrorOf::mine), initial));
  BOOST_TEST(same(a.mirror(kB, MirrorOf::theirs), initial));
  BOOST_TEST(a.open_links() == 1U);
}

BOOST_AUTO_TEST_CASE(what_a_delta_leaves_out_is_held_back_until_the_link_closes) {
  Rng rng(63);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  train(a, rng, 0.1F);
  const auto x = x_of(a);
  BOOST_TEST(same(a.trained(), x));
  Bytes bytes;
  encode(a, kB, {.density = 0.1}, bytes);
  const auto known = with_delta(initial, bytes);
  for (std::size_t i = 0; i < kN; ++i) {
    const float left_out = x[i] - known[i];
    BOOST_REQUIRE(std::fabs(a.trained()[i] - (x[i] - 0.5F * left_out)) < 1e-6F);
  }
  BOOST_TEST(distance(x, x_of(a)) < 1e-7);
  a.close(kB);
  BOOST_TEST(!a.has(kB));
  BOOST_TEST(distance(x, x_of(a)) < 1e-7);
  BOOST_TEST(same(a.trained(), x_of(a)));
}

BOOST_AUTO_TEST_CASE(what_is_trained_after_a_delta_was_written_is_not_held_back) {
  Rng rng(72);
  const auto initial = noises(kN, rng);
  Replica a(initial, 1.0F);
  Replica b(initial, 1.0F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  BOOST_REQUIRE(b.open_fresh(kA).has_value());
  Bytes qa;
  Bytes qb;
  encode(a, kB, {.density = 1.0, .bits = 8}, qa);  // of nothing: all is known
  encode(b, kA, {.density = 1.0, .bits = 8}, qb);
  train(a, rng, 0.1F);
  const auto x = x_of(a);
  commit(a, {.peer = kB, .own = qa, .their = qb, .w = 0.5F});
  BOOST_TEST(same(x_of(a), x));
  BOOST_TEST(same(a.trained(), x));
}

BOOST_AUTO_TEST_CASE(links_that_write_in_turn_share_what_is_held_back) {
  // Two links, of which one alone writes: its part grows to all of it, and the other is forgotten.
  Rng rng(73);
  const auto initial = noises(kN, rng);
  Replica a(initial, 1.0F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  BOOST_REQUIRE(a.open_fresh(kC).has_value());
  train(a, rng, 0.1F);
  const auto x = x_of(a);
  Bytes bytes;
  std::vector<float> expected = x;
  double rest = 1.0;
  for (int t = 0; t < 8; ++t) {
    encode(a, kB, {.density = 0.001}, bytes);
    rest /= 2;
  }
  const auto known = with_delta(initial, bytes);
  for (std::size_t i = 0; i < kN; ++i) {
    expected[i] -= static_cast<float>(1.0 - rest) * (x[i] - known[i]);
  }
  BOOST_TEST(distance(expected, {a.trained().begin(), a.trained().end()}) < 1e-5);
  BOOST_TEST(distance(x, x_of(a)) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_suspended_link_does_not_count_and_keeps_its_mirrors) {
  Rng rng(64);
  Replica a(noises(kN, rng), 1.0F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  BOOST_REQUIRE(a.open_fresh(kC).has_value());
  train(a, rng, 0.1F);
  const auto x = x_of(a);
  const auto hash = a.mirror_hash(kB, MirrorOf::mine);
  Bytes bytes;
  encode(a, kB, {.density = 0.01}, bytes);
  BOOST_TEST(!same(a.trained(), x_of(a)));
  a.suspend(kB);
  a.suspend(kC);
  BOOST_TEST(a.open_links() == 0U);
  BOOST_TEST(same(a.trained(), x_of(a)));
  a.resume(kB);
  BOOST_TEST(a.open_links() == 1U);
  BOOST_TEST(a.mirror_hash(kB, MirrorOf::mine) == hash);
  BOOST_TEST(distance(x, x_of(a)) < 1e-6);
}

BOOST_AUTO_TEST_CASE(merging_ends_keep_their_replicas_and_agree_on_both_mirrors) {
  Rng rng(65);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  Replica b(initial, 0.5F);
  train(a, rng, 0.2F);
  train(b, rng, 0.2F);
  const auto x = x_of(a);
  const Bytes ka = keyframe(a);
  const Bytes kb = keyframe(b);
  BOOST_REQUIRE(a.open_merge(kB, ka, kb).has_value());
  BOOST_REQUIRE(b.open_merge(kA, kb, ka).has_value());
  BOOST_TEST(mirrors_equal(a, kA, b, kB));
  BOOST_TEST(distance(x, x_of(a)) < 1e-6);
  const auto mine = a.mirror(kB, MirrorOf::mine);
  BOOST_TEST(distance(x, {mine.begin(), mine.end()}) < 0.005);
  const double apart = distance(x_of(a), x_of(b));
  for (int t = 0; t < 20; ++t) meet(a, kA, b, kB, 0.5F, {.density = 0.1});
  BOOST_TEST(distance(x_of(a), x_of(b)) < 0.05 * apart);
}

BOOST_AUTO_TEST_CASE(an_adopting_end_stands_where_the_giver_says_to_the_bit) {
  Rng rng(66);
  const auto initial = noises(kN, rng);
  Replica giver(initial, 0.5F);
  Replica taker(initial, 0.5F);
  train(giver, rng, 0.3F);
  const Bytes k = keyframe(giver);
  BOOST_REQUIRE(giver.open_gave(kB, k).has_value());
  BOOST_REQUIRE(taker.open_adopted(kA, k).has_value());
  BOOST_TEST(mirrors_equal(giver, kA, taker, kB));
  BOOST_TEST(same(taker.mirror(kA, MirrorOf::mine), x_of(taker)));
  BOOST_TEST(same(taker.trained(), x_of(taker)));
  BOOST_TEST(distance(x_of(giver), x_of(taker)) < 0.005);
  meet(giver, kA, taker, kB, 0.5F, {.density = 0.05});
  BOOST_TEST(mirrors_equal(giver, kA, taker, kB));
}

BOOST_AUTO_TEST_CASE(a_damaged_keyframe_opens_nothing_and_changes_nothing) {
  Rng rng(67);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  train(a, rng, 0.2F);
  const Bytes good = keyframe(a);
  Bytes bad = good;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bad.data() + delta::format::kHeaderBytes, &nan, sizeof nan);
  const Snapshot before(a, kB);
  BOOST_TEST(!a.open_merge(kC, good, bad).has_value());
  BOOST_TEST(!a.open_merge(kC, bad, good).has_value());
  BOOST_TEST(!a.open_adopted(kC, bad).has_value());
  BOOST_TEST(!a.open_gave(kC, bad).has_value());
  BOOST_TEST(!a.open_adopted(kC, base::ByteView(good).first(100)).has_value());
  BOOST_TEST(!a.has(kC));
  BOOST_TEST((before == Snapshot(a, kB)));
}

BOOST_AUTO_TEST_CASE(a_hostile_delta_changes_nothing) {
  Rng rng(68);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  train(a, rng, 0.2F);
  Bytes own;
  encode(a, kB, {.density = 0.05}, own);
  const auto shape = delta::check(own, kN);
  BOOST_REQUIRE(shape.has_value());
  const auto at = static_cast<std::size_t>(shape->scales.data() - own.data());
  const Snapshot before(a, kB);
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e30F, -1.0F}) {
    Bytes bad = own;
    std::memcpy(bad.data() + at, &scale, sizeof scale);
    const auto status = a.stage({.peer = kB, .own = own, .their = bad, .w = 0.5F});
    BOOST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().code == base::ErrorCode::protocol));
  }
  BOOST_TEST(!a.stage({.peer = kB, .own = own, .their = {}, .w = 0.5F}).has_value());
  BOOST_TEST((before == Snapshot(a, kB)));
}

BOOST_AUTO_TEST_CASE(a_mirror_cannot_be_pushed_beyond_its_bound_in_many_steps) {
  Replica a(std::vector<float>(100, 0.0F), 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  // The deltas of a peer whose replica diverges: each payload is sound by itself.
  const std::vector<float> far(100, 9e29F);
  const std::vector<float> zero(100, 0.0F);
  delta::HostDelta sent;
  Bytes push;
  const delta::Options all{.density = 1.0, .bits = 8};
  BOOST_REQUIRE(delta::encode({.base = far, .offset = {}, .mirror = zero}, all, push, sent));
  Bytes own;
  bool refused = false;
  for (int t = 0; t < 10 && !refused; ++t) {
    encode(a, kB, all, own);
    const Snapshot before(a, kB);
    refused = !a.stage({.peer = kB, .own = own, .their = push, .w = 0.01F}).has_value();
    a.apply_staged();
    if (refused) BOOST_TEST((before == Snapshot(a, kB)));
    for (const float value : a.mirror(kB, MirrorOf::theirs))
      BOOST_REQUIRE(std::fabs(value) <= 1e30F);
  }
  BOOST_TEST(refused);
}

BOOST_AUTO_TEST_CASE(a_refused_exchange_does_not_stop_those_staged_beside_it) {
  Rng rng(69);
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  Replica b(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  BOOST_REQUIRE(a.open_fresh(kC).has_value());
  BOOST_REQUIRE(b.open_fresh(kA).has_value());
  train(a, rng, 0.1F);
  train(b, rng, 0.1F);
  Bytes to_b;
  Bytes to_c;
  Bytes to_a;
  encode(a, kB, {.density = 0.01}, to_b);
  encode(a, kC, {.density = 0.01}, to_c);
  encode(b, kA, {.density = 0.01}, to_a);
  const auto to_kc = a.mirror_hash(kC, MirrorOf::mine);
  BOOST_TEST(a.stage({.peer = kB, .own = to_b, .their = to_a, .w = 0.25F}).has_value());
  const Bytes cut(to_a.begin(), to_a.begin() + 5);
  BOOST_TEST(!a.stage({.peer = kC, .own = to_c, .their = cut, .w = 0.25F}).has_value());
  a.apply_staged();
  commit(b, {.peer = kA, .own = to_a, .their = to_b, .w = 0.25F});
  BOOST_TEST(mirrors_equal(a, kA, b, kB));
  BOOST_TEST(a.mirror_hash(kC, MirrorOf::mine) == to_kc);
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_not_finite_is_reported_and_not_sent) {
  Rng rng(70);
  Replica a(noises(kN, rng), 0.5F);
  BOOST_REQUIRE(a.open_fresh(kB).has_value());
  a.trained()[17] = std::numeric_limits<float>::quiet_NaN();
  Bytes out;
  BOOST_TEST((a.encode(kB, {}, out).error().code == base::ErrorCode::diverged));
  BOOST_TEST((a.encode_keyframe(out).error().code == base::ErrorCode::diverged));
}

BOOST_AUTO_TEST_CASE(drift_is_the_distance_to_the_neighbours_mirror) {
  constexpr std::uint64_t kSeed = 71;
  Rng rng(kSeed);
  for (const std::size_t n : {std::size_t{500}, std::size_t{200000}}) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n) {
      const auto initial = noises(n, rng);
      Replica a(initial, 0.5F);
      BOOST_REQUIRE(a.open_fresh(kB).has_value());
      Bytes out;
      BOOST_TEST(a.encode(kB, {}, out).value() == 0.0);
      train(a, rng, 0.1F);
      const double drift = a.encode(kB, {}, out).value();
      const double exact = distance(x_of(a), initial);
      BOOST_TEST(std::fabs(drift - exact) < (n < 1000 ? 1e-9 : 0.05) * exact);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
