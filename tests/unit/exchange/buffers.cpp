#include "exchange/buffers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "delta/format.hpp"
#include "exchange/jobs.hpp"
#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::ErrorCode;
using base::Rng;
using delta::format::kMagnitudeMax;

namespace {

constexpr std::size_t kN = 500;
const base::PeerId kA = peer(1);
const base::PeerId kB = peer(2);

using Values = std::vector<float>;

/// A mean and a variance.
BufferSpec pair_spec() { return {{0.0F, 1.0F}, {-kMagnitudeMax, 0.0F}}; }

Values values_of(const Buffers& buffers) {
  return {buffers.values().begin(), buffers.values().end()};
}

Bytes bytes_of(const Values& values) {
  const auto bytes = base::bytes_of(std::span(values));
  return {bytes.begin(), bytes.end()};
}

void set(Replica& replica, const Values& values) {
  BOOST_REQUIRE(replica.buffers().set(values, ErrorCode::data).has_value());
}

/// Values that no buffers of pair_spec() may have.
const std::vector<Values> kBad{{},
                               {0.0F},
                               {0.0F, 1.0F, 0.0F},
                               {0.0F, -1e-30F},
                               {std::numeric_limits<float>::quiet_NaN(), 1.0F},
                               {0.0F, std::numeric_limits<float>::quiet_NaN()},
                               {std::numeric_limits<float>::infinity(), 1.0F},
                               {-std::numeric_limits<float>::infinity(), 1.0F},
                               {0.0F, 1.1e30F},
                               {-1.1e30F, 1.0F}};

/// Two replicas with a link between them and the payloads of an exchange.
struct Pair {
  Pair() {
    BOOST_REQUIRE(a.open_fresh(kB).has_value());
    BOOST_REQUIRE(b.open_fresh(kA).has_value());
    train(a, rng, 0.1F);
    train(b, rng, 0.1F);
    encode(a, kB, {.density = 0.1}, qa);
    encode(b, kA, {.density = 0.1}, qb);
  }
  Rng rng{71};
  Values initial = noises(kN, rng);
  Replica a{initial, 0.5F, pair_spec()};
  Replica b{initial, 0.5F, pair_spec()};
  Bytes qa, qb;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(buffers)

BOOST_AUTO_TEST_CASE(what_one_writes_another_reads) {
  Buffers one(pair_spec());
  BOOST_REQUIRE(one.set(Values{-3.5F, 0.25F}, ErrorCode::data).has_value());
  Bytes bytes;
  BOOST_REQUIRE(one.write(bytes).has_value());
  BOOST_TEST(bytes.size() == 8U);
  const auto read = Buffers(pair_spec()).read(bytes);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(same(*read, Values{-3.5F, 0.25F}));
}

BOOST_AUTO_TEST_CASE(what_one_puts_behind_values_another_takes_from_them) {
  Buffers one(pair_spec());
  BOOST_REQUIRE(one.set(Values{-3.5F, 0.25F}, ErrorCode::data).has_value());
  Values both = one.behind(Values{1.0F, 2.0F, 3.0F});
  BOOST_TEST(same(both, Values{1.0F, 2.0F, 3.0F, -3.5F, 0.25F}));
  Buffers other(pair_spec());
  const auto values = other.take_from(both, ErrorCode::data);
  BOOST_REQUIRE(values.has_value());
  BOOST_TEST(same(*values, Values{1.0F, 2.0F, 3.0F}));
  BOOST_TEST(same(values_of(other), values_of(one)));
  both.back() = -1.0F;
  BOOST_TEST(!other.take_from(both, ErrorCode::data).has_value());
  BOOST_TEST(same(values_of(other), values_of(one)));
}

BOOST_AUTO_TEST_CASE(values_out_of_bounds_are_neither_taken_nor_read_nor_written) {
  for (const Values& bad : kBad) {
    BOOST_TEST_CONTEXT("values " << fmt::format("{}", fmt::join(bad, " "))) {
      Buffers one(pair_spec());
      const auto taken = one.set(bad, ErrorCode::data);
      BOOST_REQUIRE(!taken.has_value());
      BOOST_TEST((taken.error().code == ErrorCode::data));
      BOOST_TEST(same(values_of(one), Values{0.0F, 1.0F}));
      const auto read = one.read(bytes_of(bad));
      BOOST_REQUIRE(!read.has_value());
      BOOST_TEST((read.error().code == ErrorCode::protocol));
      if (bad.size() != 2) continue;
      std::ranges::copy(bad, one.values().begin());  // as training that diverges does
      Bytes bytes;
      const auto written = one.write(bytes);
      BOOST_REQUIRE(!written.has_value());
      BOOST_TEST((written.error().code == ErrorCode::diverged));
    }
  }
}

BOOST_AUTO_TEST_CASE(averages_of_values_within_bounds_stay_within_them) {
  Rng rng(72);
  const auto draw = [&] {
    const double exponent = 75 * rng.uniform() - 45;  // subnormal to the largest
    return static_cast<float>(std::pow(10.0, std::min(exponent, 30.0)) * rng.uniform());
  };
  Buffers one({Values(1, 0.0F), Values(1, 0.0F)});
  for (int i = 0; i < 20'000; ++i) {
    const float mine = rng.below(8) == 0 ? 0.0F : draw();
    const float theirs = rng.below(8) == 0 ? 0.0F : draw();
    const auto w = static_cast<float>(1.0 / (2.0 + static_cast<double>(rng.below(63))));
    BOOST_REQUIRE(one.set(Values{mine}, ErrorCode::internal).has_value());
    one.average(Values{theirs}, w);
    BOOST_REQUIRE(one.values()[0] >= std::min(mine, theirs));
    BOOST_REQUIRE(one.values()[0] <= std::max(mine, theirs));
  }
}

BOOST_AUTO_TEST_CASE(distance_is_relative) {
  Buffers one({Values{3.0F, 4.0F}, Values{-kMagnitudeMax, 0.0F}});
  BOOST_TEST(one.distance(Values{3.0F, 4.0F}) == 0.0);
  BOOST_TEST(one.distance(Values{3.0F, 5.0F}) == 0.2, boost::test_tools::tolerance(1e-9));
  Buffers zero({Values{0.0F}, Values{0.0F}});
  BOOST_TEST(zero.distance(Values{0.0F}) == 0.0);
  BOOST_TEST(zero.distance(Values{1.0F}) == 1.0);
}

BOOST_FIXTURE_TEST_CASE(an_exchange_that_carries_buffers_averages_them_at_both_ends, Pair) {
  set(a, {1.0F, 2.0F});
  set(b, {3.0F, 6.0F});
  const Bytes ba = bytes_of({1.0F, 2.0F});
  const Bytes bb = bytes_of({3.0F, 6.0F});
  BOOST_TEST(a.buffer_drift(kB) == 1.0);  // nothing is known yet
  set(a, {2.0F, 2.0F});                   // a step between the encode and the commit
  commit(a,
         {.peer = kB, .own = qa, .their = qb, .w = 0.5F, .own_buffers = ba, .their_buffers = bb});
  commit(b,
         {.peer = kA, .own = qb, .their = qa, .w = 0.5F, .own_buffers = bb, .their_buffers = ba});
  BOOST_TEST(same(values_of(a.buffers()), Values{2.5F, 4.0F}));
  BOOST_TEST(same(values_of(b.buffers()), Values{2.0F, 4.0F}));
  // Each knows what the other made of what was sent.
  BOOST_TEST(a.buffer_drift(kB) == a.buffers().distance(Values{2.0F, 4.0F}));
  BOOST_TEST(b.buffer_drift(kA) == 0.0);
}

BOOST_FIXTURE_TEST_CASE(an_exchange_may_carry_buffers_one_way_or_none, Pair) {
  set(a, {1.0F, 2.0F});
  commit(a, {.peer = kB, .own = qa, .their = qb, .w = 0.25F});
  BOOST_TEST(same(values_of(a.buffers()), Values{1.0F, 2.0F}));
  commit(b,
         {.peer = kA, .own = qb, .their = qa, .w = 0.25F, .their_buffers = bytes_of({1.0F, 2.0F})});
  BOOST_TEST(same(values_of(b.buffers()), Values{0.25F, 1.25F}));
  BOOST_TEST(b.buffer_drift(kA) == b.buffers().distance(Values{1.0F, 2.0F}));
}

BOOST_FIXTURE_TEST_CASE(hostile_buffers_spoil_the_whole_exchange_and_change_nothing, Pair) {
  set(a, {1.0F, 2.0F});
  const auto x = x_of(a);
  const auto mirror = a.mirror_hash(kB, MirrorOf::theirs);
  for (const Values& bad : kBad) {
    if (bad.empty()) continue;  // none
    const auto status =
        a.stage({.peer = kB, .own = qa, .their = qb, .w = 0.5F, .their_buffers = bytes_of(bad)});
    BOOST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().code == ErrorCode::protocol));
    BOOST_TEST(same(values_of(a.buffers()), Values{1.0F, 2.0F}));
    BOOST_TEST(same(x_of(a), x));
    BOOST_TEST(a.mirror_hash(kB, MirrorOf::theirs) == mirror);
  }
  // The link goes on, and nothing of what failed is left.
  commit(a, {.peer = kB, .own = qa, .their = qb, .w = 0.5F});
  BOOST_TEST(same(values_of(a.buffers()), Values{1.0F, 2.0F}));
}

