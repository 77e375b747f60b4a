// Samples that no peer trains on, to try replicas on: a peer would know its others by heart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "data/batch_buffer.hpp"
#include "data/sample_set.hpp"
#include "data/sharding.hpp"

namespace starling::data {

/// Batches of the samples that Shards holds back, in random order: of all shards, or of the own
/// ones, where peers' samples differ (dirichlet).
class HeldBack {
 public:
  /// `set` and `shards` outlive this. `seed`: one for each peer.
  HeldBack(const SampleSet& set, const Shards& shards, std::uint64_t seed);

  /// Owns these shards from now on (none: all).
  void set_shards(std::span<const std::uint32_t> owned);
  /// Makes `out` a batch of the next samples: `wanted`, or all where there are fewer. False: there
  /// are none.
  [[nodiscard]] bool next(std::uint32_t wanted, BatchBuffer& out);

 private:
  const SampleSet* set_;
  const Shards* shards_;
  base::Rng rng_;
  std::vector<std::uint32_t> samples_;
  std::size_t position_ = 0;  ///< in samples_, which are shuffled at its end
};

}  // namespace starling::data
