// Kernels that choose the largest elements of a difference: compute/delta.hpp defines the choice,
// cuda/device_source.cpp the order in which they run.
#pragma once

#include "cuda/kernels/replica.hpp"
#include "delta/cut.hpp"

namespace starling::compute::cuda {

/// Adds to a counter that others add to at the same time; returns its old value.
STARLING_BOTH inline std::uint32_t claim(std::uint32_t* counter, std::uint32_t count) {
#ifdef __CUDA_ARCH__
  return atomicAdd(counter, count);
#else
  const std::uint32_t before = *counter;
  *counter += count;
  return before;
#endif
}

// A key of some rank is found digit by digit, the highest first: the elements that have the digits
// found before are counted by their next digit, and the counts determine it. All of this stays on
// the device.

inline constexpr std::size_t kDigits = 3;

inline constexpr std::size_t kCountsOfDigits = 2048 + 1024 + 1024;

[[nodiscard]] STARLING_BOTH inline std::uint32_t bits_of_digit(std::size_t digit) {
  return digit == 0 ? 11 : 10;
}
[[nodiscard]] STARLING_BOTH inline std::uint32_t values_of_digit(std::size_t digit) {
  return 1U << bits_of_digit(digit);
}
/// Bits of a key below a digit.
[[nodiscard]] STARLING_BOTH inline std::uint32_t bits_below(std::size_t digit) {
  return static_cast<std::uint32_t>(20 - 10 * digit);
}

/// The known part of a key.
struct CutStage {
  std::uint32_t key;     ///< its digits, so far
  std::uint32_t wanted;  ///< elements wanted of those with these digits; 0: there are too few
};

/// Counts of elements made on the way.
struct Tally {
  std::uint32_t count;    ///< elements that are not zero
  std::uint32_t largest;  ///< first digit
};

/// The results of choosing for the host.
struct ChoiceFigures {
  CutStage least[kDigits];  ///< of the sample: bounds the elements found
  CutStage cut[kDigits];    ///< bounds the chosen elements
  Tally tally;              ///< of the elements to choose from
  std::uint32_t found;      ///< elements, whether or not there was room
};

// Elements in any order: size() of them.

/// A list, either whole or up to `count`.
struct ListedValues {
  const float* values;
  std::size_t most;
  const std::uint32_t* count;

  [[nodiscard]] STARLING_BOTH std::size_t size() const {
    return count == nullptr || *count > most ? most : *count;
  }
  [[nodiscard]] STARLING_BOTH float operator[](std::size_t i) const { return values[i]; }
};

template <class M>
struct AllValues {
  MirrorDifference<M> difference;
  std::size_t n;

  [[nodiscard]] STARLING_BOTH std::size_t size() const { return n; }
  [[nodiscard]] STARLING_BOTH float operator[](std::size_t i) const { return difference[i]; }
};

/// Counts the elements that are not zero, and that have the digits before, by a digit of their
/// keys. One row for a part of them, first with its own counts: most elements have one of a few
/// digits, and so only a few rows contend for these.
template <class Values>
struct CountKeys {
  static constexpr bool kByRows = true;

  Values from;
  std::size_t rows;
  std::size_t digit;
  const CutStage* stage;  ///< before it; null for the first digit
  std::uint32_t* counts;  ///< zero at first

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    const CountKeys by = *this;
    const std::uint32_t bits = bits_of_digit(digit);
    const std::uint32_t values = values_of_digit(digit);
    const std::uint32_t below = bits_below(digit);
    const std::uint32_t before = stage == nullptr ? 0 : stage->key;
    const std::size_t size = from.size();
    const std::size_t part = (size + rows - 1) / rows;
    const std::size_t begin = row * part < size ? row * part : size;
    Counts& own = team.template shared<Counts>();
    team.each(values, [=, &own](std::size_t value) { own.of[value] = 0; });
    team.meet();
    team.each(size - begin < part ? size - begin : part, [=, &own](std::size_t i) {
      const std::uint32_t key = delta::key_of(by.from[begin + i]);
      const std::uint32_t upto = key >> below;
      if (key == 0 || upto >> bits != before) return;
      claim(own.of + (upto & (values - 1)), 1);
    });
    team.meet();
    team.each(values, [=, &own](std::size_t value) {
      if (own.of[value] > 0) claim(by.counts + value, own.of[value]);
    });
    team.meet();  // before the next row begins
  }

