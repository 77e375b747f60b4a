#include "hostile/told.hpp"

#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::hostile;
using base::LargeFloats;

namespace {

/// A peer that knows three neighbours; it tells the first one.
struct Neighbourhood {
  std::vector<float> own{1, -1, 1, -1};
  std::vector<LargeFloats> mirrors{{3, 0, 0, 0}, {6, 1, 0, 0}, {0, 2, 0, 0}};
  LargeFloats mean{3, 1, 0, 0};

  [[nodiscard]] Known known() const {
    return {.own = own, .theirs = mirrors.front(), .mirrors = mirrors};
  }
};

LargeFloats told_by(AttackKind kind, double factor, const Known& known) {
  base::Rng rng(7);
  return told({.kind = kind, .factor = factor}, known, rng);
}

void check_equal(const LargeFloats& values, const LargeFloats& wanted) {
  BOOST_REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    BOOST_TEST(values[i] == wanted[i], boost::test_tools::tolerance(1e-6F));
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(told_replicas, Neighbourhood)

BOOST_AUTO_TEST_CASE(zeros_are_zeros) {
  check_equal(told_by(AttackKind::zeros, 1, known()), {0, 0, 0, 0});
}

BOOST_AUTO_TEST_CASE(huge_is_the_factor_everywhere) {
  check_equal(told_by(AttackKind::huge, 1e30, known()), {1e30F, 1e30F, 1e30F, 1e30F});
}

BOOST_AUTO_TEST_CASE(stale_tells_the_own_replica) {
  check_equal(told_by(AttackKind::stale, 1, known()), {1, -1, 1, -1});
}

BOOST_AUTO_TEST_CASE(a_copycat_tells_the_neighbours_own_replica) {
  check_equal(told_by(AttackKind::copycat, 1, known()), {3, 0, 0, 0});
}

BOOST_AUTO_TEST_CASE(noise_has_the_size_of_the_parameters) {
  const std::vector<float> large(20'000, 0.5F);
  const LargeFloats noise = told_by(AttackKind::noise, 2, {.own = large});
  double sum = 0;
  double squares = 0;
  for (const float value : noise) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto n = static_cast<double>(noise.size());
  BOOST_TEST(std::abs(sum / n) < 0.03);
  BOOST_TEST(std::sqrt(squares / n) == 1.0, boost::test_tools::tolerance(0.03));
}

BOOST_AUTO_TEST_CASE(noise_differs_each_time) {
  base::Rng rng(7);
  const Attack attack{.kind = AttackKind::noise};
  BOOST_TEST((told(attack, known(), rng) != told(attack, known(), rng)));
}

BOOST_AUTO_TEST_CASE(alie_is_below_the_mean_by_deviations) {
  // The deviations of {3, 6, 0} and {0, 1, 2} are sqrt(6) and sqrt(2/3).
  const auto off = [](double square) { return static_cast<float>(1.5 * std::sqrt(square)); };
  check_equal(told_by(AttackKind::alie, 1.5, known()), {3 - off(6), 1 - off(2.0 / 3), 0, 0});
}

BOOST_AUTO_TEST_CASE(ipm_reverses_what_the_mean_moved_by) {
  Known knows = known();
  const LargeFloats before{2, 3, 0, 1};
  knows.mean_before = before;
  check_equal(told_by(AttackKind::ipm, 0.5, knows), {1.5F, 4, 0, 1.5F});
  knows.mean_before = {};
  check_equal(told_by(AttackKind::ipm, 0.5, knows), mean);
}

BOOST_AUTO_TEST_CASE(dissensus_pushes_the_neighbour_away_from_the_mean) {
  check_equal(told_by(AttackKind::dissensus, 2, known()), {3, -2, 0, 0});
}

BOOST_AUTO_TEST_CASE(without_neighbours_the_own_replica_is_told) {
  for (const AttackKind kind :
       {AttackKind::alie, AttackKind::ipm, AttackKind::copycat, AttackKind::dissensus}) {
    check_equal(told_by(kind, 1, {.own = own}), {1, -1, 1, -1});
  }
}

BOOST_AUTO_TEST_CASE(what_is_told_stays_finite) {
  const std::vector<LargeFloats> far{{1e30F}, {-1e30F}};
  const std::vector<float> one{0};
  const LargeFloats values =
      told_by(AttackKind::dissensus, 1e30, {.own = one, .theirs = far[0], .mirrors = far});
  BOOST_TEST(values.front() == 1e30F);
}

BOOST_AUTO_TEST_SUITE_END()
