// Kernels that choose the largest elements of a difference: compute/delta.hpp says what they
// choose, cuda/device_source.cpp in which order they run.
#pragma once

#include "compute/cuda/replica.hpp"
#include "compute/cut.hpp"

namespace starling::compute::cuda {

/// Adds to a counter that others add to at the same time; what it was before.
STARLING_BOTH inline std::uint32_t claim(std::uint32_t* counter, std::uint32_t count) {
#ifdef __CUDA_ARCH__
  return atomicAdd(counter, count);
#else
  const std::uint32_t before = *counter;
  *counter += count;
  return before;
#endif
}

/// One call a place.
template <class M>
struct SampleDifference {
  MirrorDifference<M> difference;
  const std::uint32_t* places;
  float* values;

  STARLING_BOTH void operator()(std::size_t i) const { values[i] = difference[places[i]]; }
};

/// Where the elements lie that were found in a tile.
struct TileFound {
  std::uint32_t first;
  std::uint32_t count;
};

inline constexpr std::size_t kTile = 4096;  ///< elements: what is read twice stays in the cache

/// Finds elements whose magnitude has bits of at least key_min, tile by tile: within a tile by
/// index, tiles in any order. Those that do not fit are counted only. Then holds the tile back,
/// where that is asked for: what takes an element in a row is the same thread in each pass. One row
/// a tile.
template <class M>
struct FindLargest {
  static constexpr bool kByRows = true;

  MirrorDifference<M> difference;
  std::size_t n;
  std::uint32_t key_min;
  std::uint32_t room;
  std::uint32_t* total;  ///< zero at first
  TileFound* tiles;
  std::uint32_t* indices;
  float* values;
  HoldBackOne<M> hold;  ///< with y null: of nothing

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    find(team, tile);
    if (hold.y == nullptr) return;
    const HoldBackOne<M> held = hold;
    const std::size_t begin = tile * kTile;
    team.each(n - begin < kTile ? n - begin : kTile, [=](std::size_t i) { held(begin + i); });
  }

 private:
  template <class Team>
  STARLING_BOTH void find(const Team& team, std::size_t tile) const {
    const MirrorDifference<M> of = difference;
    const std::uint32_t limit = key_min;
    const std::size_t begin = tile * kTile;
    const std::size_t size = n - begin < kTile ? n - begin : kTile;
    const auto is_large = [=](std::size_t i) { return key_of(of[begin + i]) >= limit; };
    const std::uint32_t count =
        team.sum(size, [=](std::size_t i) { return is_large(i) ? 1U : 0U; });
    std::uint32_t* const counter = total;
    const std::uint32_t first = count == 0 ? 0U : team.once([=] { return claim(counter, count); });
    if (team.leads()) tiles[tile] = {first, count};
    if (count == 0 || first > room || count > room - first) return;
    std::uint32_t* const places = indices + first;
    float* const found = values + first;
    team.in_order(size, is_large, [=](std::size_t rank, std::size_t i) {
      places[rank] = static_cast<std::uint32_t>(begin + i);
      found[rank] = of[begin + i];
    });
  }
};

// What may be chosen, in tiles whose elements are in order of index: count(tile) of them, and of
// each its index and value.

/// All elements.
template <class M>
struct AllTiles {
  MirrorDifference<M> difference;
  std::size_t n;
  static constexpr std::size_t width = kTile;

  [[nodiscard]] STARLING_BOTH std::size_t count(std::size_t tile) const {
    return n - tile * kTile < kTile ? n - tile * kTile : kTile;
  }
  [[nodiscard]] STARLING_BOTH std::uint32_t index(std::size_t tile, std::size_t i) const {
    return static_cast<std::uint32_t>(tile * kTile + i);
  }
  [[nodiscard]] STARLING_BOTH float value(std::size_t tile, std::size_t i) const {
    return difference[tile * kTile + i];
  }
};

/// What FindLargest found.
struct FoundTiles {
  const TileFound* tiles;
  const std::uint32_t* indices;
  const float* values;
  std::size_t width;  ///< elements of a tile, about: few

  [[nodiscard]] STARLING_BOTH std::size_t count(std::size_t tile) const {
    return tiles[tile].count;
  }
  [[nodiscard]] STARLING_BOTH std::uint32_t index(std::size_t tile, std::size_t i) const {
    return indices[tiles[tile].first + i];
  }
  [[nodiscard]] STARLING_BOTH float value(std::size_t tile, std::size_t i) const {
    return values[tiles[tile].first + i];
  }
};