 private:
  struct Counts {
    std::uint32_t of[2048];
  };
};

/// Finds the next digit from counts. One row.
struct FindDigit {
  static constexpr bool kByRows = true;

  const std::uint32_t* counts;
  std::size_t digit;
  const CutStage* stage;  ///< before it; null: none
  std::uint32_t wanted;   ///< there
  CutStage* to;
  Tally* tally;  ///< zero at first; or null

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t) const {
    const FindDigit by = *this;
    const std::uint32_t values = values_of_digit(digit);
    const CutStage before = stage == nullptr ? CutStage{0, wanted} : *stage;
    const std::uint32_t all = team.running_sum(
        values, [=](std::size_t i) { return by.counts[values - 1 - i]; },
        [=](std::size_t i, std::uint32_t above) {
          const auto value = static_cast<std::uint32_t>(values - 1 - i);
          const std::uint32_t count = by.counts[value];
          if (by.tally != nullptr && above == 0 && count > 0) by.tally->largest = value;
          if (above >= before.wanted || count < before.wanted - above) return;
          *by.to = {before.key * values + value, before.wanted - above};
        });
    if (!team.leads()) return;
    if (tally != nullptr) tally->count = all;
    if (before.wanted == 0 || all < before.wanted) *to = {0, 0};
  }
};

/// Takes a sample of evenly spread elements. One call each.
template <class M>
struct SampleDifference {
  MirrorDifference<M> difference;
  std::size_t sample;
  std::size_t n;
  float* values;

  STARLING_BOTH void operator()(std::size_t i) const {
    values[i] = difference[delta::sampled_place(i, sample, n)];
  }
};

/// The place of the elements that were found in a tile.
struct TileFound {
  std::uint32_t first;
  std::uint32_t count;
};

inline constexpr std::size_t kTile = kSifted;  ///< elements

/// Finds elements whose magnitude has bits of at least `least`'s key, tile by tile: within a tile
/// by index, tiles in any order. Elements of tiles that do not fit are only counted. Holds the
/// difference back if requested. One row per tile; each element is read and written once.
template <class M>
struct FindLargest {
  static constexpr bool kByRows = true;

  MirrorDifference<M> difference;
  std::size_t n;
  const CutStage* least;  ///< null: all that are not zero
  std::uint32_t room;
  std::uint32_t* found;  ///< zero at first
  TileFound* tiles;
  std::uint32_t* indices;
  float* values;
  HoldingBack hold;  ///< with y null: nothing is held back

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const FindLargest by = *this;
    const std::uint32_t limit = least == nullptr || least->key == 0 ? 1 : least->key;
    const std::size_t begin = tile * kTile;
    team.sift(
        n - begin < kTile ? n - begin : kTile,
        [=](std::size_t i, std::size_t count) { return by.take(begin + i, count); },
        [=](float value) { return delta::key_of(value) >= limit; },
        [=](std::uint32_t hits) { return by.place(tile, hits); },
        [=](std::size_t to, std::size_t i, float value) {
          by.indices[to] = static_cast<std::uint32_t>(begin + i);
          by.values[to] = value;
        });
  }

 private:
  [[nodiscard]] STARLING_BOTH Four take(std::size_t i, std::size_t count) const {
    Four y = load_four(difference.y + i, count);
    Four r = load_four(difference.r + i, count);
    Four away = load_four(difference.mirror + i, count);
    for (std::size_t k = 0; k < kFour; ++k) {
      const float x = y.of[k] + r.of[k];
      away.of[k] = x - away.of[k];
      r.of[k] = times(hold.keep, r.of[k]) + times(hold.gain, away.of[k]);
      y.of[k] = x - r.of[k];
    }
    if (hold.y != nullptr) {
      store_four(r, hold.r + i, count);
      store_four(y, hold.y + i, count);
    }
    return away;
  }

  /// The place for a tile's hits.
  [[nodiscard]] STARLING_BOTH std::size_t place(std::size_t tile, std::uint32_t hits) const {
    const std::uint32_t first = hits > 0 ? claim(found, hits) : 0;
    const bool fits = hits > 0 && first <= room && hits <= room - first;
    tiles[tile] = fits ? TileFound{first, hits} : TileFound{0, 0};
    return fits ? first : kNowhere;
  }
};

