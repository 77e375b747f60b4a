// Kernels for a replica that lives on the GPU; compute/replica_memory.hpp defines their results.
//
// Values that must have the same bits at both ends of a link are computed by single float32
// operations in one order, as on the processor. The GPU's compiler would fuse products with sums,
// so products are times(). M is the type of the mirrors' elements: float, or a bfloat16's bits.
//
// A delta touches few elements, and a pass all of them. Mirrors in float32 get their deltas first,
// and one pass makes the steps of all links. With mirrors in bfloat16, or a momentum, each element
// may be written only once: so the elements that a commit's deltas touch are computed first, in
// separate memory; then the pass runs over everything as if there were no deltas; then the separate
// values are put in place.
#pragma once

#include <type_traits>

#include "base/bfloat16.hpp"
#include "base/faded.hpp"
#include "cuda/kernels/fours.hpp"
#include "delta/end_parts.hpp"

namespace starling::compute::cuda {

/// A product that is rounded separately.
STARLING_BOTH inline float times(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// x - a mirror.
template <class M>
struct MirrorDifference {
  const float* y;
  const float* r;
  const M* mirror;

  STARLING_BOTH float operator[](std::size_t i) const {
    return (y[i] + r[i]) - value_of(mirror[i]);
  }
};

/// Sums over runs of elements: one row per run, number `first` and every `every`th after it.
template <class M>
struct RunSquares {
  static constexpr bool kByRows = true;
  MirrorDifference<M> difference;
  std::size_t n;
  std::size_t run;  ///< elements
  std::size_t first;
  std::size_t every;
  double* sums;  ///< of the squares of the difference and of x, one pair per row

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const MirrorDifference<M> of = difference;
    const std::size_t begin = (first + row * every) * run;
    const std::size_t size = n - begin < run ? n - begin : run;
    const double away = team.sum(size, [=](std::size_t i) {
      const float x = of.y[begin + i] + of.r[begin + i];
      const double apart =
          static_cast<double>(x) - static_cast<double>(value_of(of.mirror[begin + i]));
      return apart * apart;
    });
    const double norm = team.sum(size, [=](std::size_t i) {
      const auto x = static_cast<double>(of.y[begin + i] + of.r[begin + i]);
      return x * x;
    });
    if (!team.leads()) return;
    sums[2 * row] = away;
    sums[2 * row + 1] = norm;
  }
};

/// y += r, r = 0. One call for kWide elements.
struct Release {
  static constexpr std::size_t kWide = kFour;

  float* y;
  float* r;
  std::size_t n;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::size_t size = in_four(i, n);
    Four sum = load_four(y + i, size);
    const Four held = load_four(r + i, size);
    for (std::size_t k = 0; k < kFour; ++k) sum.of[k] += held.of[k];
    store_four(sum, y + i, size);
    store_four(Four{}, r + i, size);
  }
};

/// A delta's elements: indices rise.
struct DeviceElements {
  const std::uint32_t* indices;
  const float* values;
  std::size_t count;

  /// The place of an index; count if there is none.
  [[nodiscard]] STARLING_BOTH std::size_t place_of(std::uint32_t index) const {
    std::size_t low = 0;
    std::size_t high = count;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (indices[middle] < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < count && indices[low] == index ? low : count;
  }
};

/// A mirror's values at the elements of a delta. One call per value.
template <class M>
struct ReadMirror {
  DeviceElements delta;
  const M* mirror;
  float* values;

  STARLING_BOTH void operator()(std::size_t j) const {
    values[j] = value_of(mirror[delta.indices[j]]);
  }
};

/// Adds a delta to a mirror in float32. One call per value.
struct AddDelta {
  DeviceElements delta;
  float* mirror;

  STARLING_BOTH void operator()(std::size_t j) const {
    mirror[delta.indices[j]] += delta.values[j];
  }
};

inline constexpr std::size_t kLinksAtOnce = 8;

/// The steps of commits of up to kLinks links, one after the other, once their mirrors, in float32,
/// have the deltas: y is read and written once. One call for kWide elements.
template <std::size_t kLinks>
struct CommitLinks {
  static constexpr std::size_t kWide = kFour;

