#include "data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "data/array_set.hpp"
#include "data/held_back.hpp"

using namespace starling::data;

namespace {

constexpr std::uint32_t kSamples = 100;

/// 100 samples of one pixel; the pixel is the sample's index, the label its last digit.
struct SmallSet {
  SmallSet() {
    config.shards = 20;
    Answers answers{.classes = 10};
    for (std::uint32_t i = 0; i < kSamples; ++i) {
      pixels.push_back(static_cast<std::byte>(i));
      answers.labels.push_back(static_cast<std::int32_t>(i % 10));
    }
    set = ArraySet::make({.blocks = {{pixels.data(), 1, kSamples}},
                          .shape = {1},
                          .normalisation = {{.mean = 0.0, .std = 1.0 / 255.0}}},
                         std::move(answers), "test")
              .value();
    shards.emplace(kSamples, set->labels(), config, 5);
  }

  std::set<std::uint32_t> samples_of(std::span<const std::uint32_t> owned) const {
    std::set<std::uint32_t> samples;
    for (const std::uint32_t shard : owned) {
      samples.insert(shards->samples(shard).begin(), shards->samples(shard).end());
    }
    return samples;
  }

  std::vector<std::uint32_t> next(SampleOrder& order, std::size_t count) const {
    std::vector<std::uint32_t> samples(count);
    order.next(samples);
    return samples;
  }

  Config config;
  starling::base::Bytes pixels;
  std::unique_ptr<const ArraySet> set;
  std::optional<Shards> shards;
};

/// Counts how often it is read.
class CountingSet : public SampleSet {
 public:
  explicit CountingSet(const SampleSet& like)
      : SampleSet(like.format(), like.size(), {like.labels().begin(), like.labels().end()}) {}
  [[nodiscard]] int reads() const noexcept { return reads_; }

 protected:
  void read(std::uint32_t, std::uint32_t, const Slot& out) const noexcept override {
    *out.samples = 0;
    ++reads_;
  }

 private:
  mutable std::atomic<int> reads_ = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sample_order, SmallSet)

BOOST_AUTO_TEST_CASE(each_own_sample_comes_once_an_epoch) {
  const std::vector<std::uint32_t> owned{1, 4, 9, 16};
  const auto mine = samples_of(owned);
  SampleOrder order(*shards, 3);
  order.set_shards(owned);
  std::vector<std::uint32_t> last;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto samples = next(order, mine.size());
    BOOST_TEST((std::set(samples.begin(), samples.end()) == mine));
    BOOST_TEST(order.epoch() == epoch);
    BOOST_TEST((samples != last));
    last = samples;
  }
}

BOOST_AUTO_TEST_CASE(order_follows_the_seed) {
  SampleOrder a(*shards, 3);
  SampleOrder b(*shards, 3);
  SampleOrder c(*shards, 4);
  const auto samples = next(a, 250);
  BOOST_TEST((samples == next(b, 250)));
  BOOST_TEST((samples != next(c, 250)));
}

BOOST_AUTO_TEST_CASE(stratified_every_label_comes_evenly) {
  config.split = Split::stratified;
  const Shards stratified(kSamples, set->labels(), config, 5);
  std::vector<std::uint32_t> some(13);
  std::iota(some.begin(), some.end(), 2U);
  SampleOrder order(stratified, 3, some);
  std::map<std::int32_t, int> mine;
  std::vector<std::uint32_t> own;
  for (const std::uint32_t shard : some) {
    for (const std::uint32_t sample : stratified.samples(shard)) {
      ++mine[set->labels()[sample]];
      own.push_back(sample);
    }
  }
  std::ranges::sort(own);
  std::vector<std::uint32_t> last;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto samples = next(order, own.size());
    std::map<std::int32_t, int> so_far;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      ++so_far[set->labels()[samples[i]]];
      const double share = static_cast<double>(i + 1) / static_cast<double>(own.size());
      for (const auto& [label, count] : mine) {
        BOOST_TEST(std::abs(so_far[label] - count * share) < 2);
      }
    }
    BOOST_TEST((samples != last));
    last = samples;
    auto sorted = samples;
    std::ranges::sort(sorted);
    BOOST_TEST((sorted == own));
  }
}