// The candidates, in tiles whose elements are in order of index: count(tile) of them, each with its
// index and value.

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

/// The elements that FindLargest found.
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

/// Counts of a tile's elements above a cut and on it; both are below 2^32, so pairs can be added as
/// one number.
STARLING_BOTH inline std::uint64_t pair_of(std::uint64_t above, std::uint64_t equal) {
  return above << 32 | equal;
}
STARLING_BOTH inline std::uint64_t above_of(std::uint64_t pair) { return pair >> 32; }
STARLING_BOTH inline std::uint64_t equal_of(std::uint64_t pair) { return pair & 0xffffffffU; }

/// The pair for one element.
STARLING_BOTH inline std::uint64_t side_of(float value, std::uint32_t cut) {
  const std::uint32_t key = delta::key_of(value);
  return pair_of(key > cut ? 1 : 0, key == cut ? 1 : 0);
}

/// One row per tile.
template <class Tiles>
struct CountTiles {
  static constexpr bool kByRows = true;

  Tiles from;
  const CutStage* cut;
  std::uint64_t* counts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const CountTiles by = *this;
    const std::uint32_t cut_key = cut->key;
    const std::uint64_t count = team.sum(
        from.count(tile), [=](std::size_t i) { return side_of(by.from.value(tile, i), cut_key); });
    if (team.leads()) counts[tile] = count;
  }
};

/// begins[i] = the sum of the values before i, and after the last one, the sum of all. One row,
/// whose members take some neighbours each.
struct AddBefore {
  static constexpr bool kByRows = true;
  static constexpr std::size_t kNeighbours = 16;

  const std::uint64_t* values;
  std::size_t count;
  std::uint64_t* begins;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t) const {
    const AddBefore by = *this;
    const auto sum_of = [=](std::size_t part) {
      std::uint64_t sum = 0;
      for (const std::uint64_t value : by.part(part).of) sum += value;
      return sum;
    };
    const auto put = [=](std::size_t part, std::uint64_t before) {
      const Part own = by.part(part);
      for (std::size_t k = 0; k < kNeighbours; ++k) {
        const std::size_t i = part * kNeighbours + k;
        if (i < by.count) by.begins[i] = before;
        before += own.of[k];
      }
    };
    const std::size_t parts = (count + kNeighbours - 1) / kNeighbours;
    const std::uint64_t all = team.running_sum(parts, sum_of, put);
    if (team.leads()) begins[count] = all;
  }

 private:
  struct Part {
    std::uint64_t of[kNeighbours];
  };

  /// All are read before any is used; zeros after the end.
  [[nodiscard]] STARLING_BOTH Part part(std::size_t number) const {
    Part read;
    for (std::size_t k = 0; k < kNeighbours; ++k) {
      const std::size_t i = number * kNeighbours + k;
      read.of[k] = i < count ? values[i] : 0;
    }
    return read;
  }
};

/// Writes the chosen elements by index: those above the cut, and the first of those on it. Writes
/// nothing beyond the room if the cut is not that of these tiles, because there was no room for all
/// elements found. One row per tile.
template <class Tiles>
struct TakeChosen {
  static constexpr bool kByRows = true;

  Tiles from;
  const CutStage* cut;
  const std::uint64_t* begins;  ///< of tiles
  std::size_t room;
  std::uint32_t* indices;
  float* values;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t tile) const {
    const TakeChosen by = *this;
    const CutStage at = *cut;
    const std::uint64_t begin = begins[tile];
    team.running_sum(
        from.count(tile), [=](std::size_t i) { return side_of(by.from.value(tile, i), at.key); },
        [=](std::size_t i, std::uint64_t before) {
          const float value = by.from.value(tile, i);
          const std::uint64_t side = side_of(value, at.key);
          const std::uint64_t equal = equal_of(begin + before);
          if (above_of(side) == 0 && (equal_of(side) == 0 || equal >= at.wanted)) return;
          const std::uint64_t to =
              above_of(begin + before) + (equal < at.wanted ? equal : at.wanted);
          if (to >= by.room) return;
          by.indices[to] = by.from.index(tile, i);
          by.values[to] = value;
        });
  }
};

}  // namespace starling::compute::cuda
