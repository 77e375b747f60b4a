// A peer's assignment: which data it trains on, and how much of it in a step.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sharding.hpp"
#include "membership/member_table.hpp"
#include "train/config.hpp"

namespace starling::peer {

struct Assignment {
  std::vector<std::uint32_t> shards;  ///< of the training set, in ascending order; may be none
  std::uint32_t batch = 0;            ///< samples of a step

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// The assignment of the table's own peer: of those that count as alive, each owns shards by its
/// speed, and who has not measured it yet counts as the mean of those that have. Looks at all
/// members and shards.
[[nodiscard]] Assignment assignment_of(const membership::MemberTable& table,
                                       const data::Shards& shards, const train::Config& train);

}  // namespace starling::peer
