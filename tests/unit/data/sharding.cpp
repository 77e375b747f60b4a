#include "data/sharding.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

using namespace starling::data;

namespace {

constexpr std::uint64_t kSeed = 11;

std::vector<std::int32_t> labels_of(std::size_t count) {
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int32_t>(i * 7 % 10);
  return labels;
}

std::vector<Member> members_of(std::size_t count) {
  std::vector<Member> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[i].id.bytes[3] = static_cast<std::uint8_t>(i + 1);
    members[i].name = "peer-" + std::to_string(i);
  }
  return members;
}

std::vector<double> shares(const Shards& shards, const std::vector<Member>& members) {
  std::vector<double> share(members.size());
  for (const std::uint32_t owner : shard_owners(shards, members))
    share[owner] += 1.0 / shards.count();
  return share;
}

Shards shards_of(std::size_t count, const Config& config, std::uint64_t seed = kSeed) {
  return {static_cast<std::uint32_t>(count), labels_of(count), config, seed};
}

Config dirichlet(double alpha) {
  Config config;
  config.split = Split::dirichlet;
  config.alpha = alpha;
  return config;
}

Config with_split(Split split) {
  Config config;
  config.split = split;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sharding)

BOOST_AUTO_TEST_CASE(shards_partition_the_samples) {
  for (const Config& config :
       {Config{}, with_split(Split::stratified), dirichlet(0.3), with_split(Split::private_data)}) {
    for (const std::size_t count : {1U, 9U, 1000U, 60000U}) {
      const Shards shards = shards_of(count, config);
      std::vector<std::uint32_t> all;
      for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
        const auto samples = shards.samples(shard);
        BOOST_TEST(!samples.empty());
        all.insert(all.end(), samples.begin(), samples.end());
      }
      std::ranges::sort(all);
      BOOST_REQUIRE(all.size() == count);
      for (std::uint32_t i = 0; i < count; ++i) BOOST_REQUIRE(all[i] == i);
    }
  }
}

BOOST_AUTO_TEST_CASE(all_hold_back_the_same_few_samples) {
  const auto labels = labels_of(60000);
  for (Config config :
       {Config{}, with_split(Split::stratified), dirichlet(0.3), with_split(Split::private_data)}) {
    const Shards shards(60000, labels, config, kSeed, true);
    const std::vector<std::uint32_t> held = shards.held_back_of({});
    const double expected = 60000.0 / kHeldBackOneIn;
    BOOST_TEST(std::abs(static_cast<double>(held.size()) - expected) < 4 * std::sqrt(expected));
    std::vector<std::uint32_t> all = shards.samples_of({});
    for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
      BOOST_TEST(!shards.samples(shard).empty());
    }
    all.insert(all.end(), held.begin(), held.end());
    std::ranges::sort(all);
    for (std::uint32_t i = 0; i < 60000; ++i) BOOST_REQUIRE(all[i] == i);

    config.shards = 100;
    const std::vector<std::uint32_t> other =
        Shards(60000, labels, config, kSeed, true).held_back_of({});
    const std::set<std::uint32_t> found(other.begin(), other.end());
    const auto same = std::ranges::count_if(held, [&](auto i) { return found.contains(i); });
    BOOST_TEST(same > 0.95 * static_cast<double>(held.size()));  // each shard keeps its first
  }
  BOOST_TEST(Shards(kHeldBackFrom - 1, labels_of(kHeldBackFrom - 1), {}, kSeed, true)
                 .held_back_of({})
                 .empty());
}

BOOST_AUTO_TEST_CASE(replicas_are_tried_on_samples_that_the_owner_does_not_train_on) {
  const auto labels = labels_of(60000);
  const Shards shards(60000, labels, dirichlet(0.3), kSeed, true);
  const std::vector<std::uint32_t> owned = {3, 500, 501, 502, 503, 504, 505, 506, 900};
  const std::vector<std::uint32_t> held = shards.held_back_of(owned);
  const std::vector<std::uint32_t> trained = shards.samples_of(owned);
  BOOST_TEST(!held.empty());
  const std::set<std::uint32_t> all(trained.begin(), trained.end());
  BOOST_TEST(std::ranges::none_of(held, [&](auto i) { return all.contains(i); }));
}

BOOST_AUTO_TEST_CASE(iid_shards_are_even_and_follow_the_seed) {
  const Shards shards = shards_of(60000, Config{});
  BOOST_TEST(shards.count() == 1024U);
  for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
    BOOST_TEST(std::abs(static_cast<int>(shards.samples(shard).size()) - 58) <= 1);
  }
  const Shards again = shards_of(60000, Config{});
  BOOST_TEST(std::ranges::equal(shards.all_samples(), again.all_samples()));
  const Shards other = shards_of(60000, Config{}, kSeed + 1);
  BOOST_TEST(!std::ranges::equal(shards.all_samples(), other.all_samples()));
}

BOOST_AUTO_TEST_CASE(stratified_shards_hold_every_label_in_proportion) {
  const auto labels = labels_of(60000);
  const Shards shards = shards_of(60000, with_split(Split::stratified));
  BOOST_TEST(shards.count() == 1024U);
  std::map<std::int32_t, double> whole;
  for (const std::int32_t label : labels) whole[label] += 1.0 / shards.count();
  for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
    BOOST_TEST(std::abs(static_cast<double>(shards.samples(shard).size()) - 60000.0 / 1024) < 1);
    std::map<std::int32_t, double> here;
    for (const std::uint32_t sample : shards.samples(shard)) here[labels[sample]] += 1;
    for (const auto& [label, count] : whole) BOOST_TEST(std::abs(here[label] - count) < 1);
  }
  BOOST_TEST(shards_of(3, with_split(Split::stratified)).count() == 3U);
}