BOOST_AUTO_TEST_CASE(who_adopts_takes_the_buffers_or_nothing) {
  Rng rng(73);
  const auto initial = noises(kN, rng);
  Replica giver(initial, 0.5F, pair_spec());
  train(giver, rng, 0.2F);
  set(giver, {5.0F, 7.0F});
  const auto outcome = run(KeyframeJob{.peer = kB, .tag = 1, .with_buffers = true}, giver, {});
  const auto& made = std::get<KeyframeMade>(*outcome);
  BOOST_REQUIRE(made.status.has_value());
  Replica taker(initial, 0.5F, pair_spec());
  for (const Values& bad : kBad) {
    BOOST_TEST(!taker.open_adopted(kA, made.payload, bytes_of(bad)).has_value());
    BOOST_TEST(!taker.has(kA));
    BOOST_TEST(same(x_of(taker), initial));
    BOOST_TEST(same(values_of(taker.buffers()), Values{0.0F, 1.0F}));
  }
  const OpenJob job{.peer = kA,
                    .tag = 2,
                    .decision = OpenDecision::adopt,
                    .their = made.payload,
                    .their_buffers = made.buffers};
  BOOST_TEST(std::get<Opened>(*run(job, taker, {})).status.has_value());
  BOOST_TEST(same(values_of(taker.buffers()), Values{5.0F, 7.0F}));
  BOOST_TEST(taker.buffer_drift(kA) == 0.0);
}

