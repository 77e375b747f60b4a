#include "ring/outer_step.hpp"

#include <vector>

#include <boost/test/unit_test.hpp>

using starling::ring::OuterStep;
using Vector = std::vector<float>;

BOOST_AUTO_TEST_SUITE(outer_step)

BOOST_AUTO_TEST_CASE(what_moved_is_counted_from_the_start_of_the_round) {
  OuterStep outer(Vector{1, 2}, 1, 0);
  Vector moved(2);
  outer.moved(Vector{0.5F, 4}, moved);
  BOOST_TEST((moved == Vector{0.5F, -2}));
}

BOOST_AUTO_TEST_CASE(without_momentum_a_full_step_is_the_mean_of_the_replicas) {
  const Vector a{0.5F, 4};
  const Vector b{1.5F, 1};
  OuterStep outer(Vector{1, 2}, 1, 0);
  Vector of_a(2);
  Vector of_b(2);
  outer.moved(a, of_a);
  outer.moved(b, of_b);
  Vector x = a;
  outer.apply(Vector{(of_a[0] + of_b[0]) / 2, (of_a[1] + of_b[1]) / 2}, x);
  BOOST_TEST((x == Vector{1, 2.5F}));
  // The next round starts there.
  outer.moved(x, of_a);
  BOOST_TEST((of_a == Vector{0, 0}));
}

BOOST_AUTO_TEST_CASE(momentum_is_nesterov_s) {
  OuterStep outer(Vector{0}, 0.5F, 0.25F);
  Vector x{0};
  outer.apply(Vector{-4}, x);  // v = -4; a = 0.5 (4 + 0.25 * 4)
  BOOST_TEST(x[0] == 2.5F);
  outer.apply(Vector{-8}, x);  // v = -1 - 8; a += 0.5 (8 + 0.25 * 9)
  BOOST_TEST(x[0] == 2.5F + 5.125F);
}

BOOST_AUTO_TEST_SUITE_END()
