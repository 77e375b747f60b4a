// The effect of many exchanges: the sum is kept, drift stays bounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <boost/test/unit_test.hpp>

#include "replica_pair.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using base::Bytes;
using base::Rng;

namespace {

// Peers on a complete overlay; each link has at most one exchange in flight, whose two ends encode
// and commit at times of their own.
class Swarm {
 public:
  Swarm(std::size_t peers, std::size_t n, float lambda, std::uint64_t seed) : rng_(seed) {
    const auto initial = noises(n, rng_);
    for (std::size_t i = 0; i < peers; ++i) replicas_.emplace_back(initial, lambda);
    for (std::size_t i = 0; i < peers; ++i) {
      for (std::size_t j = 0; j < peers; ++j) {
        if (i != j) BOOST_REQUIRE(replicas_[i].open_fresh(id(j)).has_value());
        if (i < j) links_.push_back({.ends = {i, j}});
      }
    }
    mass_.assign(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) mass_[i] = static_cast<double>(peers) * initial[i];
  }

  // A step of one peer, entered in the ledger as it changes x.
  void step(std::size_t i, float scale) {
    const auto before = x_of(replicas_[i]);
    train(replicas_[i], rng_, scale);
    const auto after = x_of(replicas_[i]);
    for (std::size_t k = 0; k < mass_.size(); ++k) {
      mass_[k] += static_cast<double>(after[k]) - static_cast<double>(before[k]);
    }
  }

  void step_all(float scale) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) step(i, scale);
  }

  // One random end of one random link does its next thing: encode, or commit once both have.
  void advance(const delta::Options& options) {
    Link& link = links_[rng_.below(links_.size())];
    const std::size_t end = rng_.below(2);
    const std::size_t me = link.ends[end];
    const std::size_t other = link.ends[1 - end];
    if (!link.sent[end]) {
      link.sent[end].emplace();
      encode(replicas_[me], id(other), options, *link.sent[end]);
    } else if (link.sent[1 - end] && !link.committed[end]) {
      commit(replicas_[me],
             {.peer = id(other), .own = *link.sent[end], .their = *link.sent[1 - end], .w = w()});
      link.committed[end] = true;
      ++commits_;
    }
    if (link.committed[0] && link.committed[1]) {
      BOOST_REQUIRE(mirrors_equal(replicas_[me], id(me), replicas_[other], id(other)));
      link = {.ends = link.ends};
    }
  }

  void exchange_all(const delta::Options& options) {
    for (const Link& link : links_) {
      const auto [i, j] = link.ends;
      meet(replicas_[i], id(i), replicas_[j], id(j), w(), options);
    }
  }

  // Commits what is half done, so that every d is on both sides.
  void finish() {
    for (Link& link : links_) {
      for (std::size_t end = 0; end < 2; ++end) {
        if (link.committed[end] || !link.sent[0] || !link.sent[1]) continue;
        commit(replicas_[link.ends[end]], {.peer = id(link.ends[1 - end]),
                                           .own = *link.sent[end],
                                           .their = *link.sent[1 - end],
                                           .w = w()});
      }
      link = {.ends = link.ends};
    }
  }

  // Largest deviation of the sum of all replicas from the ledger, a replica.
  [[nodiscard]] double ledger_error() const {
    std::vector<double> sum(mass_.size(), 0.0);
    for (const Replica& replica : replicas_) {
      const auto x = x_of(replica);
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += static_cast<double>(x[k]);
    }
    double worst = 0;
    for (std::size_t k = 0; k < sum.size(); ++k)
      worst = std::max(worst, std::fabs(sum[k] - mass_[k]));
    return worst / static_cast<double>(replicas_.size());
  }

  // max |x_i - mean|, in the unit of the noise: a root mean square an element.
  [[nodiscard]] double spread() const {
    std::vector<double> mean(mass_.size(), 0.0);
    std::vector<std::vector<float>> all;
    for (const Replica& replica : replicas_) all.push_back(x_of(replica));
    for (const auto& x : all) {
      for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += static_cast<double>(x[k]);
    }
    for (double& value : mean) value /= static_cast<double>(replicas_.size());
    double worst = 0;
    for (const auto& x : all) {
      double away = 0;
      for (std::size_t k = 0; k < mean.size(); ++k) {
        away += (static_cast<double>(x[k]) - mean[k]) * (static_cast<double>(x[k]) - mean[k]);
      }
      worst = std::max(worst, std::sqrt(away / static_cast<double>(mean.size())));
    }
    return worst;
  }

  [[nodiscard]] int commits() const { return commits_; }
  Rng& rng() { return rng_; }

 private:
  struct Link {
    std::array<std::size_t, 2> ends{};
    std::array<std::optional<Bytes>, 2> sent{};
    std::array<bool, 2> committed{};
  };

  static base::PeerId id(std::size_t i) { return peer(static_cast<std::uint8_t>(i + 1)); }
  [[nodiscard]] float w() const { return 1.0F / static_cast<float>(replicas_.size()); }

  Rng rng_;
  std::vector<Replica> replicas_;
  std::vector<Link> links_;
  std::vector<double> mass_;
  int commits_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(replica_swarm)

BOOST_AUTO_TEST_CASE(the_sum_of_all_replicas_is_kept_whatever_the_delays) {
  constexpr std::uint64_t kSeed = 91;
  Swarm swarm(5, 700, 0.5F, kSeed);
  for (int event = 0; event < 20000; ++event) {
    if (event % 4 == 0) swarm.step(swarm.rng().below(5), 0.01F);
    swarm.advance({.density = 0.02});
  }
  swarm.finish();
  BOOST_TEST_CONTEXT("seed " << kSeed << ", commits " << swarm.commits()) {
    BOOST_TEST(swarm.commits() > 4000);
    // Values are of size 1, an addition rounds by 6e-8 at most, errors add up as a random walk.
    BOOST_TEST(swarm.ledger_error() < 3e-5);
  }
}

BOOST_AUTO_TEST_CASE(drift_stays_bounded_under_noise_and_contracts_when_it_stops) {
  constexpr std::uint64_t kSeed = 92;
  constexpr float kNoise = 0.01F;
  for (const float lambda : {0.0F, 0.5F, 1.0F}) {
    Swarm swarm(4, 2000, lambda, kSeed);
    double early = 0;
    double late = 0;
    for (int t = 1; t <= 2000; ++t) {
      swarm.step_all(kNoise);
      swarm.exchange_all({.density = 0.01, .bits = 4});
      if (t == 500) early = swarm.spread();
      if (t == 2000) late = swarm.spread();
    }
    double after = 0;
    for (int t = 0; t < 500; ++t) swarm.exchange_all({.density = 0.01, .bits = 4});
    after = swarm.spread();
    BOOST_TEST_CONTEXT("seed " << kSeed << ", lambda " << lambda << ", after 500: " << early
                               << ", after 2000: " << late << ", without noise: " << after) {
      // Replicas that never met would be at 0.01 * sqrt(2000) = 0.45.
      BOOST_TEST(late < 1.1 * early);
      BOOST_TEST(late < 0.05);
      BOOST_TEST(after < 1e-4 * late);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