  struct Link {
    float* mine;
    float* theirs;
    float w;
    float own;  ///< parts of the common step, that move the ends
    float their;
    bool moves_mirrors;
  };
  float* y;
  std::size_t n;
  std::size_t count;  ///< of links
  Link links[kLinks];

  STARLING_BOTH void operator()(std::size_t i) const {
    // Everything is read before anything is written, so that all these loads are in flight.
    const std::size_t size = in_four(i, n);
    Four mine[kLinks]{};
    Four theirs[kLinks]{};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::size_t link = 0; link < kLinks; ++link) {
      if (link >= count) continue;
      mine[link] = load_four(links[link].mine + i, size);
      theirs[link] = load_four(links[link].theirs + i, size);
    }
    Four sum = load_four(y + i, size);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::size_t link = 0; link < kLinks; ++link) {
      if (link >= count) continue;
      for (std::size_t k = 0; k < kFour; ++k) {
        const float e = times(links[link].w, theirs[link].of[k] - mine[link].of[k]);
        const float d = times(links[link].own, e);
        sum.of[k] += d;
        mine[link].of[k] += d;
        theirs[link].of[k] -= times(links[link].their, e);
      }
      if (!links[link].moves_mirrors) continue;
      store_four(mine[link], links[link].mine + i, size);
      store_four(theirs[link], links[link].theirs + i, size);
    }
    store_four(sum, y + i, size);
  }
};

// A commit of one link whose mirrors are bfloat16s, or that has a momentum: mirrors are rounded
// once, at the end, and a momentum sums the deltas' changes, so the deltas cannot be added first.

/// A mirror's element, from a value and the draw for its rounding.
template <class M>
[[nodiscard]] STARLING_BOTH M kept_as(float value, std::uint32_t drawn) {
  if constexpr (std::is_same_v<M, float>) {
    return value;
  } else {
    return base::narrow(value, drawn).bits;
  }
}

/// The result of a commit for one element.
template <class M>
struct CommittedElement {
  float y;
  float momentum;
  M mine;
  M theirs;
};

/// An element's mirrors: what they agreed on before, and their values with the deltas.
struct MirrorsOfElement {
  float before;
  float own;
  float their;
};

/// A commit's vectors and step.
template <class M>
struct CommitSides {
  float* y;
  M* mine;
  M* theirs;
  float* v;  ///< the link's momentum; null: it has none
  float momentum;
  float momentum_step;
  float degree_inverse;
  float w;
  delta::EndParts parts;
  bool moves_mirrors;
  std::uint32_t draw;

  /// Twice what the ends agree on, from their mirrors.
  [[nodiscard]] STARLING_BOTH float agreed(float own, float their) const {
    return times(parts.own_share, own) + times(parts.their_share, their);
  }

  [[nodiscard]] STARLING_BOTH float momentum_at(std::size_t i) const {
    return v == nullptr ? 0.0F : v[i];
  }
  /// The result for an element.
  [[nodiscard]] STARLING_BOTH CommittedElement<M> step(std::size_t i, float from, float moving,
                                                       MirrorsOfElement mirrors) const {
    if (v != nullptr) {
      const float common = agreed(mirrors.own, mirrors.their) - mirrors.before;
      moving = base::unless_faded(times(momentum, moving) + times(0.5F, common));
      const float p = times(momentum_step, moving);
      mirrors.own += p;
      mirrors.their += p;
      from += times(degree_inverse, p);
    }
    const float e = times(w, mirrors.their - mirrors.own);
    const float d = times(parts.own, e);
    const float own_moved = moves_mirrors ? d : 0.0F;
    const float their_moved = moves_mirrors ? times(parts.their, e) : 0.0F;
    const std::uint32_t drawn = base::draw(draw, static_cast<std::uint32_t>(i));
    return {.y = from + d,
            .momentum = moving,
            .mine = kept_as<M>(mirrors.own + own_moved, drawn),
            .theirs = kept_as<M>(mirrors.their - their_moved, drawn)};
  }
  STARLING_BOTH void put(std::size_t i, const CommittedElement<M>& element) const {
    y[i] = element.y;
    if (v != nullptr) v[i] = element.momentum;
    mine[i] = element.mine;
    theirs[i] = element.theirs;
  }
};

