// The replica that a hostile peer tells a neighbour of, by attack. Pure.
#pragma once

#include <span>
#include <vector>

#include "base/large_vector.hpp"
#include "base/rng.hpp"
#include "hostile/attack.hpp"

namespace starling::hostile {

/// The attacks that tell of another replica than the own one.
[[nodiscard]] bool tells_other_replica(AttackKind kind) noexcept;

/// Those of them that need the replicas of all neighbours.
[[nodiscard]] bool follows_mean(AttackKind kind) noexcept;

/// What a hostile peer knows when it tells a neighbour of its replica. All are of one size; those
/// that it does not know are empty.
struct Known {
  std::span<const float> own{};              ///< the own replica
  std::span<const float> theirs{};           ///< the neighbour's, as its mirror is
  std::vector<base::LargeFloats> mirrors{};  ///< those of all neighbours, this one among them
  std::span<const float> mean_before{};      ///< their mean when this neighbour was told last
};

/// Mean of vectors of one size, of which there is at least one.
[[nodiscard]] base::LargeFloats mean_of(std::span<const base::LargeFloats> vectors);

/// The replica to tell of, finite; the own one where the attack needs what is not known. `attack`
/// is one of those above.
[[nodiscard]] base::LargeFloats told(const Attack& attack, const Known& known, base::Rng& rng);

}  // namespace starling::hostile
