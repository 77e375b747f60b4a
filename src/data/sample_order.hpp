// The order in which a peer goes through its own samples. No threads in here: the loader's core.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "data/sharding.hpp"

namespace starling::data {

/// The most bytes that the shards of that many training samples and a peer's order of them take:
/// for a peer that owns all, as each may have to in the end.
[[nodiscard]] constexpr std::uint64_t order_bytes(std::uint64_t samples, Split split) noexcept {
  const std::uint64_t places = split == Split::stratified ? 2 : 0;
  return samples * (3 + places) * sizeof(std::uint32_t) + samples / 8;
}

/// An endless sequence of sample indices, epoch after epoch. Within an epoch, each of the peer's
/// own samples comes once, in an order that depends only on (seed, epoch) and the shards. The order
/// is shuffled; if the split is stratified, each label's samples come at even distances, so that
/// every batch has about equally many of each, as far as its size allows. An epoch may end within a
/// batch: the next one begins at once, so batches are always full.
class SampleOrder {
 public:
  /// `shards` must outlive this. `seed`: one for each peer. Starts with the `owned` shards, as
  /// after set_shards().
  SampleOrder(const Shards& shards, std::uint64_t seed, std::span<const std::uint32_t> owned = {});

  /// Owns these shards from the next sample on (none: all shards, since a peer without any would
  /// have nothing to do). Samples seen in this epoch stay seen, new ones are still to come, and
  /// those of lost shards are left out.
  void set_shards(std::span<const std::uint32_t> owned);

  /// The next sample. epoch() is then that sample's epoch.
  [[nodiscard]] std::uint32_t next();
  /// Fills `out` with the next samples.
  void next(std::span<std::uint32_t> out);

  /// Whole passes over the own samples that have ended.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

 private:
  /// Lines up the samples of own_ that this epoch has not seen.
  void line_up();
  /// Moves each label's samples in order_ to even distances, from a random first place on.
  void spread_labels(base::Rng& rng);

  const Shards& shards_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint32_t> own_;
  std::vector<std::uint32_t> order_;  ///< the rest of this epoch, from position_ on
  std::size_t position_ = 0;
  std::vector<bool> seen_;  ///< in this epoch, by sample
};

}  // namespace starling::data