BOOST_AUTO_TEST_CASE(new_shards_keep_the_place_in_the_epoch) {
  SampleOrder order(*shards, 3);
  order.set_shards(std::vector<std::uint32_t>{0, 1, 2, 3});
  const auto first = next(order, 12);
  order.set_shards(std::vector<std::uint32_t>{2, 3, 4, 5});
  auto expected = samples_of(std::vector<std::uint32_t>{2, 3, 4, 5});
  for (const std::uint32_t sample : first) expected.erase(sample);
  const auto rest = next(order, expected.size());
  BOOST_TEST(order.epoch() == 0U);
  BOOST_TEST((std::set(rest.begin(), rest.end()) == expected));
  const auto whole = next(order, 20);
  BOOST_TEST(order.epoch() == 1U);
  BOOST_TEST(
      (std::set(whole.begin(), whole.end()) == samples_of(std::vector<std::uint32_t>{2, 3, 4, 5})));
}

BOOST_AUTO_TEST_CASE(peer_without_shards_takes_all_samples) {
  SampleOrder order(*shards, 3);
  order.set_shards(std::vector<std::uint32_t>{7});
  order.set_shards({});
  const auto samples = next(order, kSamples);
  BOOST_TEST(std::set(samples.begin(), samples.end()).size() == kSamples);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(loader, SmallSet)

BOOST_AUTO_TEST_CASE(batches_hold_each_own_sample_once_an_epoch) {
  const std::vector<std::uint32_t> owned{0, 5, 6, 13, 19};
  Loader loader(*set, *shards, 5, 3, owned);
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 5; ++i) {
      auto batch = loader.next();
      BOOST_REQUIRE(batch.has_value());
      BOOST_TEST(batch->view().labels.size() == 5U);
      for (std::size_t s = 0; s < 5; ++s) {
        const auto sample = static_cast<std::uint32_t>(std::lround(batch->samples[s]));
        BOOST_TEST(batch->labels[s] == static_cast<int>(sample % 10));
        seen.insert(sample);
      }
      loader.recycle(std::move(*batch));
    }
    BOOST_TEST((seen == samples_of(owned)));
  }
}

BOOST_AUTO_TEST_CASE(buffers_are_the_same_all_the_time) {
  Loader loader(*set, *shards, 8, 3, {});
  std::set<const float*> buffers;
  for (int i = 0; i < 100; ++i) {
    auto batch = loader.next();
    BOOST_REQUIRE(batch.has_value());
    buffers.insert(batch->samples.data());
    loader.recycle(std::move(*batch));
  }
  BOOST_TEST(buffers.size() <= Loader::kPool);
}

BOOST_AUTO_TEST_CASE(nothing_is_filled_before_a_batch_is_asked_for) {
  const CountingSet counting(*set);
  {
    Loader loader(counting, *shards, 5, 3, {});
    loader.set_shards({7});
    BOOST_TEST(!loader.try_next().has_value());
  }
  BOOST_TEST(counting.reads() == 0);  // the data thread has ended by now
  Loader loader(counting, *shards, 5, 3, {});
  BOOST_TEST(loader.next().has_value());
  BOOST_TEST(counting.reads() >= 5);
}

BOOST_AUTO_TEST_CASE(shards_set_before_the_first_batch_hold_from_it_on) {
  Loader loader(*set, *shards, 5, 3, {});
  const std::vector<std::uint32_t> own{8, 9};
  loader.set_shards(own);
  loader.set_batch(3);
  const auto expected = samples_of(own);
  for (std::size_t i = 0; i < Loader::kPool + 5; ++i) {
    auto batch = loader.next();
    BOOST_REQUIRE(batch.has_value());
    BOOST_TEST(batch->count == 3U);
    for (const float value : batch->samples) {
      BOOST_TEST(expected.contains(static_cast<std::uint32_t>(std::lround(value))));
    }
    loader.recycle(std::move(*batch));
  }
}

