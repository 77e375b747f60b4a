// Payloads from a peer that is broken or hostile.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "delta/codec.hpp"
#include "delta/dense.hpp"
#include "vectors.hpp"

using namespace starling;
using base::Bytes;
using base::Rng;
using delta::Elements;
using delta::format::kHeaderBytes;
using delta::format::kMagnitudeMax;
using delta::test::normals;

namespace {

constexpr std::size_t kN = 6000;

Bytes sparse_payload(Rng& rng, int bits, double density = 0.05) {
  const auto x = normals(kN, rng);
  const std::vector<float> zero(kN, 0.0F);
  delta::HostDelta own;
  Bytes bytes;
  BOOST_REQUIRE(delta::encode({.base = x, .offset = {}, .mirror = zero},
                              {.density = density, .bits = bits, .block = 32}, bytes, own));
  return bytes;
}

Bytes dense_payload(Rng& rng) {
  const auto x = normals(kN, rng);
  const std::vector<float> zero(kN, 0.0F);
  Bytes bytes;
  BOOST_REQUIRE(delta::encode_dense({.base = x, .offset = {}, .mirror = zero}, bytes));
  return bytes;
}

// Refused, or sound in everything that a receiver relies on.
bool refused_or_sound(const Bytes& bytes) {
  Elements out;
  if (!delta::decode(bytes, kN, out)) return true;
  if (out.indices.size() != out.values.size() || out.size() > kN) return false;
  for (std::size_t j = 0; j < out.size(); ++j) {
    if (out.indices[j] >= kN || (j > 0 && out.indices[j] <= out.indices[j - 1])) return false;
    if (!(std::fabs(out.values[j]) <= kMagnitudeMax) || out.values[j] == 0.0F) return false;
  }
  return true;
}

bool keyframe_refused_or_sound(const Bytes& bytes) {
  const std::vector<float> origin(kN, 1.0F);
  std::vector<float> out(kN);
  if (!delta::decode_dense(bytes, origin, out)) return true;
  return std::ranges::all_of(out, [](float value) { return std::fabs(value) <= kMagnitudeMax; });
}

void poke(Bytes& bytes, std::size_t at, float value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(corruption)

BOOST_AUTO_TEST_CASE(truncations_are_refused_or_sound_and_a_trailing_byte_is_refused) {
  Rng rng(51);
  for (const int bits : {1, 2, 3, 4, 8}) {
    const Bytes whole = sparse_payload(rng, bits);
    Elements out;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      // The indices have no length field: a cut shifts the sections, and may parse.
      BOOST_REQUIRE(refused_or_sound(cut));
      if (size < kHeaderBytes) BOOST_REQUIRE(!delta::decode(cut, kN, out).has_value());
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    BOOST_TEST(!delta::decode(longer, kN, out).has_value());
  }
}

BOOST_AUTO_TEST_CASE(every_truncation_of_a_keyframe_is_refused) {
  Rng rng(52);
  const Bytes whole = dense_payload(rng);
  const std::vector<float> origin(kN, 0.0F);
  std::vector<float> out(kN);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    BOOST_REQUIRE(!delta::decode_dense(base::ByteView(whole).first(size), origin, out));
  }
}

BOOST_AUTO_TEST_CASE(flipped_bits_are_refused_or_decode_to_something_sound) {
  constexpr std::uint64_t kSeed = 53;
  Rng rng(kSeed);
  for (int round = 0; round < 2000; ++round) {
    // Of one run of indices or of two.
    const double density = rng.below(4) == 0 ? 0.8 : 0.05;
    const Bytes bytes = sparse_payload(rng, std::array{1, 2, 3, 4, 8}[rng.below(5)], density);
    for (int variant = 0; variant < 20; ++variant) {
      Bytes bad = bytes;
      const std::uint64_t flips = 1 + rng.below(4);
      for (std::uint64_t i = 0; i < flips; ++i) {
        // Half of the flips hit the header and the first indices.
        const std::size_t reach = rng.below(2) == 0 ? 16 : bad.size();
        bad[rng.below(std::min(reach, bad.size()))] ^= static_cast<std::byte>(1U << rng.below(8));
      }
      BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round) {
        BOOST_REQUIRE(refused_or_sound(bad));
        BOOST_REQUIRE(keyframe_refused_or_sound(bad));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(flipped_bits_of_a_keyframe_are_refused_or_decode_to_something_sound) {
  constexpr std::uint64_t kSeed = 54;
  Rng rng(kSeed);
  const Bytes bytes = dense_payload(rng);
  for (int round = 0; round < 5000; ++round) {
    Bytes bad = bytes;
    const std::size_t reach = rng.below(2) == 0 ? 64 : bad.size();
    bad[rng.below(reach)] ^= static_cast<std::byte>(1U << rng.below(8));
    BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round) {
      BOOST_REQUIRE(keyframe_refused_or_sound(bad));
    }
  }
}

BOOST_AUTO_TEST_CASE(random_bytes_behind_a_good_header_are_refused_or_sound) {
  constexpr std::uint64_t kSeed = 55;
  Rng rng(kSeed);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes;
    delta::write_header({.kind = rng.below(8) == 0 ? delta::Kind::dense : delta::Kind::sparse,
                         .bits = std::array{1, 2, 3, 4, 8}[rng.below(5)],
                         .golomb = static_cast<std::uint32_t>(rng.below(116)),
                         .block = static_cast<std::uint32_t>(rng.below(100)),
                         .n = kN,
                         .count = static_cast<std::uint32_t>(rng.below(40))},
                        bytes);
    const std::size_t size = rng.below(200);
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(rng()));
    BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round) {
      BOOST_REQUIRE(refused_or_sound(bytes));
      BOOST_REQUIRE(keyframe_refused_or_sound(bytes));
    }
  }
}

