#include "data/sample_order.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"

namespace starling::data {

SampleOrder::SampleOrder(const Shards& shards, std::uint64_t seed,
                         std::span<const std::uint32_t> owned)
    : shards_(shards), seed_(seed), seen_(shards.all_samples().size()) {
  set_shards(owned);
}

void SampleOrder::set_shards(std::span<const std::uint32_t> owned) {
  // Takes memory only for the owned samples: they may be a hundredth of all, or of those before.
  own_ = {};
  order_ = {};
  own_ = shards_.samples_of(owned);
  order_.reserve(own_.size());
  line_up();
}

void SampleOrder::line_up() {
  order_.clear();
  for (const std::uint32_t sample : own_) {
    if (!seen_[sample]) order_.push_back(sample);
  }
  position_ = 0;
  std::uint64_t state = seed_;
  base::Rng rng(base::splitmix64(state) ^ epoch_);
  base::shuffle(order_, rng);
  if (shards_.split() == Split::stratified) spread_labels(rng);
}

// Stratified sampling: a mean over a batch has no variance from the number of samples of each
// label, which matters most if batches are about as small as the number of labels.
void SampleOrder::spread_labels(base::Rng& rng) {
  struct Label {
    std::uint32_t count = 0;
    std::uint32_t placed = 0;
    float first = 0;  ///< as a share of the distance
  };
  const auto label_of = [&](std::uint32_t sample) { return shards_.sample_labels()[sample]; };
  std::unordered_map<std::int32_t, Label> labels;
  for (const std::uint32_t sample : order_) ++labels[label_of(sample)].count;
  std::vector<std::pair<float, std::uint32_t>> places;
  places.reserve(order_.size());
  for (const std::uint32_t sample : order_) {
    Label& label = labels[label_of(sample)];
    if (label.placed == 0) label.first = static_cast<float>(rng.uniform());
    places.emplace_back(
        (static_cast<float>(label.placed++) + label.first) / static_cast<float>(label.count),
        sample);
  }
  std::ranges::sort(places);
  std::ranges::transform(places, order_.begin(), [](const auto& place) { return place.second; });
}

std::uint32_t SampleOrder::next() {
  if (position_ == order_.size()) {
    ++epoch_;
    seen_.assign(seen_.size(), false);
    line_up();
  }
  const std::uint32_t sample = order_[position_++];
  seen_[sample] = true;
  return sample;
}

void SampleOrder::next(std::span<std::uint32_t> out) {
  for (std::uint32_t& sample : out) sample = next();
}

}  // namespace starling::data
