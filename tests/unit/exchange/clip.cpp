#include "exchange/clip.hpp"

#include <cmath>
#include <deque>
#include <functional>

#include "exchange/weight.hpp"
#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::Rng;

namespace {

constexpr delta::EndParts kEqual{};

/// Of links that tell as much as they pull.
std::vector<Reach> pulls(std::initializer_list<double> far) {
  std::vector<Reach> all;
  for (const double pulled : far) all.push_back({.pulled = pulled, .moved = 0, .told = pulled});
  return all;
}

std::vector<float> values_of(const Replica& replica, const base::PeerId& other, MirrorOf which) {
  const auto values = replica.mirror(other, which);
  return {values.begin(), values.end()};
}

float radius_of(std::vector<Reach> all, const Reach& own, Trust trust = Trust::unknown,
                double cosine = 0) {
  const bool are_few = all.size() < kClipLinksMin;
  return clip_radius(std::move(all), are_few, {own, trust, cosine}, far_pull(true));
}

double clip_alike(double distance, const delta::EndParts& parts, float own_radius,
                  float their_radius) {
  return exchange::clip(distance, parts, own_radius, their_radius, far_pull(true));
}

/// A replica, linked with some others.
class Star {
 public:
  Star(std::uint64_t seed, std::size_t links)
      : rng_(seed), initial_(noises(1000, rng_)), own_(initial_, 0.5F, {}, kAlike) {
    for (std::size_t i = 0; i < links; ++i) {
      others_.emplace_back(initial_, 0.5F, BufferSpec{}, kAlike);
      BOOST_REQUIRE(own_.open_fresh(id(i)));
      BOOST_REQUIRE(others_[i].open_fresh(peer(1)));
    }
  }

  /// All train and exchange: each other one as far as `trained` says of it.
  void exchange(const std::function<float(std::size_t)>& trained,
                const std::function<delta::EndParts(std::size_t)>& parts = {}) {
    train(own_, rng_, 0.01F);
    for (std::size_t i = 0; i < others_.size(); ++i) {
      train(others_[i], rng_, trained(i));
      meet(own_, peer(1), others_[i], id(i), 0.02F, {.density = 0.1},
           parts ? parts(i) : delta::EndParts{});
    }
  }

  [[nodiscard]] float radius(std::size_t link) { return *own_.radius(id(link), 1.0); }
  void set_trust(std::size_t link, Trust trust) { own_.set_trust(id(link), trust); }
  void heal() { own_.heal(true); }
  /// Between the mirrors of a link.
  [[nodiscard]] double apart(std::size_t link) const { return own_.apart(id(link)).distance(); }

 private:
  static base::PeerId id(std::size_t link) { return peer(static_cast<std::uint8_t>(link + 2)); }

  static constexpr Averaging kAlike{.far = far_pull(true)};

