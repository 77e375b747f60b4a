// The loops of Replica: one block at a time, so that all that a commit does to it happens in the
// first-level cache and memory is read and written once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bfloat16.hpp"
#include "delta/replica_memory.hpp"

namespace starling::delta::passes {

/// Elements of a block: y and two mirrors a link fit in 32 KiB with three links.
inline constexpr std::size_t kBlock = 1024;

// What passes over memory, block by block, asks for the next block of what it reads: a pass goes
// from vector to vector, which the processor's own guesses do not follow.

/// x = y + r
void add(const float* y, const float* r, float* x, std::size_t n);

/// What the ends of a link agree on, twice: own_share mine + their_share theirs
void agree(const float* mine, const float* theirs, const EndParts& parts, float* agreed,
           std::size_t n);

/// v = momentum v + (agreed now - before) / 2, or 0 where that has faded (base/faded.hpp);
/// p = momentum_step v; mine += p; theirs += p; y += degree_inverse p
void carry_on(float* v, const float* before, float* mine, float* theirs, float* y,
              const ReplicaMemory::CommitStep& step, std::size_t n);

/// e = w (theirs - mine); y += own e; where mirrors move, mine += own e and theirs -= their e
void average(float* y, float* mine, float* theirs, const ReplicaMemory::CommitStep& step,
             std::size_t n);

/// Where both mirrors are kept in bfloat16, rounded by draws (base/bfloat16.hpp) of `seed` and the
/// number of the element, which is `first` for the first one here.
struct Halves {
  base::BFloat16* mine;
  base::BFloat16* theirs;
  std::uint32_t seed;
  std::uint32_t first;
};

/// As average(), but the mirrors go to `halves`.
void average_halves(float* y, const float* mine, const float* theirs,
                    const ReplicaMemory::CommitStep& step, const Halves& halves, std::size_t n);

/// Sums of squares in fixed lanes: the compiler may not reorder float sums by itself.
struct Squares {
  static constexpr std::size_t kLanes = 8;
  double away[kLanes]{};  ///< sums over x - theirs
  double norm[kLanes]{};  ///< sums over x
};

/// Adds the squares of x = y + r and of x - theirs.
void add_squares(const float* y, const float* r, const float* theirs, std::size_t n, Squares& sums);

}  // namespace starling::delta::passes