BOOST_AUTO_TEST_CASE(new_shards_arrive_after_at_most_the_pool) {
  Loader loader(*set, *shards, 5, 3, std::vector<std::uint32_t>{0});
  loader.recycle(*loader.next());
  const std::vector<std::uint32_t> other{8, 9};
  loader.set_shards(other);
  const auto expected = samples_of(other);
  for (std::size_t i = 0; i < Loader::kPool + 20; ++i) {
    auto batch = loader.next();
    BOOST_REQUIRE(batch.has_value());
    if (i >= Loader::kPool) {
      for (const float value : batch->samples) {
        BOOST_TEST(expected.contains(static_cast<std::uint32_t>(std::lround(value))));
      }
    }
    loader.recycle(std::move(*batch));
  }
}

BOOST_AUTO_TEST_CASE(other_batches_arrive_after_at_most_the_pool) {
  Loader loader(*set, *shards, 5, 3, {});
  loader.recycle(*loader.next());
  for (const std::uint32_t wanted : {2U, 5U}) {
    loader.set_batch(wanted);
    for (std::size_t i = 0; i < Loader::kPool + 5; ++i) {
      auto batch = loader.next();
      BOOST_REQUIRE(batch.has_value());
      BOOST_TEST((batch->count == wanted || i < Loader::kPool));
      BOOST_TEST(batch->view().labels.size() == batch->count);
      loader.recycle(std::move(*batch));
    }
  }
}

BOOST_AUTO_TEST_CASE(stop_ends_a_waiting_trainer) {
  Loader loader(*set, *shards, 5, 3, {});
  std::vector<BatchBuffer> kept;
  for (std::size_t i = 0; i < Loader::kPool; ++i) kept.push_back(*loader.next());
  std::thread trainer([&] { BOOST_TEST(!loader.next().has_value()); });
  loader.stop();
  trainer.join();
  loader.recycle(std::move(kept[0]));
  BOOST_TEST(!loader.next().has_value());
}

BOOST_AUTO_TEST_CASE(stop_before_the_first_batch_ends_it_as_well) {
  Loader loader(*set, *shards, 5, 3, {});
  loader.stop();
  BOOST_TEST(!loader.next().has_value());
}

BOOST_AUTO_TEST_CASE(peers_have_different_orders) {
  starling::base::PeerId a;
  starling::base::PeerId b;
  b.bytes[31] = 1;
  BOOST_TEST(Loader::peer_seed(1, a) != Loader::peer_seed(1, b));
  BOOST_TEST(Loader::peer_seed(1, a) != Loader::peer_seed(2, a));
  BOOST_TEST(Loader::peer_seed(1, a) != Loader::peer_seed(1, a, 64));
}

BOOST_AUTO_TEST_CASE(held_back_samples_take_turns) {
  constexpr std::uint32_t kMany = 4 * kHeldBackFrom;
  const Shards all(kMany, {}, {}, 5, true);
  const std::vector<std::uint32_t> held = all.held_back_of({});
  starling::base::Bytes marks(kMany, std::byte{0});
  for (const std::uint32_t sample : held) marks[sample] = std::byte{1};
  Answers answers{.classes = 1};
  answers.labels.resize(kMany);
  const auto marked = ArraySet::make({.blocks = {{marks.data(), 1, kMany}},
                                      .shape = {1},
                                      .normalisation = {{.mean = 0.0, .std = 1.0 / 255.0}}},
                                     std::move(answers), "test")
                          .value();
  HeldBack held_back(*marked, all, 7);
  BatchBuffer batch;
  constexpr std::uint32_t kWanted = 16;
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST_REQUIRE(held_back.next(kWanted, batch));
    BOOST_TEST(batch.count == kWanted);
    for (const float mark : batch.samples) BOOST_TEST(mark == 1.0F);
  }
  BOOST_TEST(held_back.next(kMany, batch));
  BOOST_TEST(batch.count == held.size());
}

BOOST_AUTO_TEST_CASE(few_samples_hold_nothing_back) {
  HeldBack held_back(*set, *shards, 7);
  BatchBuffer batch;
  BOOST_TEST(!held_back.next(16, batch));
}

BOOST_AUTO_TEST_SUITE_END()