  Rng rng_;
  std::vector<float> initial_;
  std::deque<Replica> others_;
  Replica own_;
};

double true_distance(const Replica& replica, const base::PeerId& other) {
  return std::sqrt(square_between(replica.mirror(other, MirrorOf::mine),
                                  replica.mirror(other, MirrorOf::theirs)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(clip)

BOOST_AUTO_TEST_CASE(a_step_within_both_radii_is_not_clipped) {
  BOOST_TEST(clip_alike(2.0, kEqual, 2.0F, 3.0F) == 1.0);
  BOOST_TEST(clip_alike(2.0, kEqual, kNoRadius, kNoRadius) == 1.0);
  BOOST_TEST(clip_alike(0.0, kEqual, 0.0F, 0.0F) == 1.0);
}

BOOST_AUTO_TEST_CASE(the_smaller_radius_bounds_the_step) {
  BOOST_TEST(clip_alike(8.0, kEqual, 8.0F, 4.0F) == 0.25);
  BOOST_TEST(clip_alike(8.0, kEqual, 4.0F, 8.0F) == 0.25);
  BOOST_TEST(clip_alike(8.0, kEqual, 0.0F, 4.0F) == 0.0);
}

BOOST_AUTO_TEST_CASE(a_radius_bounds_what_moves_its_own_end) {
  // The heavy end moves by a quarter of the way that the light one does.
  const delta::EndParts heavy = end_parts(2, 0);
  BOOST_TEST(clip_alike(8.0, heavy, 1.0F, kNoRadius) == 0.25);
  BOOST_TEST(clip_alike(8.0, end_parts(0, 2), kNoRadius, 1.0F) == 0.25);
}

BOOST_AUTO_TEST_CASE(the_farther_a_neighbour_is_the_less_it_pulls) {
  const auto pull = [](double distance) {
    return distance * clip_alike(distance, kEqual, 1.0F, kNoRadius);
  };
  BOOST_TEST(pull(1.0) == 1.0);
  BOOST_TEST(pull(2.0) == 0.5);
  BOOST_TEST(pull(10.0) == 0.1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(pull(1000.0) == 0.05, boost::test_tools::tolerance(1e-9));  // but it comes nearer
}

BOOST_AUTO_TEST_CASE(where_samples_differ_a_far_one_pulls_by_the_whole_radius) {
  const double s = exchange::clip(1000.0, kEqual, 1.0F, kNoRadius, far_pull(false));
  BOOST_TEST(1000.0 * s == 1.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_radius_is_a_multiple_of_the_lower_median) {
  BOOST_TEST(radius_of(pulls({4.0, 1.0, 2.0, 100.0}), {.moved = 0.5}) == 2.0F);
  BOOST_TEST(radius_of(pulls({4.0, 1.0, 100.0}), {.moved = 0.5}, Trust::vouched) == 6.0F);
}

BOOST_AUTO_TEST_CASE(a_radius_is_no_smaller_than_what_the_own_replica_moved_by) {
  // Copycats tell an end what it has told them: nothing is far from it.
  BOOST_TEST(radius_of(pulls({0.0, 0.0, 2.0, 2.0}), {.moved = 1.0}) == 1.0F);
}

BOOST_AUTO_TEST_CASE(few_links_may_pull_some_times_as_far_as_they_did) {
  BOOST_TEST(radius_of(pulls({2.0, 1.0}), {.moved = 1.0}) == 8.0F);
}

BOOST_AUTO_TEST_CASE(a_far_one_of_few_links_pulls_by_the_whole_radius) {
  const auto pull = [](double distance) {
    const Reach own{.pulled = distance, .moved = 1.0};
    const float radius = radius_of({own, own}, own);
    return distance * clip_alike(distance, kEqual, radius, kNoRadius);
  };
  BOOST_TEST(pull(4.0) == 4.0);
  BOOST_TEST(pull(32.0) == 8.0, boost::test_tools::tolerance(1e-2));
  BOOST_TEST(pull(128.0) == 8.0, boost::test_tools::tolerance(1e-2));
}

BOOST_AUTO_TEST_CASE(a_far_one_that_does_well_pulls_by_the_whole_radius) {
  const auto pull = [](double distance) {
    const Reach own{.pulled = distance, .moved = 1.0};
    const float radius = radius_of(pulls({2.0, 2.0, 2.0}), own, Trust::vouched);
    return distance * clip_alike(distance, kEqual, radius, kNoRadius);
  };
  BOOST_TEST(pull(2.0) == 2.0);
  BOOST_TEST(pull(12.0) == 3.0, boost::test_tools::tolerance(1e-2));
  BOOST_TEST(pull(48.0) == 3.0, boost::test_tools::tolerance(1e-2));
}

BOOST_AUTO_TEST_CASE(one_of_few_that_is_absurdly_far_meets_by_no_more_than_sixteen_radii) {
  const Reach own{.pulled = 1e19, .moved = 1.0, .told = 1.0};
  const float radius = radius_of({own, own}, own);
  BOOST_TEST(radius == 128.0F);
  BOOST_TEST(1e19 * clip_alike(1e19, kEqual, radius, kNoRadius) < 8.0);
}

BOOST_AUTO_TEST_CASE(who_moves_against_this_end_moves_it_less) {
  const auto radius = [](double cosine, Trust trust = Trust::unknown) {
    return radius_of(pulls({2.0, 2.0, 2.0}), {.moved = 1.0}, trust, cosine);
  };
  const auto about = boost::test_tools::tolerance(0.01F);
  BOOST_TEST(radius(0.5) == 2.0F);
  BOOST_TEST(radius(-0.15) == 2.0F);
  BOOST_TEST(radius(-0.225) == 1.0F, about);
  BOOST_TEST(radius(-0.3) == 0.1F, about);
  BOOST_TEST(radius(-1.0) == 0.1F, about);
  BOOST_TEST(radius(-1.0, Trust::vouched) == 0.15F, about);
  const Clipped other{.reach = {.moved = 1.0}, .trust = Trust::unknown, .cosine = -1.0};
  BOOST_TEST(clip_radius(pulls({2.0, 2.0, 2.0}), false, other, far_pull(false)) == 4.0F);
}

BOOST_AUTO_TEST_CASE(what_a_neighbour_tells_counts_by_how_far_this_end_moves_and_their_weights) {
  BOOST_TEST(told_most(0.5, kEqual) == 2.0);
  BOOST_TEST(told_most(0.5, end_parts(0, 3)) == 16.0);
  BOOST_TEST(told_most(0.5, end_parts(3, 0)) == 0.25);
  BOOST_TEST(told_most(0.5, end_parts(wire::kNoWeight, 0)) == 2048.0);
}

BOOST_AUTO_TEST_CASE(where_samples_differ_the_radius_is_wider_and_a_far_one_pulls_by_all_of_it) {
  const auto pull = [](double distance, Trust trust) {
    const Reach own{.pulled = distance, .moved = 1.0};
    const float radius = clip_radius(pulls({2.0, 2.0, 2.0}), false, {own, trust}, far_pull(false));
    return distance * exchange::clip(distance, kEqual, radius, kNoRadius, far_pull(false));
  };
  for (const double distance : {12.0, 48.0}) {
    BOOST_TEST(pull(distance, Trust::unknown) == 4.0, boost::test_tools::tolerance(1e-2));
    BOOST_TEST(pull(distance, Trust::none) == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(
    what_the_other_end_does_counts_at_most_twice_as_much_from_one_exchange_to_the_next) {
  const Reach huge{.pulled = 1e30, .moved = 1.0, .told = 1e30};
  const Reach first = grown({}, huge);
  BOOST_TEST(first.pulled == 2.0);
  BOOST_TEST(first.told == 2.0);
  BOOST_TEST(grown(first, huge).pulled == 4.0);
  BOOST_TEST(grown(first, {.pulled = 3.0, .moved = 1.0, .told = 0.5}).pulled == 3.0);
}

BOOST_AUTO_TEST_CASE(links_that_pull_each_other_on_do_not_widen_the_radius_for_ever) {
  std::vector<Reach> far = pulls({1e9, 1e9, 1e9});
  for (Reach& reach : far) reach.told = 2.0;
  BOOST_TEST(radius_of(far, {.moved = 1.0}) == 8.0F);
}

BOOST_AUTO_TEST_CASE(both_ends_know_how_far_their_mirrors_are_apart) {
  constexpr std::uint64_t kSeed = 301;
  Rng rng(kSeed);
  constexpr std::size_t kN = 3000;
  const auto initial = noises(kN, rng);
  Replica a(initial, 0.5F);
  Replica b(initial, 0.5F);
  BOOST_REQUIRE(a.open_fresh(peer(2)));
  BOOST_REQUIRE(b.open_fresh(peer(1)));
  for (int t = 0; t < 60; ++t) {
    train(a, rng, 0.05F);
    train(b, rng, t == 20 ? 10.0F : 0.02F);  // once far away
    Bytes qa;
    Bytes qb;
    encode(a, peer(2), {.density = 0.1}, qa);
    encode(b, peer(1), {.density = 0.1}, qb);
    const auto mine = with_delta(values_of(a, peer(2), MirrorOf::mine), qa);
    const auto theirs = with_delta(values_of(a, peer(2), MirrorOf::theirs), qb);
    const double distance = std::sqrt(square_between(mine, theirs));
    const float radius = t % 3 == 0 ? static_cast<float>(distance / 2) : kNoRadius;
    const delta::EndParts parts = end_parts(static_cast<std::int8_t>(rng.below(3)), 1);
    const delta::EndParts swapped{.own = parts.their,
                                  .their = parts.own,
                                  .own_share = parts.their_share,
                                  .their_share = parts.own_share};
    commit(
        a,
        {.peer = peer(2), .own = qa, .their = qb, .w = 0.5F, .parts = parts, .own_radius = radius});
    commit(b, {.peer = peer(1),
               .own = qb,
               .their = qa,
               .w = 0.5F,
               .parts = swapped,
               .their_radius = radius});
    BOOST_TEST_CONTEXT("seed " << kSeed << ", t " << t) {
      BOOST_REQUIRE(mirrors_equal(a, peer(1), b, peer(2)));
      // The step was clipped by the distance that there was.
      const double s = exchange::clip(distance, parts, radius, kNoRadius, far_pull(false));
      const double left = 1 - 0.5 * s * (double{parts.own} + double{parts.their});
      BOOST_REQUIRE_SMALL(true_distance(a, peer(2)) - left * distance, 1e-3 * distance + 1e-4);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_vouched_for_a_neighbour_lapses_when_it_pulls_much_harder) {
  constexpr std::uint64_t kSeed = 302;
  Star star(kSeed, kClipLinksMin);
  const auto exchange = [&](float trained_by_first) {
    for (int t = 0; t < 10; ++t) {
      star.exchange([&](std::size_t link) { return link == 0 ? trained_by_first : 0.01F; });
    }
  };
  const auto radius_with = [&](Trust trust) {
    star.set_trust(0, trust);
    return star.radius(0);
  };
  exchange(0.01F);
  const float unknown = radius_with(Trust::unknown);
  const float vouched = radius_with(Trust::vouched);
  exchange(1.0F);
  const float lapsed = star.radius(0);
  BOOST_TEST_CONTEXT("seed " << kSeed) {
    BOOST_TEST(vouched > unknown);
    BOOST_TEST(lapsed == radius_with(Trust::unknown));
    BOOST_TEST(lapsed < radius_with(Trust::vouched));
  }
}

BOOST_AUTO_TEST_CASE(neighbours_that_move_it_no_more_do_not_say_what_is_usual) {
  constexpr std::uint64_t kSeed = 303;
  Star star(kSeed, 4);
  for (int t = 0; t < 10; ++t) {
    star.exchange([](std::size_t link) { return link < 2 ? 0.01F : 1.0F; });
  }
  star.set_trust(2, Trust::none);
  const float with_one = star.radius(0);
  star.set_trust(1, Trust::none);
  star.set_trust(2, Trust::unknown);
  const float with_two = star.radius(0);
  BOOST_TEST_CONTEXT("seed " << kSeed) { BOOST_TEST(with_two > with_one); }
}

BOOST_AUTO_TEST_CASE(neighbours_that_weigh_nothing_do_not_say_what_is_usual) {
  constexpr std::uint64_t kSeed = 305;
  const auto radius_with = [](std::int8_t weight) {
    Star star(kSeed, 4);
    for (int t = 0; t < 10; ++t) {
      star.exchange([](std::size_t) { return 1.0F; },
                    [&](std::size_t link) { return end_parts(0, link < 2 ? weight : 0); });
    }
    return star.radius(3);
  };
  BOOST_TEST_CONTEXT("seed " << kSeed) {
    BOOST_TEST(radius_with(wire::kNoWeight) > 0.5F * radius_with(0));
  }
}

// What it told before was tried, what it tells now was not.
BOOST_AUTO_TEST_CASE(who_heals_goes_all_the_way_to_where_a_vouched_neighbour_was_and_not_further) {
  constexpr std::uint64_t kSeed = 306;
  Star star(kSeed, 4);
  for (int t = 0; t < 10; ++t) {
    star.exchange([](std::size_t link) { return link == 0 ? 1.0F : 0.01F; });
  }
  star.set_trust(0, Trust::vouched);
  const float usual = star.radius(0);
  star.heal();
  const float healing = star.radius(0);
  const double was_apart = star.apart(0);
  BOOST_TEST_CONTEXT("seed " << kSeed) {
    BOOST_TEST(usual < was_apart);
    BOOST_TEST(healing > was_apart);
    BOOST_TEST(healing < 3 * was_apart);
    BOOST_TEST(star.radius(1) < was_apart);  // for which nobody vouches
    star.exchange([](std::size_t link) { return link == 0 ? 1e6F : 0.01F; });
    BOOST_TEST(star.apart(0) > 1000 * was_apart);
    BOOST_TEST(star.radius(0) < 3 * was_apart);
  }
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_absurd_is_not_adopted) {
  Rng rng(307);
  const auto initial = noises(100, rng);
  for (const bool alike : {true, false}) {
    for (const double worse : {2.0, 10.0, 20.0}) {
      Replica own(initial, 0.5F, {}, {.far = far_pull(alike)});
      Replica other(initial, 0.5F);
      own.set_judge([worse](std::span<const float>, std::span<const float>,
                            std::span<const float>) { return worse; });
      train(other, rng, 0.1F);
      Bytes keyframe;
      BOOST_REQUIRE(other.encode_keyframe(keyframe));
      const bool adopts = own.open_adopted(peer(2), keyframe).has_value();
      BOOST_TEST_CONTEXT("alike " << alike << ", worse " << worse) {
        BOOST_TEST(adopts == (worse < (alike ? 4.0 : 15.0)));
      }
    }
  }
}

// Each exchange would make this end so many times worse, and moves it by so much of the way.
int refused_at(double worse, bool takes, float w) {
  Rng rng(304);
  const auto initial = noises(100, rng);
  const Averaging alike{.far = far_pull(true)};
  Replica own(initial, 0.5F, {}, alike);
  Replica other(initial, 0.5F, {}, alike);
  BOOST_REQUIRE(own.open_fresh(peer(2)));
  BOOST_REQUIRE(other.open_fresh(peer(1)));
  own.set_judge([worse](std::span<const float>, std::span<const float>, std::span<const float>) {
    return worse;
  });
  for (int t = 1; t <= 20; ++t) {
    train(other, rng, 0.1F);
    Bytes mine;
    Bytes theirs;
    encode(own, peer(2), {.density = 1.0}, mine);
    encode(other, peer(1), {.density = 1.0}, theirs);
    BOOST_REQUIRE(own.stage(
        {.peer = peer(2), .own = mine, .their = theirs, .w = w, .judged = true, .takes = takes}));
    if (own.refuse_if_bad(peer(2))) return t;
    own.apply_staged();
    commit(other, {.peer = peer(1), .own = theirs, .their = mine, .w = w});
  }
  return 0;
}

BOOST_AUTO_TEST_CASE(in_settling_small_harm_adds_up) {
  BOOST_TEST(refused_at(1.3, true, 1.0F) == 1);
  BOOST_TEST(refused_at(1.1, true, 1.0F) == 2);  // 1.1 squared is above 1.2
  BOOST_TEST(refused_at(1.1, false, 0.25F) == 8);
  BOOST_TEST(refused_at(0.9, true, 1.0F) == 0);
  BOOST_TEST(refused_at(1.0, true, 1.0F) == 0);
}

BOOST_AUTO_TEST_CASE(a_distance_is_measured_anew_after_it_was_much_larger) {
  Touched far{.delta = {{0}, {1e12F}}, .mine = {0.0F}, .theirs = {0.0F}};
  Touched back{.delta = {{0}, {-1e12F}}, .mine = {1e12F}, .theirs = {0.0F}};
  Apart apart(1.0);
  BOOST_TEST(!apart.is_vague());
  apart.add(far, {});
  BOOST_TEST(!apart.is_vague());
  apart.add(back, {});
  BOOST_TEST(apart.is_vague());
}

BOOST_AUTO_TEST_SUITE_END()