BOOST_AUTO_TEST_CASE(private_shards_are_all_their_peer_s_own) {
  const Shards shards = shards_of(5000, with_split(Split::private_data));
  const auto members = members_of(4);
  for (const Member& member : members) {
    BOOST_TEST(owned_shards(shards, members, member.id).size() == shards.count());
  }
}

BOOST_AUTO_TEST_CASE(dirichlet_shard_holds_one_label) {
  const auto labels = labels_of(60000);
  const Shards shards = shards_of(60000, dirichlet(1.0));
  BOOST_TEST(shards.count() >= 1000U);
  for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
    for (const std::uint32_t sample : shards.samples(shard)) {
      BOOST_REQUIRE(labels[sample] == shards.label(shard));
    }
  }
}

BOOST_AUTO_TEST_CASE(shares_follow_the_weights) {
  const Shards shards = shards_of(60000, Config{});
  auto members = members_of(4);
  for (const double share : shares(shards, members)) BOOST_TEST(std::abs(share - 0.25) < 0.05);
  members[0].weight = 3.0;
  const auto weighted = shares(shards, members);
  BOOST_TEST(std::abs(weighted[0] - 0.5) < 0.05);
  for (std::size_t i = 1; i < 4; ++i) BOOST_TEST(std::abs(weighted[i] - 1.0 / 6) < 0.04);
}

BOOST_AUTO_TEST_CASE(death_moves_only_the_dead_members_shards) {
  for (const Config& config : {Config{}, dirichlet(0.5)}) {
    const Shards shards = shards_of(60000, config);
    const auto members = members_of(8);
    const auto before = shard_owners(shards, members);
    for (std::uint32_t dead = 0; dead < members.size(); ++dead) {
      auto survivors = members;
      survivors.erase(survivors.begin() + dead);
      const auto after = shard_owners(shards, survivors);
      for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
        if (before[shard] == dead) continue;
        BOOST_REQUIRE((survivors[after[shard]].id == members[before[shard]].id));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(order_of_members_does_not_matter) {
  const Shards shards = shards_of(5000, dirichlet(0.5));
  auto members = members_of(6);
  const auto self = members[2].id;
  const auto owned = owned_shards(shards, members, self);
  BOOST_TEST(!owned.empty());
  std::ranges::reverse(members);
  BOOST_TEST(owned == owned_shards(shards, members, self), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_shard_has_one_owner_though_each_member_lists_them_in_another_order) {
  const Shards shards = shards_of(5000, Config{});
  auto members = members_of(5);
  std::vector<int> owners(shards.count());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto self = members[0].id;
    for (const std::uint32_t shard : owned_shards(shards, members, self)) ++owners[shard];
    std::ranges::rotate(members, members.begin() + 1);
  }
  for (const int count : owners) BOOST_TEST(count == 1);
}

BOOST_AUTO_TEST_CASE(gamma_draws_have_the_moments_of_their_distribution) {
  // Mean and variance of Gamma(alpha, 1) are alpha; 20,000 draws give the mean to 4 sigma.
  for (const double alpha : {0.1, 0.5, 1.0, 4.0}) {
    constexpr int kDraws = 20000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = std::exp(log_label_share(kSeed, 3, std::to_string(i), alpha));
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    BOOST_TEST_CONTEXT("alpha " << alpha) {
      BOOST_TEST(std::abs(mean - alpha) < 4 * std::sqrt(alpha / kDraws));
      BOOST_TEST(std::abs(squares / kDraws - mean * mean - alpha) < 0.1 * alpha + 0.02);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_seed_draws_the_shares_of_another_one_under_other_labels) {
  std::set<double> shares;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    for (std::int32_t label = 0; label < 10; ++label) {
      shares.insert(log_label_share(seed, label, "peer-1", 0.1));
    }
  }
  BOOST_TEST(shares.size() == 160U);
}

BOOST_AUTO_TEST_CASE(smaller_alpha_is_more_skewed) {
  // A peer's largest label has, on average over peers, a share of its samples that grows from
  // about 0.1 (ten even labels) towards 1 as alpha falls.
  const auto members = members_of(16);
  std::vector<double> largest;
  for (const double alpha : {100.0, 1.0, 0.1}) {
    const Shards shards = shards_of(60000, dirichlet(alpha));
    double sum = 0;
    for (const Member& member : members) {
      std::map<int, double> count;
      double all = 0;
      for (const std::uint32_t shard : owned_shards(shards, members, member.id)) {
        count[shards.label(shard)] += 1;
        all += 1;
      }
      double top = 0;
      for (const auto& [label, n] : count) top = std::max(top, n / std::max(all, 1.0));
      sum += top / 16;
    }
    largest.push_back(sum);
  }
  BOOST_TEST(largest[0] < 0.25);
  BOOST_TEST((largest[1] > 0.2 && largest[1] < 0.6));
  BOOST_TEST(largest[2] > 0.6);
}

// Where draws are too small for a double, all members would look alike, and one would own all.
BOOST_AUTO_TEST_CASE(tiny_alpha_still_tells_members_apart) {
  const auto members = members_of(4);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Shards shards = shards_of(5000, dirichlet(0.001), seed);
    const auto share = shares(shards, members);
    BOOST_TEST(std::ranges::count_if(share, [](double s) { return s > 0; }) > 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