BOOST_FIXTURE_TEST_CASE(jobs_carry_buffers_where_asked_for_and_say_when_training_diverged, Pair) {
  set(a, {5.0F, 7.0F});
  EncodeJob job{.peer = kB, .tag = 1, .exchange = {1}, .options = {.density = 0.1}};
  BOOST_TEST(std::get<Encoded>(*run(job, a, {})).buffers.empty());
  job.with_buffers = true;
  const Encoded encoded = std::get<Encoded>(*run(job, a, {}));
  BOOST_TEST((encoded.buffers == bytes_of({5.0F, 7.0F})));
  BOOST_TEST(encoded.buffer_drift == 0.0);  // only settling asks
  job.near_enough = 0.01;
  BOOST_TEST(std::get<Encoded>(*run(job, a, {})).buffer_drift == 1.0);
  a.buffers().values()[1] = -1.0F;
  const Encoded failed = std::get<Encoded>(*run(job, a, {}));
  BOOST_REQUIRE(!failed.status.has_value());
  BOOST_TEST((failed.status.error().code == ErrorCode::diverged));
  BOOST_TEST(!std::get<KeyframeMade>(*run(KeyframeJob{kB, 2, true}, a, {})).status.has_value());
}

BOOST_AUTO_TEST_CASE(a_replica_without_buffers_accepts_none) {
  Rng rng(74);
  Replica plain(noises(kN, rng), 0.5F);
  BOOST_TEST(plain.buffers().size() == 0U);
  Bytes keyframe;
  BOOST_REQUIRE(plain.encode_keyframe(keyframe).has_value());
  BOOST_TEST(!plain.open_adopted(kA, keyframe, bytes_of({1.0F})).has_value());
  BOOST_TEST(plain.open_adopted(kA, keyframe).has_value());
  BOOST_TEST(plain.buffer_drift(kA) == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()
