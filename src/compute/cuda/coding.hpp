// Kernels that make a delta's bytes of what was chosen, and elements of the bytes that came. The
// format is wire/delta_format.hpp's, the processor's version of all this in delta; both give the
// same bits.
#pragma once

#include "compute/coding.hpp"
#include "compute/cuda/replica.hpp"
#include "compute/cut.hpp"

namespace starling::compute::cuda {

/// Sets bits of a word whose others are set at the same time.
STARLING_BOTH inline void set_bits(std::uint32_t* word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(word, bits);
#else
  *word |= bits;
#endif
}

/// The number of zeros below a word's lowest one.
STARLING_BOTH inline std::uint32_t zeros_below(std::uint64_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(word))) - 1U;
#else
  return static_cast<std::uint32_t>(std::countr_zero(word));
#endif
}

/// Evenly spread gaps, as DeltaSource::gaps() says. One call a gap.
struct PickGaps {
  const std::uint32_t* indices;
  std::size_t count;
  std::size_t gaps;
  std::uint32_t* to;

  STARLING_BOTH void operator()(std::size_t i) const {
    to[i] = gap_before(indices, i * count / gaps);
  }
};

/// An index's code: zeros, and a tail of at most 32 bits.
struct IndexCode {
  std::uint32_t zeros;
  std::uint32_t tail;
  std::uint32_t tail_size;

  [[nodiscard]] STARLING_BOTH std::uint64_t size() const {
    return std::uint64_t{zeros} + tail_size;
  }
};

/// Codes of one divisor, run by run.
struct CodeRuns {
  std::size_t count;
  std::uint32_t odd;
  std::uint32_t shift;

  [[nodiscard]] STARLING_BOTH std::size_t in_run(std::size_t run) const {
    const std::size_t left = count - run * kCodesPerRun;
    return left < kCodesPerRun ? left : kCodesPerRun;
  }
};

/// Rising indices that are to be coded.
struct IndexRuns : CodeRuns {
  const std::uint32_t* indices;

  [[nodiscard]] STARLING_BOTH IndexCode code(std::size_t j) const {
    const std::uint32_t gap = gap_before(indices, j);
    const std::uint32_t high = gap >> shift;
    const GolombPrefix prefix = prefix_of(odd, high % odd);
    const std::uint32_t low = gap & ((1U << shift) - 1);
    const std::uint32_t low_at = 1U + prefix.size;
    return {high / odd, 1U | std::uint32_t{prefix.code} << 1 | low << low_at, low_at + shift};
  }
};

/// Bits of each run. One row a run.
struct MeasureRuns {
  static constexpr bool kByRows = true;

  IndexRuns of;
  std::uint64_t* bits;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const IndexRuns indices = of;
    const std::size_t first = run * kCodesPerRun;
    const std::uint64_t all =
        team.sum(of.in_run(run), [=](std::size_t i) { return indices.code(first + i).size(); });
    if (team.leads()) bits[run] = all;
  }
};

/// One row a run.
struct WriteRuns {
  static constexpr bool kByRows = true;

  IndexRuns of;
  const std::uint64_t* begins;  ///< bits
  std::uint32_t* words;         ///< zero at first

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const IndexRuns indices = of;
    const std::size_t first = run * kCodesPerRun;
    const std::uint64_t begin = begins[run];
    std::uint32_t* const to = words;
    team.running_sum(
        of.in_run(run), [=](std::size_t i) { return indices.code(first + i).size(); },
        [=](std::size_t i, std::uint64_t before) {
          const IndexCode code = indices.code(first + i);
          const std::uint64_t at = begin + before + code.zeros;
          const std::uint64_t bits = std::uint64_t{code.tail} << at % 32;
          set_bits(to + at / 32, static_cast<std::uint32_t>(bits));
          if (bits >> 32 != 0) set_bits(to + at / 32 + 1, static_cast<std::uint32_t>(bits >> 32));
        });
  }
};

/// The levels 1 .. top of `bits` bits, and the scales that they may have.
struct Levels {
  int bits;
  float top;
  float scale_max;

  /// The nearest level of a magnitude; a whole number.
  [[nodiscard]] STARLING_BOTH float of(float magnitude, float scale) const {
    float level = magnitude / scale + 0.5F;
    level = level < 1.0F ? 1.0F : level;
    level = level > top ? top : level;
    return static_cast<float>(static_cast<std::int32_t>(level));
  }
  [[nodiscard]] STARLING_BOTH float bounded(double scale) const {
    constexpr float kLeast = 0x1p-149F;
    const auto narrow = static_cast<float>(scale);
    return narrow < kLeast ? kLeast : narrow > scale_max ? scale_max : narrow;
  }
};

STARLING_BOTH inline float magnitude_of(float value) { return std::bit_cast<float>(key_of(value)); }

