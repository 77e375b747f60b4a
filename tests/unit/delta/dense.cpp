#include "delta/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "delta/header.hpp"
#include "vectors.hpp"

using namespace starling;
using base::Bytes;
using base::Rng;
using delta::test::normals;

BOOST_AUTO_TEST_SUITE(dense)

BOOST_AUTO_TEST_CASE(a_keyframe_is_within_half_a_level_of_every_element) {
  constexpr std::uint64_t kSeed = 41;
  Rng rng(kSeed);
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{10001}}) {
    BOOST_TEST_CONTEXT("seed " << kSeed << ", n " << n) {
      const auto x = normals(n, rng);
      const auto origin = normals(n, rng);
      Bytes bytes;
      BOOST_REQUIRE(delta::encode_dense({.base = x, .offset = {}, .mirror = origin}, bytes));
      BOOST_TEST(bytes.size() == 12 + (n + 255) / 256 * 4 + n);
      std::vector<float> out(n);
      BOOST_REQUIRE(delta::decode_dense(bytes, origin, out));
      for (std::size_t begin = 0; begin < n; begin += 256) {
        const std::size_t end = std::min(begin + 256, n);
        float largest = 0.0F;
        for (std::size_t i = begin; i < end; ++i) {
          largest = std::max(largest, std::fabs(x[i] - origin[i]));
        }
        for (std::size_t i = begin; i < end; ++i) {
          BOOST_REQUIRE(std::fabs(out[i] - x[i]) <= largest / 254.0F * 1.0001F + 1e-6F);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_replica_at_the_origin_comes_out_to_the_bit) {
  Rng rng(42);
  const auto origin = normals(1000, rng);
  Bytes bytes;
  BOOST_REQUIRE(delta::encode_dense({.base = origin, .offset = {}, .mirror = origin}, bytes));
  std::vector<float> out(1000);
  BOOST_REQUIRE(delta::decode_dense(bytes, origin, out));
  BOOST_TEST((out == origin));
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_not_encoded) {
  const std::vector<float> origin(1000, 0.0F);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 2e30F}) {
    std::vector<float> x(1000, 1.0F);
    x[300] = bad;
    Bytes bytes;
    const auto status = delta::encode_dense({.base = x, .offset = {}, .mirror = origin}, bytes);
    BOOST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().code == base::ErrorCode::diverged));
    BOOST_TEST(bytes.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_keyframe_that_moves_an_element_out_of_bounds_is_refused) {
  const std::vector<float> low(300, 0.0F);
  const std::vector<float> high(300, 9e29F);
  const std::vector<float> x(300, 9e29F);
  Bytes bytes;
  BOOST_REQUIRE(delta::encode_dense({.base = x, .offset = {}, .mirror = low}, bytes));
  std::vector<float> out(300);
  BOOST_TEST(delta::decode_dense(bytes, low, out).has_value());
  BOOST_TEST(!delta::decode_dense(bytes, high, out).has_value());
}

BOOST_AUTO_TEST_CASE(a_sparse_delta_of_all_elements_is_no_keyframe) {
  Bytes bytes;
  delta::write_header({.kind = delta::Kind::sparse, .bits = 8, .block = 256, .n = 1, .count = 1},
                      bytes);
  bytes.resize(bytes.size() + 6, std::byte{1});
  std::vector<float> origin(1, 0.0F);
  std::vector<float> out(1, 5.0F);
  BOOST_TEST(!delta::decode_dense(bytes, origin, out).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
