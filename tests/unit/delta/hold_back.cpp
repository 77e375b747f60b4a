// Deltas of a difference that is held back in the same pass.
#include <cstdint>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "delta/codec.hpp"
#include "delta/source.hpp"
#include "vectors.hpp"

using namespace starling;
using base::Rng;
using delta::DifferenceSource;

namespace {

struct Vectors {
  std::vector<float> base;
  std::vector<float> offset;
  std::vector<float> mirror;
};

constexpr float kKeep = 0.5F;
constexpr float kGain = 0.3F;

void hold_back_plainly(Vectors& v) {
  for (std::size_t i = 0; i < v.base.size(); ++i) {
    const float x = v.base[i] + v.offset[i];
    v.offset[i] = kKeep * v.offset[i] + kGain * (x - v.mirror[i]);
    v.base[i] = x - v.offset[i];
  }
}

void let_go_plainly(Vectors& v, const delta::Elements& sent) {
  for (std::size_t j = 0; j < sent.size(); ++j) {
    const std::size_t i = sent.indices[j];
    const float x = v.base[i] + v.offset[i];
    v.offset[i] -= kGain * sent.values[j];
    v.base[i] = x - v.offset[i];
  }
}

bool alike(const Vectors& a, const Vectors& b) { return a.base == b.base && a.offset == b.offset; }

}  // namespace

BOOST_AUTO_TEST_SUITE(hold_back)

BOOST_AUTO_TEST_CASE(
    a_delta_is_that_of_the_difference_before_which_is_held_back_once_but_for_what_it_carries) {
  constexpr std::uint64_t kSeed = 31;
  Rng rng(kSeed);
  for (const std::size_t n : {1U, 31U, 32U, 33U, 8192U, 8193U, 50'000U}) {
    for (const bool in_halves : {false, true}) {
      BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n << ", halves " << in_halves) {
        Vectors v{delta::test::normals(n, rng), delta::test::normals(n, rng, 1e-2F),
                  delta::test::normals(n, rng)};
        std::vector<base::BFloat16> halves(n);
        base::narrow(v.mirror, halves);
        if (in_halves) base::widen(halves, v.mirror);
        const delta::MirrorView mirror =
            in_halves ? delta::MirrorView(std::span<const base::BFloat16>(halves))
                      : delta::MirrorView(v.mirror);
        Vectors plain = v;
        base::Bytes expected;
        delta::HostDelta said;
        BOOST_REQUIRE(delta::encode({plain.base, plain.offset, mirror}, {}, expected, said));
        hold_back_plainly(plain);
        let_go_plainly(plain, said.elements());

        DifferenceSource source;
        delta::Scratch scratch;
        base::Bytes bytes;
        source.read({v.base, v.offset, kKeep, kGain}, mirror);
        BOOST_REQUIRE(delta::encode(source, {}, scratch, bytes, said));
        BOOST_TEST((bytes == expected));
        BOOST_TEST(alike(v, plain));
        BOOST_REQUIRE(delta::encode(source, {}, scratch, bytes, said));
        let_go_plainly(plain, said.elements());
        BOOST_TEST(alike(v, plain));
      }
    }
  }
}

// The found elements do not fit, and are chosen among all afterwards.
BOOST_AUTO_TEST_CASE(all_is_held_back_where_more_is_found_than_there_is_room_for) {
  constexpr std::size_t kN = 100'000;
  Vectors v{std::vector<float>(kN, 1.0F), std::vector<float>(kN), std::vector<float>(kN)};
  Vectors plain = v;
  hold_back_plainly(plain);
  DifferenceSource source;
  source.read({v.base, v.offset, kKeep, kGain}, v.mirror);
  const auto choice = source.choose({.count = 3, .limit = 1e30F, .room = 10}, {}).value();
  BOOST_TEST(!choice.in_one_pass);
  BOOST_TEST(alike(v, plain));
  BOOST_TEST(choice.count == 3U);
  BOOST_TEST((source.chosen().indices == std::vector<std::uint32_t>{0, 1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