/// Finds the scale of each block of values as delta/quantize.cpp does, with the same sums in the
/// same order: its lanes, then one lane after the other. Products are exact. One call a block.
struct FitScales {
  const float* values;
  std::size_t count;
  std::size_t block;
  Levels levels;
  float* scales;

  static constexpr std::size_t kLanes = 8;

  struct Moments {
    double value_level;
    double level_level;

    [[nodiscard]] STARLING_BOTH double gain() const {
      return value_level * (value_level / level_level);
    }
    [[nodiscard]] STARLING_BOTH double scale() const { return value_level / level_level; }
  };

  [[nodiscard]] STARLING_BOTH Moments moments(const float* from, std::size_t size,
                                              float scale) const {
    double value_level[kLanes] = {};
    double level_level[kLanes] = {};
    for (std::size_t i = 0; i < size; i += kLanes) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (i + lane >= size) continue;
        const float magnitude = magnitude_of(from[i + lane]);
        const auto level = static_cast<double>(levels.of(magnitude, scale));
        value_level[lane] += level * static_cast<double>(magnitude);
        level_level[lane] += level * level;
      }
    }
    Moments sum{0, 0};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sum.value_level += value_level[lane];
      sum.level_level += level_level[lane];
    }
    return sum;
  }

  STARLING_BOTH void operator()(std::size_t b) const {
    const float* const from = values + b * block;
    const std::size_t size = count - b * block < block ? count - b * block : block;
    float largest = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const float magnitude = magnitude_of(from[i]);
      largest = largest > magnitude ? largest : magnitude;
    }
    const float full = largest / levels.top;
    Moments best{0, 0};
    double best_gain = -1.0;
    for (int number = 0; number < scale_tries(levels.bits); ++number) {
      const float part = scale_part(number);
      const float scale = levels.bounded(static_cast<double>(times(full, part)));
      const Moments sums = moments(from, size, scale);
      if (!(sums.gain() > best_gain)) continue;
      best_gain = sums.gain();
      best = sums;
    }
    for (int round = 0; round < scale_rounds(levels.bits); ++round) {
      const Moments sums = moments(from, size, levels.bounded(best.scale()));
      if (!(sums.gain() > best.gain())) break;
      best = sums;
    }
    scales[b] = levels.bounded(best.scale());
  }
};

inline constexpr std::size_t kCodesPerGroup = 8;  ///< that fill whole bytes, whatever their bits

/// Codes of values, and in the place of the values what those say. One call a group of codes.
struct PackValues {
  float* values;
  std::size_t count;
  std::size_t block;
  Levels levels;
  const float* scales;
  std::byte* codes;  ///< has room for whole groups

  STARLING_BOTH void operator()(std::size_t group) const {
    const std::size_t first = group * kCodesPerGroup;
    const auto bits = static_cast<std::size_t>(levels.bits);
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < kCodesPerGroup && first + j < count; ++j) {
      float& value = values[first + j];
      const float scale = scales[divide(first + j, block).quotient];
      const float level = levels.of(magnitude_of(value), scale);
      const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 31;
      const std::uint32_t code = sign << (bits - 1) | (static_cast<std::uint32_t>(level) - 1U);
      word |= std::uint64_t{code} << (j * bits);
      value = times(sign != 0 ? -level : level, scale);
    }
    for (std::size_t byte = 0; byte < bits; ++byte) {
      codes[group * bits + byte] = static_cast<std::byte>(word >> (8 * byte) & 0xffU);
    }
  }
};

/// One call a value.
struct UnpackValues {
  const std::byte* codes;
  int bits;
  std::size_t block;
  const float* scales;
  float* values;

  STARLING_BOTH void operator()(std::size_t j) const {
    const auto size = static_cast<std::size_t>(bits);
    const std::size_t at = j * size;
    std::uint32_t word = static_cast<std::uint32_t>(codes[at / 8]) >> at % 8;
    if (at % 8 + size > 8) word |= static_cast<std::uint32_t>(codes[at / 8 + 1]) << (8 - at % 8);
    const auto level = static_cast<float>((word & ((1U << (size - 1)) - 1)) + 1);
    values[j] =
        times((word >> (size - 1) & 1U) != 0 ? -level : level, scales[divide(j, block).quotient]);
  }
};

/// Reads the codes of each run on its own: indices that begin at zero, and how far they reach.
/// Nothing of the bytes is trusted but that starts rise and lie within them. One row a run: a code
/// begins where the one before it ends, so one member reads them, out of what all have fetched.
struct ReadRuns {
  static constexpr bool kByRows = true;
  static constexpr std::size_t kWidth = 32;  ///< members that a run is worth

