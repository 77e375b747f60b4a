#include "sim/checks/spectral_gap.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling::sim;

namespace {

std::vector<Edge> cycle(std::uint32_t peers) {
  std::vector<Edge> edges;
  for (std::uint32_t i = 0; i < peers; ++i) edges.emplace_back(i, (i + 1) % peers);
  return edges;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spectral_gap_of_an_overlay)

BOOST_AUTO_TEST_CASE(all_linked_with_all_agree_at_once) {
  std::vector<Edge> edges;
  for (std::uint32_t a = 0; a < 6; ++a) {
    for (std::uint32_t b = a + 1; b < 6; ++b) edges.emplace_back(a, b);
  }
  BOOST_TEST(spectral_gap(6, edges) == 1.0, boost::test_tools::tolerance(1e-6));
}

// Its eigenvalues are (1 + 2 cos(2 pi k / n)) / 3.
BOOST_AUTO_TEST_CASE(a_ring_has_the_gap_of_its_formula) {
  for (const std::uint32_t peers : {5U, 12U, 40U}) {
    const double second = (1 + 2 * std::cos(2 * std::numbers::pi / peers)) / 3;
    BOOST_TEST(spectral_gap(peers, cycle(peers)) == 1 - second, boost::test_tools::tolerance(1e-3));
  }
}

// The center has n - 1 links, so all weights are 1 / n, and n - 2 eigenvalues 1 - 1 / n.
BOOST_AUTO_TEST_CASE(a_star_mixes_as_slowly_as_its_middle_is_busy) {
  std::vector<Edge> edges;
  for (std::uint32_t leaf = 1; leaf < 10; ++leaf) edges.emplace_back(0, leaf);
  BOOST_TEST(spectral_gap(10, edges) == 0.1, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(a_split_overlay_has_none) {
  BOOST_TEST(std::abs(spectral_gap(4, std::vector<Edge>{{0, 1}, {2, 3}})) < 1e-6);
  BOOST_TEST(std::abs(spectral_gap(3, {})) < 1e-6);
}

BOOST_AUTO_TEST_CASE(one_peer_agrees_with_itself) { BOOST_TEST(spectral_gap(1, {}) == 1.0); }

BOOST_AUTO_TEST_SUITE_END()