/// Stores the results for the elements that deltas touch separately. One call per value of both
/// deltas.
template <class M>
struct CommitTouched {
  CommitSides<M> sides;
  DeviceElements own;
  DeviceElements their;
  CommittedElement<M>* aside;

  STARLING_BOTH void operator()(std::size_t i) const {
    const bool is_own = i < own.count;
    const std::uint32_t index = is_own ? own.indices[i] : their.indices[i - own.count];
    const std::size_t other = is_own ? their.place_of(index) : own.place_of(index);
    if (!is_own && other < own.count) return;  // the own delta's call does it
    MirrorsOfElement mirrors{0, value_of(sides.mine[index]), value_of(sides.theirs[index])};
    mirrors.before = sides.agreed(mirrors.own, mirrors.their);
    if (is_own) mirrors.own += own.values[i];
    if (is_own && other < their.count) mirrors.their += their.values[other];
    if (!is_own) mirrors.their += their.values[i - own.count];
    aside[i] = sides.step(index, sides.y[index], sides.momentum_at(index), mirrors);
  }
};

/// One call for kWide elements.
template <class M>
struct CommitAll {
  static constexpr std::size_t kWide = kFour;

  CommitSides<M> sides;
  std::size_t n;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::size_t size = in_four(i, n);
    Four y = load_four(sides.y + i, size);
    Four v{};
    if (sides.v != nullptr) v = load_four(sides.v + i, size);
    const Four own = load_four(sides.mine + i, size);
    const Four their = load_four(sides.theirs + i, size);
    M mine[kFour];
    M theirs[kFour];
    for (std::size_t k = 0; k < kFour; ++k) {
      const MirrorsOfElement mirrors{sides.agreed(own.of[k], their.of[k]), own.of[k], their.of[k]};
      const CommittedElement<M> made = sides.step(i + k, y.of[k], v.of[k], mirrors);
      y.of[k] = made.y;
      v.of[k] = made.momentum;
      mine[k] = made.mine;
      theirs[k] = made.theirs;
    }
    store_four(y, sides.y + i, size);
    if (sides.v != nullptr) store_four(v, sides.v + i, size);
    keep(mine, sides.mine + i, size);
    keep(theirs, sides.theirs + i, size);
  }

 private:
  STARLING_BOTH static void keep(const M (&four)[kFour], M* to, std::size_t size) {
    if constexpr (std::is_same_v<M, float>) {
      store_four(Four{{four[0], four[1], four[2], four[3]}}, to, size);
    } else {
      store_four(four, to, size);
    }
  }
};

/// One call a value of both deltas.
template <class M>
struct CommitPut {
  CommitSides<M> sides;
  DeviceElements own;
  DeviceElements their;
  const CommittedElement<M>* aside;

  STARLING_BOTH void operator()(std::size_t i) const {
    const bool is_own = i < own.count;
    const std::uint32_t index = is_own ? own.indices[i] : their.indices[i - own.count];
    if (is_own || own.place_of(index) == own.count) sides.put(index, aside[i]);
  }
};

/// Holding back a difference: r = keep r + gain (x - mirror), and x stays.
struct HoldingBack {
  float* y;
  float* r;
  float keep;
  float gain;
};

/// Releases the part that a delta carries. One call per value.
struct ReleaseSent {
  float* y;
  float* r;
  DeviceElements delta;
  float gain;

  STARLING_BOTH void operator()(std::size_t j) const {
    const std::size_t i = delta.indices[j];
    const float x = y[i] + r[i];
    const float held = r[i] - times(gain, delta.values[j]);
    r[i] = held;
    y[i] = x - held;
  }
};

}  // namespace starling::compute::cuda