BOOST_AUTO_TEST_CASE(scales_that_are_not_positive_finite_and_bounded_are_refused) {
  Rng rng(56);
  const Bytes good = sparse_payload(rng, 4);
  Elements out;
  const auto shape = delta::check(good, kN);
  BOOST_REQUIRE(shape.has_value());
  const auto at = static_cast<std::size_t>(shape->scales.data() - good.data());
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 0.0F, -0.0F, -1.0F, 2e29F}) {
    Bytes bad = good;
    poke(bad, at + 4, scale);
    BOOST_TEST_CONTEXT("scale " << scale) { BOOST_TEST(!delta::decode(bad, kN, out).has_value()); }
  }
  const Bytes keyframe = dense_payload(rng);
  const std::vector<float> origin(kN, 0.0F);
  std::vector<float> values(kN);
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(), -0.0F, -1.0F, 1e29F}) {
    Bytes bad = keyframe;
    poke(bad, kHeaderBytes, scale);
    BOOST_TEST(!delta::decode_dense(bad, origin, values).has_value());
  }
}

BOOST_AUTO_TEST_CASE(each_lie_in_the_header_is_named) {
  Rng rng(57);
  const Bytes good = sparse_payload(rng, 4);
  Elements out;
  const auto refused_with = [&](std::size_t at, unsigned value, const char* word) {
    Bytes bad = good;
    bad[at] = static_cast<std::byte>(value);
    const auto status = delta::decode(bad, kN, out);
    return !status.has_value() && status.error().code == base::ErrorCode::protocol &&
           status.error().text.find(word) != std::string::npos;
  };
  BOOST_TEST(refused_with(0, 0x23, "version 2"));
  BOOST_TEST(refused_with(0, 0x3b, "kind dense has bits 4"));
  BOOST_TEST(refused_with(0, 0x3f, "kind dense has bits 8"));  // golomb is not 0
  BOOST_TEST(refused_with(0, 0x34, "bits 5"));
  BOOST_TEST(refused_with(0, 0x36, "bits 7"));
  BOOST_TEST(refused_with(1, 116, "golomb 116"));
  BOOST_TEST(refused_with(4, 0, "elements where the replica has 6000"));
  BOOST_TEST(refused_with(10, 1, "carries"));
}

BOOST_AUTO_TEST_CASE(a_keyframe_is_not_taken_for_a_delta) {
  Rng rng(59);
  Elements out;
  BOOST_TEST(!delta::decode(dense_payload(rng), kN, out).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