  const std::uint64_t* words;  ///< with a few more behind the end
  std::uint64_t end;           ///< bits
  const std::uint32_t* starts;
  std::size_t runs;
  std::size_t n;
  CodeRuns of;
  std::uint32_t* indices;
  std::uint64_t* reach;
  std::uint32_t* refused;  ///< set where codes are not what they should be

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const bool is_last = run + 1 == runs;
    const std::uint64_t limit = is_last ? end : starts[run + 1];
    const std::size_t size = of.in_run(run);
    const ReadRuns by = *this;
    Window& window = team.template shared<Window>();
    Place at{.position = starts[run], .next = 0, .read = 0, .goes_on = true};
    while (at.goes_on) {
      const std::uint64_t first = at.position / 64;
      const std::uint64_t behind = limit / 64 + 1;
      const std::size_t count = behind - first < kWords ? behind - first : kWords;
      const std::uint64_t* const from = words + first;
      std::uint64_t* const fetched = window.words;
      team.each(count, [=](std::size_t i) { fetched[i] = from[i]; });
      team.meet();
      const Bits bits{words, fetched, first, count};
      const std::size_t before = at.read;
      at = team.once([=, &window] { return by.read_some(at, bits, size, limit, window); });
      std::uint32_t* const to = indices + run * kCodesPerRun + before;
      const std::uint32_t* const found = window.found;
      team.each(at.read - before, [=](std::size_t i) { to[i] = found[i]; });
    }
    if (!team.leads()) return;
    // Only the last byte may have bits left, which are zero.
    const Bits bits{words, nullptr, 0, 0};
    const bool ends_well =
        at.position == limit || (is_last && at.position < limit && limit - at.position < 8 &&
                                 bits.at(at.position) << (64 - (limit - at.position)) == 0);
    reach[run] = at.next;
    if (at.read < size || !ends_well) *refused = 1;
  }

 private:
  static constexpr std::size_t kWords = 256;  ///< fetched at a time
  static constexpr std::size_t kFound = 512;  ///< indices that are written at a time

  struct Window {
    std::uint64_t words[kWords];
    std::uint32_t found[kFound];
  };

  /// How far the codes of a run are read.
  struct Place {
    std::uint64_t position;  ///< bits
    std::uint64_t next;      ///< one behind the last index
    std::size_t read;        ///< codes
    bool goes_on;
  };

  /// The codes' bits, some of whose words are fetched.
  struct Bits {
    const std::uint64_t* words;
    const std::uint64_t* fetched;
    std::uint64_t first;
    std::size_t count;

    [[nodiscard]] STARLING_BOTH std::uint64_t word(std::uint64_t i) const {
      return i - first < count ? fetched[i - first] : words[i];
    }
    /// 64 bits from `from` on.
    [[nodiscard]] STARLING_BOTH std::uint64_t at(std::uint64_t from) const {
      const std::uint64_t low = word(from / 64) >> from % 64;
      return from % 64 == 0 ? low : low | word(from / 64 + 1) << (64 - from % 64);
    }
  };

  /// Reads on until the run ends or is refused, or as far as what is fetched and the room go.
  [[nodiscard]] STARLING_BOTH Place read_some(Place at, const Bits& bits, std::size_t size,
                                              std::uint64_t limit, Window& window) const {
    for (std::size_t i = 0; i < kFound && at.read < size; ++i) {
      if (at.position < limit && at.position / 64 - bits.first >= bits.count) return at;
      if (!read_one(at, bits, limit)) {
        at.goes_on = false;
        return at;
      }
      window.found[i] = static_cast<std::uint32_t>(at.next - 1);
      ++at.read;
    }
    at.goes_on = at.read < size && at.position < limit;
    return at;
  }

  /// Moves behind the next code; false where there is none below the limit and n.
  [[nodiscard]] STARLING_BOTH bool read_one(Place& at, const Bits& bits,
                                            std::uint64_t limit) const {
    std::uint64_t quotient = 0;
    if (at.position >= limit) return false;
    std::uint64_t word = bits.at(at.position);
    while (word == 0) {
      quotient += 64;
      at.position += 64;
      if (at.position >= limit || quotient >= n) return false;
      word = bits.at(at.position);
    }
    const std::uint32_t zeros = zeros_below(word);
    quotient += zeros;
    at.position += zeros + 1;
    const std::uint64_t rest = zeros < 32 ? word >> zeros >> 1 : bits.at(at.position);
    const GolombPart part =
        part_of(of.odd, static_cast<std::uint32_t>(rest & ((1U << kGolombPrefixMax) - 1)));
    const std::uint64_t low = rest >> part.size & ((std::uint64_t{1} << of.shift) - 1);
    at.position += part.size + of.shift;
    at.next += quotient * (std::uint64_t{of.odd} << of.shift) +
               (std::uint64_t{part.part} << of.shift) + low;
    return at.next++ < n;
  }
};

/// Indices that began at zero in each run go on where the last run ended. One call an index.
struct JoinRuns {
  const std::uint64_t* begins;  ///< of runs
  std::uint32_t* indices;

  STARLING_BOTH void operator()(std::size_t j) const {
    indices[j] += static_cast<std::uint32_t>(begins[j / kCodesPerRun]);
  }
};

}  // namespace starling::compute::cuda