/// Counts the elements that are not zero by the upper half of their keys, or of those with the
/// upper half `high` by the lower one. One row a tile.
template <class Tiles>
struct CountKeys {
  static constexpr bool kByRows = true;

  Tiles from;
  bool lower;
  std::uint32_t high;
  std::uint32_t* bins;  ///< kHighKeys or kLowKeys, zero at first

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const CountKeys by = *this;
    team.each(from.count(tile), [=](std::size_t i) {
      const std::uint32_t key = key_of(by.from.value(tile, i));
      const std::uint32_t upper = key >> kHalfKeyBits;
      if (key == 0 || (by.lower && upper != by.high)) return;
      claim(by.bins + (by.lower ? key % kLowKeys : upper), 1);
    });
  }
};

/// Counts of a tile's elements above a cut and on it; both are below 2^32, and add up by
/// themselves.
STARLING_BOTH inline std::uint64_t pair_of(std::uint64_t above, std::uint64_t equal) {
  return above << 32 | equal;
}
STARLING_BOTH inline std::uint64_t above_of(std::uint64_t pair) { return pair >> 32; }
STARLING_BOTH inline std::uint64_t equal_of(std::uint64_t pair) { return pair & 0xffffffffU; }

/// One row a tile.
template <class Tiles>
struct CountTiles {
  static constexpr bool kByRows = true;

  Tiles from;
  std::uint32_t cut;  ///< its key
  std::uint64_t* counts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const CountTiles by = *this;
    const std::uint64_t count = team.sum(from.count(tile), [=](std::size_t i) {
      const std::uint32_t key = key_of(by.from.value(tile, i));
      return pair_of(key > by.cut ? 1 : 0, key == by.cut ? 1 : 0);
    });
    if (team.leads()) counts[tile] = count;
  }
};

/// begins[i] = the sum of the values before i, for each, and behind the last one of all. One row.
struct AddBefore {
  static constexpr bool kByRows = true;

  const std::uint64_t* values;
  std::size_t count;
  std::uint64_t* begins;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t) const {
    const std::uint64_t* const of = values;
    std::uint64_t* const to = begins;
    const std::uint64_t all = team.running_sum(
        count, [=](std::size_t i) { return of[i]; },
        [=](std::size_t i, std::uint64_t before) { to[i] = before; });
    if (team.leads()) begins[count] = all;
  }
};

/// Finds the last element on the cut that is in; where none is, `last` stays. One row a tile.
template <class Tiles>
struct FindLastEqual {
  static constexpr bool kByRows = true;

  Tiles from;
  std::uint32_t cut;
  std::uint64_t equals;         ///< that are in
  const std::uint64_t* begins;  ///< of tiles
  std::uint32_t* last;          ///< its index

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const std::uint64_t before = equal_of(begins[tile]);
    if (before >= equals || equal_of(begins[tile + 1]) < equals) return;
    const FindLastEqual by = *this;
    const std::uint64_t rank_of_last = equals - 1 - before;
    team.in_order(
        from.count(tile), [=](std::size_t i) { return key_of(by.from.value(tile, i)) == by.cut; },
        [=](std::size_t rank, std::size_t i) {
          if (rank == rank_of_last) *by.last = by.from.index(tile, i);
        });
  }
};

/// Writes what is chosen, by index. One row a tile.
template <class Tiles>
struct TakeChosen {
  static constexpr bool kByRows = true;

  Tiles from;
  std::uint32_t cut;
  std::uint64_t equals;
  const std::uint64_t* begins;
  const std::uint32_t* last;
  std::uint32_t* indices;
  float* values;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const TakeChosen by = *this;
    const std::uint64_t equal = equal_of(begins[tile]);
    const std::uint64_t first = above_of(begins[tile]) + (equal < equals ? equal : equals);
    team.in_order(
        from.count(tile),
        [=](std::size_t i) {
          const std::uint32_t key = key_of(by.from.value(tile, i));
          return key > by.cut ||
                 (key == by.cut && by.equals > 0 && by.from.index(tile, i) <= *by.last);
        },
        [=](std::size_t rank, std::size_t i) {
          by.indices[first + rank] = by.from.index(tile, i);
          by.values[first + rank] = by.from.value(tile, i);
        });
  }
};

}  // namespace starling::compute::cuda
