// The batches of one peer, one after the other. No threads in here: the loader's core.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "data/batch_buffer.hpp"
#include "data/config.hpp"
#include "data/sample_order.hpp"
#include "data/sample_set.hpp"
#include "data/sharding.hpp"

namespace starling::data {

/// Fills batches with a peer's own samples in the order of SampleOrder; changes images as the run
/// file says, and moves the windows of a text in every epoch. Everything depends only on the seed
/// and the shards.
class BatchStream {
 public:
  /// `set` and `shards` outlive this. `batch`: samples of a batch, always at least 1. `seed`: one
  /// for each peer. `owned`: as in SampleOrder::set_shards. Augmentation is only for images
  /// (SampleFormat::shape of three sides).
  BatchStream(const SampleSet& set, const Shards& shards, const Augmentation& augmentation,
              std::uint32_t batch, std::uint64_t seed, std::span<const std::uint32_t> owned = {});

  /// Like SampleOrder::set_shards.
  void set_shards(std::span<const std::uint32_t> owned) { order_.set_shards(owned); }
  void set_batch(std::uint32_t batch) { indices_.resize(batch); }
  /// Allocates nothing once `out` has room.
  void next(BatchBuffer& out);

  [[nodiscard]] const SampleFormat& format() const noexcept { return set_.format(); }

 private:
  const SampleSet& set_;
  SampleOrder order_;
  Augmentation augmentation_;
  std::uint64_t seed_;
  std::uint64_t samples_ = 0;  ///< so far
  base::Rng step_seeds_;
  std::vector<std::uint32_t> indices_;
  std::vector<std::uint32_t> shifts_;  ///< of each sample of a text; otherwise empty
  std::vector<float> scratch_;         ///< room for one image
};

}  // namespace starling::data
