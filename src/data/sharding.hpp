// Determines the samples that a peer trains on. Every peer computes this from the live members
// alone, without any assignment, and when a member goes, only its shards move.
//
// Weighted rendezvous hashing: C. Schindelhauer and G. Schomaker, "Weighted distributed hash
// tables" (SPAA 2005), logarithmic method: each member scores -w / ln(u) on a shard, u being the
// hash of both as a number in (0, 1); the largest score owns it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/peer_id.hpp"
#include "data/config.hpp"

namespace starling::data {

/// Of the samples, about one in so many is held back, where there are so many or more.
inline constexpr std::uint32_t kHeldBackOneIn = 64;
inline constexpr std::uint32_t kHeldBackFrom = 1024;

/// A live member of the swarm, as sharding sees it.
struct Member {
  base::PeerId id;
  std::string name;     ///< dirichlet: decides the member's share of each label
  double weight = 1.0;  ///< > 0; a member of weight 2 owns twice as much
};

/// The samples of a training set in shards: a partition that depends only on their number, split,
/// number of shards, seed and labels. iid, private: shuffled samples, with sizes that differ by at
/// most one; stratified: the shards' counts of each label differ by at most one, too; dirichlet:
/// each shard has samples of one label. There are never more shards than samples. Some samples of a
/// shard may be held back: nobody trains on them. Immutable.
class Shards {
 public:
  /// `labels`: of each of the `samples` (at least one); only stratified, for which they outlive
  /// this, and dirichlet use them. `holds_back`: about one of kHeldBackOneIn samples, where there
  /// are kHeldBackFrom or more.
  Shards(std::uint32_t samples, std::span<const std::int32_t> labels, const Config& config,
         std::uint64_t seed, bool holds_back = false);

  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(begins_.size() - 1);
  }
  /// Indices of the samples of a shard that its owner trains on, at least one.
  [[nodiscard]] std::span<const std::uint32_t> samples(std::uint32_t shard) const noexcept;
  /// The same of these shards, or of all if there are none, one shard after the other.
  [[nodiscard]] std::vector<std::uint32_t> samples_of(std::span<const std::uint32_t> owned) const;
  /// What is held back of these shards, or of all if there are none; may be nothing.
  [[nodiscard]] std::vector<std::uint32_t> held_back_of(std::span<const std::uint32_t> owned) const;
  /// All samples of the set, shard after shard, with those that are held back.
  [[nodiscard]] std::span<const std::uint32_t> all_samples() const noexcept { return samples_; }
  /// dirichlet: the label of a shard's samples.
  [[nodiscard]] std::int32_t label(std::uint32_t shard) const noexcept;
  /// stratified: the label of each sample; otherwise empty.
  [[nodiscard]] std::span<const std::int32_t> sample_labels() const noexcept {
    return sample_labels_;
  }

  [[nodiscard]] Split split() const noexcept { return split_; }
  [[nodiscard]] double alpha() const noexcept { return alpha_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

 private:
  void cut(std::size_t first, std::size_t count, std::size_t parts);
  void deal(std::size_t parts);
  void hold_back();
  template <class Part>
  std::vector<std::uint32_t> gather(std::span<const std::uint32_t> owned, Part&& part) const;

  Split split_;
  double alpha_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> samples_;
  std::vector<std::size_t> begins_;   ///< of each shard in samples_, and the end
  std::vector<std::size_t> held_;     ///< of each shard: where those that are held back begin
  std::vector<std::int32_t> labels_;  ///< dirichlet: of each shard
  std::span<const std::int32_t> sample_labels_;
};

/// The owner of every divided shard, as an index into `members` (not empty). The order of the
/// members does not matter. Members may disagree on a shard as long as their member tables differ:
/// then two peers train on it, or none. Cost: about 30 ns a shard and member.
[[nodiscard]] std::vector<std::uint32_t> shard_owners(const Shards& shards,
                                                      std::span<const Member> members);

/// The shards that member `self` owns, in ascending order; may be none. Private: all.
[[nodiscard]] std::vector<std::uint32_t> owned_shards(const Shards& shards,
                                                      std::span<const Member> members,
                                                      const base::PeerId& self);

/// dirichlet: the natural logarithm of a peer's share of a label before normalisation, a
/// Gamma(alpha) draw; the shares of many peers normalised are Dirichlet(alpha) distributed.
/// As a logarithm because a small alpha gives draws below the smallest double.
[[nodiscard]] double log_label_share(std::uint64_t seed, std::int32_t label,
                                     const std::string& peer_name, double alpha);

}  // namespace starling::data
