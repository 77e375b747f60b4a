#include "delta/host_passes.hpp"

#include <algorithm>
#include <cstdint>

#include "base/clones.hpp"
#include "base/faded.hpp"
#include "base/prefetch.hpp"

namespace starling::delta::passes {
namespace {

constexpr std::size_t kStrip = 64;  // elements between two requests for memory

/// Asks for the same strip of the next block of vectors that lie in memory.
template <class... Vectors>
[[gnu::always_inline]] inline void ask(std::size_t at, const Vectors*... vectors) {
  (base::prefetch(vectors + at, kBlock * sizeof(*vectors), kStrip * sizeof(*vectors)), ...);
}

}  // namespace

STARLING_CLONES void add(const float* __restrict y, const float* __restrict r, float* __restrict x,
                         std::size_t n) {
  for (std::size_t strip = 0; strip < n; strip += kStrip) {
    ask(strip, y, r);
    const std::size_t end = std::min(strip + kStrip, n);
    for (std::size_t i = strip; i < end; ++i) x[i] = y[i] + r[i];
  }
}

STARLING_CLONES void agree(const float* __restrict mine, const float* __restrict theirs,
                           const EndParts& parts, float* __restrict agreed, std::size_t n) {
  const float own = parts.own_share;
  const float their = parts.their_share;
  for (std::size_t i = 0; i < n; ++i) agreed[i] = own * mine[i] + their * theirs[i];
}

STARLING_CLONES void carry_on(float* __restrict v, const float* __restrict before,
                              float* __restrict mine, float* __restrict theirs, float* __restrict y,
                              const ReplicaMemory::CommitStep& step, std::size_t n) {
  const float own = step.parts.own_share;
  const float their = step.parts.their_share;
  const float momentum = step.momentum;
  const float momentum_step = step.momentum_step;
  const float degree_inverse = step.degree_inverse;
  for (std::size_t strip = 0; strip < n; strip += kStrip) {
    ask(strip, v, y);
    const std::size_t end = std::min(strip + kStrip, n);
    for (std::size_t i = strip; i < end; ++i) {
      const float agreed = own * mine[i] + their * theirs[i];
      v[i] = base::unless_faded(momentum * v[i] + 0.5F * (agreed - before[i]));
      const float p = momentum_step * v[i];
      mine[i] += p;
      theirs[i] += p;
      y[i] += degree_inverse * p;
    }
  }
}

STARLING_CLONES void average(float* __restrict y, float* __restrict mine, float* __restrict theirs,
                             const ReplicaMemory::CommitStep& step, std::size_t n) {
  const float w = step.w;
  const float own = step.parts.own;
  const float own_moved = step.moves_mirrors ? own : 0.0F;
  const float their_moved = step.moves_mirrors ? step.parts.their : 0.0F;
  for (std::size_t strip = 0; strip < n; strip += kStrip) {
    ask(strip, y, mine, theirs);
    const std::size_t end = std::min(strip + kStrip, n);
    for (std::size_t i = strip; i < end; ++i) {
      const float e = w * (theirs[i] - mine[i]);
      y[i] += own * e;
      mine[i] += own_moved * e;
      theirs[i] -= their_moved * e;
    }
  }
}

STARLING_WIDE_CLONES void average_halves(float* __restrict y, const float* __restrict mine,
                                         const float* __restrict theirs,
                                         const ReplicaMemory::CommitStep& step,
                                         const Halves& halves, std::size_t n) {
  const float w = step.w;
  const float own = step.parts.own;
  const float own_moved = step.moves_mirrors ? own : 0.0F;
  const float their_moved = step.moves_mirrors ? step.parts.their : 0.0F;
  base::BFloat16* const __restrict mine_to = halves.mine;
  base::BFloat16* const __restrict theirs_to = halves.theirs;
  const auto count = static_cast<std::uint32_t>(n);  // as wide as what is drawn from
  // draw() of one element after another, the next one by an addition.
  std::uint32_t weyl = halves.first * base::kWeyl + halves.seed;
  for (std::uint32_t strip = 0; strip < count; strip += kStrip) {
    ask(strip, y, mine_to, theirs_to);
    const std::uint32_t end = std::min<std::uint32_t>(strip + kStrip, count);
    for (std::uint32_t i = strip; i < end; ++i) {
      const float e = w * (theirs[i] - mine[i]);
      const std::uint32_t more = weyl >> 16;
      weyl += base::kWeyl;
      y[i] += own * e;
      mine_to[i] = base::narrow(mine[i] + own_moved * e, more);
      theirs_to[i] = base::narrow(theirs[i] - their_moved * e, more);
    }
  }
}

STARLING_CLONES void add_squares(const float* y, const float* r, const float* theirs, std::size_t n,
                                 Squares& sums) {
  Squares local = sums;
  const auto add_one = [&](std::size_t i, std::size_t lane) {
    const float x = y[i] + r[i];
    const double away = static_cast<double>(x) - static_cast<double>(theirs[i]);
    local.away[lane] += away * away;
    local.norm[lane] += static_cast<double>(x) * static_cast<double>(x);
  };
  std::size_t i = 0;
  for (; i + Squares::kLanes <= n; i += Squares::kLanes) {
    for (std::size_t lane = 0; lane < Squares::kLanes; ++lane) add_one(i + lane, lane);
  }
  for (; i < n; ++i) add_one(i, 0);
  sums = local;
}

}  // namespace starling::delta::passes
