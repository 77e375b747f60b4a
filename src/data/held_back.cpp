#include "data/held_back.hpp"

#include <algorithm>

namespace starling::data {

HeldBack::HeldBack(const SampleSet& set, const Shards& shards, std::uint64_t seed)
    : set_(&set), shards_(&shards), rng_(seed), samples_(shards.held_back_of({})) {
  position_ = samples_.size();
}

void HeldBack::set_shards(std::span<const std::uint32_t> owned) {
  if (shards_->split() != Split::dirichlet) return;
  samples_ = shards_->held_back_of(owned);
  position_ = samples_.size();
}

bool HeldBack::next(std::uint32_t wanted, BatchBuffer& out) {
  if (samples_.empty()) return false;
  const std::size_t count = std::min<std::size_t>(wanted, samples_.size());
  if (samples_.size() - position_ < count) {
    base::shuffle(samples_, rng_);
    position_ = 0;
  }
  set_->fill(std::span(samples_).subspan(position_, count), {}, out);
  position_ += count;
  return true;
}

}  // namespace starling::data
