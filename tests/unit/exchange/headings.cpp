#include "exchange/headings.hpp"

#include <cstdint>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling;
using exchange::Headings;

namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::uint32_t kElements = 100'000;

/// A delta of 300 elements in random places.
delta::Elements drawn(base::Rng& rng) {
  delta::Elements delta;
  for (std::uint32_t at = 0; at < kElements; at += kElements / 300) {
    delta.indices.push_back(at + static_cast<std::uint32_t>(rng.below(kElements / 300)));
    delta.values.push_back(static_cast<float>(rng.uniform() - 0.5));
  }
  return delta;
}

delta::Elements times(float factor, delta::Elements delta) {
  for (float& value : delta.values) value *= factor;
  return delta;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(headings)

BOOST_AUTO_TEST_CASE(nothing_is_said_after_a_few_exchanges) {
  base::Rng rng(kSeed);
  Headings headings;
  for (int i = 1; i < Headings::kExchangesMin; ++i) {
    const auto delta = drawn(rng);
    headings.add(delta, delta);
    BOOST_TEST(headings.cosine() == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(ends_that_go_the_same_way_differ_from_those_that_go_against_each_other) {
  base::Rng rng(kSeed);
  Headings same;
  Headings against;
  Headings unrelated;
  for (int i = 0; i < 20; ++i) {
    const auto delta = drawn(rng);
    same.add(delta, times(3.0F, delta));
    against.add(delta, times(-0.1F, delta));
    unrelated.add(delta, drawn(rng));
  }
  BOOST_TEST_CONTEXT("seed " << kSeed) {
    BOOST_TEST(same.cosine() > 0.999);
    BOOST_TEST(against.cosine() < -0.999);
    BOOST_TEST(unrelated.cosine() < 0.15);
    BOOST_TEST(unrelated.cosine() > -0.15);
  }
}

BOOST_AUTO_TEST_CASE(what_was_told_lately_counts_more) {
  base::Rng rng(kSeed);
  Headings headings;
  const auto step = drawn(rng);
  for (int i = 0; i < 20; ++i) headings.add(step, step);
  for (int i = 0; i < 20; ++i) headings.add(step, times(-1.0F, step));
  BOOST_TEST(headings.cosine() < -0.5);
}

BOOST_AUTO_TEST_CASE(an_end_that_tells_nothing_goes_no_way) {
  base::Rng rng(kSeed);
  Headings headings;
  for (int i = 0; i < 20; ++i) headings.add(drawn(rng), {});
  BOOST_TEST(headings.cosine() == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()
