#include "data/batch_stream.hpp"

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "data/augment.hpp"

namespace starling::data {
namespace {

/// The shift of a text's windows in an epoch.
std::uint32_t shift_of(std::uint64_t seed, std::uint64_t epoch) noexcept {
  std::uint64_t state = seed ^ (0x7368696674ULL << 20);  // differs from the order's draws
  state = base::splitmix64(state) + epoch;
  return static_cast<std::uint32_t>(base::splitmix64(state) >> 32);
}

}  // namespace

BatchStream::BatchStream(const SampleSet& set, const Shards& shards,
                         const Augmentation& augmentation, std::uint32_t batch, std::uint64_t seed,
                         std::span<const std::uint32_t> owned)
    : set_(set),
      order_(shards, seed, owned),
      augmentation_(augmentation),
      seed_(seed),
      step_seeds_(seed),
      indices_(batch),
      shifts_(set.format().vocabulary != 0 ? batch : 0),
      scratch_(augmentation.any() ? set.format().values() : 0) {
  ASSERT(batch > 0);
  ASSERT(shards.all_samples().size() == set.size(), "these shards are of another set");
  ASSERT(!augmentation.any() || set.format().shape.size() == 3);
}

void BatchStream::next(BatchBuffer& out) {
  shifts_.clear();
  for (std::uint32_t& index : indices_) {
    index = order_.next();
    // An epoch may end within the batch, and each has one shift for all its windows.
    if (set_.format().vocabulary != 0) shifts_.push_back(shift_of(seed_, order_.epoch()));
  }
  set_.fill(indices_, shifts_, out);
  if (augmentation_.any()) {
    augment(augmentation_, set_.format().shape, seed_, samples_, out.samples, scratch_);
  }
  samples_ += indices_.size();
  out.seed = step_seeds_();
  out.epoch = order_.epoch();
}

}  // namespace starling::data
