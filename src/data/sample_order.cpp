#include "data/sample_order.hpp"

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"

namespace starling::data {

SampleOrder::SampleOrder(const Shards& shards, std::uint64_t seed)
    : shards_(shards), seed_(seed), seen_(shards.all_samples().size()) {
  own_.reserve(shards.all_samples().size());
  order_.reserve(shards.all_samples().size());
  set_shards({});
}

void SampleOrder::set_shards(std::span<const std::uint32_t> owned) {
  own_.clear();
  for (const std::uint32_t shard : owned) {
    const auto samples = shards_.samples(shard);
    own_.insert(own_.end(), samples.begin(), samples.end());
  }
  if (own_.empty()) own_.assign(shards_.all_samples().begin(), shards_.all_samples().end());
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
