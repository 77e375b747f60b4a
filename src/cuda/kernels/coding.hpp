// Kernels that turn chosen elements into a delta's bytes, and received bytes into elements.
// delta/format.hpp describes the format, and the folder delta has the processor's version;
// both give the same bits.
#pragma once

#include "cuda/kernels/replica.hpp"
#include "delta/coding.hpp"
#include "delta/cut.hpp"

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

/// Evenly spread gaps, as in DeltaSource::choose(). One call per gap.
struct PickGaps {
  const std::uint32_t* indices;
  const std::uint32_t* there;
  std::size_t count;  ///< number of chosen elements
  std::size_t gaps;
  std::uint32_t* to;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::size_t chosen = *there < count ? *there : count;
    const std::size_t told = gaps < chosen ? gaps : chosen;
    if (i < told) to[i] = delta::gap_before(indices, i * chosen / told);
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
    const std::size_t left = count - run * delta::kCodesPerRun;
    return left < delta::kCodesPerRun ? left : delta::kCodesPerRun;
  }
};

/// Rising indices to code.
struct IndexRuns : CodeRuns {
  const std::uint32_t* indices;

  [[nodiscard]] STARLING_BOTH IndexCode code(std::size_t j) const {
    const std::uint32_t gap = delta::gap_before(indices, j);
    const std::uint32_t high = gap >> shift;
    const delta::GolombPrefix prefix = delta::prefix_of(odd, high % odd);
    const std::uint32_t low = gap & ((1U << shift) - 1);
    const std::uint32_t low_at = 1U + prefix.size;
    return {high / odd, 1U | std::uint32_t{prefix.code} << 1 | low << low_at, low_at + shift};
  }
};

/// The bits of each run. One row per run.
struct MeasureRuns {
  static constexpr bool kByRows = true;

  IndexRuns of;
  std::uint64_t* bits;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const IndexRuns indices = of;
    const std::size_t first = run * delta::kCodesPerRun;
    const std::uint64_t all =
        team.sum(of.in_run(run), [=](std::size_t i) { return indices.code(first + i).size(); });
    if (team.leads()) bits[run] = all;
  }
};

/// One row per run.
struct WriteRuns {
  static constexpr bool kByRows = true;

  IndexRuns of;
  const std::uint64_t* begins;  ///< bits
  std::uint32_t* words;         ///< zero at first

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const IndexRuns indices = of;
    const std::size_t first = run * delta::kCodesPerRun;
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

/// The levels 1 .. top of `bits` bits, and their allowed scales.
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

STARLING_BOTH inline float magnitude_of(float value) {
  return std::bit_cast<float>(delta::key_of(value));
}

/// Finds the scale of each block of values like delta/quantize.cpp, with the same sums in the same
/// order: its lanes, then one lane after another. Products are exact. Members divide lanes and
/// tries. One row per block.
struct FitScales {
  static constexpr bool kByRows = true;

  const float* values;
  std::size_t count;
  std::size_t block;
  Levels levels;
  float* scales;

  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kTries = 5;
  static constexpr std::size_t kWidth = 4 * kTries * kLanes;  ///< a member for each sum
  static_assert(delta::scale_tries(2) <= kTries);

  struct Moments {
    double value_level;
    double level_level;

    [[nodiscard]] STARLING_BOTH double gain() const {
      return value_level * (value_level / level_level);
    }
    [[nodiscard]] STARLING_BOTH double scale() const { return value_level / level_level; }
  };

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t b) const {
    const float* const from = values + b * block;
    const std::size_t size = count - b * block < block ? count - b * block : block;
    const float full =
        team.largest(size, [=](std::size_t i) { return magnitude_of(from[i]); }).value / levels.top;
    const auto tries = static_cast<std::size_t>(delta::scale_tries(levels.bits));
    const Levels by = levels;
    const auto tried = [=](std::size_t number) {
      return by.bounded(
          static_cast<double>(times(full, delta::scale_part(static_cast<int>(number)))));
    };
    Lanes& lanes = team.template shared<Lanes>();
    sum(team, from, size, tries, tried, lanes);
    Moments best{0, 0};
    double best_gain = -1.0;
    for (std::size_t number = 0; number < tries; ++number) {
      const Moments sums = lanes.sums(number);
      if (!(sums.gain() > best_gain)) continue;
      best_gain = sums.gain();
      best = sums;
    }
    for (int round = 0; round < delta::scale_rounds(levels.bits); ++round) {
      const float scale = levels.bounded(best.scale());
      team.meet();  // all have read the last sums
      sum(
          team, from, size, 1, [=](std::size_t) { return scale; }, lanes);
      const Moments sums = lanes.sums(0);
      if (!(sums.gain() > best.gain())) break;
      best = sums;
    }
    if (team.leads()) scales[b] = levels.bounded(best.scale());
    team.meet();  // before the next row's sums
  }

 private:
  struct Lanes {
    Moments of[kTries][kLanes];

    [[nodiscard]] STARLING_BOTH Moments sums(std::size_t number) const {
      Moments sum{0, 0};
      for (const Moments& lane : of[number]) {
        sum.value_level += lane.value_level;
        sum.level_level += lane.level_level;
      }
      return sum;
    }
  };

  /// The sums of each lane, for each of some scales.
  template <class Team, class Scale>
  STARLING_BOTH void sum(const Team& team, const float* from, std::size_t size, std::size_t tries,
                         const Scale& scale, Lanes& lanes) const {
    const Levels by = levels;
    team.each(tries * kLanes, [=, &lanes](std::size_t of) {
      const float with = scale(of / kLanes);
      Moments sums{0, 0};
      for (std::size_t i = of % kLanes; i < size; i += kLanes) {
        const float magnitude = magnitude_of(from[i]);
        const auto level = static_cast<double>(by.of(magnitude, with));
        sums.value_level += level * static_cast<double>(magnitude);
        sums.level_level += level * level;
      }
      lanes.of[of / kLanes][of % kLanes] = sums;
    });
    team.meet();
  }
};

inline constexpr std::size_t kCodesPerGroup = 8;  ///< fill whole bytes for any number of bits

/// Writes the codes of values, and replaces the values by those that the codes stand for. One call
/// per group of codes.
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

/// One call per value.
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

inline constexpr std::uint32_t kPrefixMask = (1U << delta::kGolombPrefixMax) - 1;

/// Reads the codes of each run separately: indices that begin at zero, and how far they reach; more
/// than n if codes are wrong. The bytes are not trusted, except that starts rise and lie within
/// them. One row per run.
///
/// A code begins where the one before it ends. So that members can still divide the work, the bits
/// are cut into stretches. For each bit of a stretch, a member works out how many codes there are
/// from there on if one begins there, and where the last of them ends. Then one member has to look
/// only once per stretch, and all members read the codes from where it entered the stretches.
struct ReadRuns {
  static constexpr bool kByRows = true;
  static constexpr std::size_t kWords = 256;    ///< words whose bits are handled at a time
  static constexpr std::size_t kStretch = 128;  ///< bits
  static constexpr std::size_t kStretches = kWords * 64 / kStretch;
  static constexpr std::size_t kSight = 64;       ///< a code with this many zeros is read by itself
  static constexpr std::size_t kWordsSeen = 3;    ///< after the window, for codes that end there
  static constexpr std::size_t kWordsBehind = 4;  ///< after the end of all
  static constexpr std::size_t kVisits = 3 * kStretches;  ///< of a window, at most
  static constexpr std::size_t kWidth = 4 * kStretches;   ///< a member for each stretch

  const std::uint64_t* words;  ///< with kWordsBehind more after the end
  std::uint64_t end;           ///< bits
  const std::uint32_t* starts;
  std::size_t runs;
  std::size_t n;
  CodeRuns of;
  std::uint32_t* indices;
  std::uint64_t* reach;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t run) const {
    const bool is_last = run + 1 == runs;
    const std::uint64_t limit = is_last ? end : starts[run + 1];
    const std::size_t size = of.in_run(run);
    const ReadRuns by = *this;
    Window& window = team.template shared<Window>();
    std::uint32_t* const to = indices + run * delta::kCodesPerRun;
    Place at{.position = starts[run], .read = 0, .visits = 0, .goes_on = true};
    std::uint64_t next = 0;  // one after the last index
    while (at.goes_on) {
      const std::uint64_t first = at.position / 64;
      const std::uint64_t behind = limit / 64 + 1;
      const std::size_t count = behind - first < kWords ? behind - first : kWords;
      const std::uint64_t* const from = words + first;
      const Bits bits{words, window.words, first, count + kWordsSeen};
      team.each(bits.count, [=, &window](std::size_t i) { window.words[i] = from[i]; });
      team.meet();
      team.each((count + 1) / 2, [=, &window](std::size_t i) { by.look_ahead(i, window); });
      team.meet();
      at = team.once([=, &window] { return by.walk(at, bits, size, limit, window); });
      const Visit* const visits = window.visits;
      const std::uint64_t begin = next;
      next += team.running_sum(
          at.visits,
          [=](std::size_t i) { return by.read(visits[i], visits[i + 1].read, bits, 0, nullptr); },
          [=](std::size_t i, std::uint64_t before) {
            by.read(visits[i], visits[i + 1].read, bits, begin + before, to);
          });
    }
    if (!team.leads()) return;
    // Only the last byte may have bits left over, and they must be zero.
    const Bits bits{words, nullptr, 0, 0};
    const bool ends_well =
        at.position == limit || (is_last && at.position < limit && limit - at.position < 8 &&
                                 bits.at(at.position) << (64 - (limit - at.position)) == 0);
    reach[run] = at.read == size && ends_well ? next : n + 1;
  }

 private:
  /// Codes that one member reads: from bit `at` of the window, number `read` of the run, up to the
  /// next visit's.
  struct Visit {
    std::uint16_t at;
    std::uint16_t read;
  };

  /// For codes that would begin at a bit: where the last one ends, in bits from the stretch's first
  /// bit, and their number. They end after the stretch, or where the next code is out of sight.
  /// There are none if the first one is out of sight.
  struct alignas(2) Ahead {
    std::uint8_t end;
    std::uint8_t codes;
  };

  struct Window {
    std::uint64_t words[kWords + kWordsSeen];
    Ahead ahead[kStretch][kStretches];  ///< so that members meet at different banks
    Visit visits[kVisits + 1];
  };

  /// How much of a run's codes has been read.
  struct Place {
    std::uint64_t position;  ///< bits
    std::size_t read;        ///< codes
    std::size_t visits;      ///< of this window
    bool goes_on;
  };

  /// The codes' bits, with some words already fetched.
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

  /// Works from the stretch's last bit to its first: a code that begins at a zero ends where one
  /// that begins at the next bit ends.
  STARLING_BOTH void look_ahead(std::size_t stretch, Window& window) const {
    std::uint32_t sizes = 0;  // of the parts with which three bits begin, two bits each
    for (std::uint32_t bits = 0; bits <= kPrefixMask; ++bits) {
      sizes |= std::uint32_t{delta::part_of(of.odd, bits).size} << 2 * bits;
    }
    const std::uint64_t* const from = window.words + stretch * (kStretch / 64);
    const std::uint64_t behind = from[2];
    std::uint32_t one = kStretch + kSight;  // the first one bit at or after this bit
    Ahead found{};                          // of a code that begins there
    if (behind != 0) {
      const std::uint32_t zeros = zeros_below(behind);
      const std::uint64_t rest = behind >> zeros >> 1 | from[3] << (63 - zeros);
      one = kStretch + zeros;
      found = {end_of(one, sizes, rest & kPrefixMask), 1};
    }
    auto rest = static_cast<std::uint32_t>(behind & kPrefixMask);
    for (std::uint32_t bit = kStretch; bit-- > 0;) {
      const auto is_one = static_cast<std::uint32_t>(from[bit / 64] >> bit % 64 & 1U);
      if (is_one != 0) {
        one = bit;
        found = {end_of(bit, sizes, rest), 1};
        if (found.end < kStretch) {
          const Ahead then = window.ahead[found.end][stretch];
          found = {then.end, static_cast<std::uint8_t>(then.codes + 1)};
        }
      }
      rest = (rest << 1 | is_one) & kPrefixMask;
      window.ahead[bit][stretch] =
          one - bit < kSight ? found : Ahead{static_cast<std::uint8_t>(bit), 0};
    }
  }

  /// The end of a code whose first one bit is there, followed by `rest`.
  [[nodiscard]] STARLING_BOTH std::uint8_t end_of(std::uint32_t one, std::uint32_t sizes,
                                                  std::uint64_t rest) const {
    return static_cast<std::uint8_t>(one + 1 + (sizes >> 2 * rest & 3U) + of.shift);
  }

  /// Continues until the run ends or is refused, or the window ends. Codes out of sight, and
  /// stretches that do not belong to the run as a whole, are visited code by code.
  [[nodiscard]] STARLING_BOTH Place walk(Place at, const Bits& bits, std::size_t size,
                                         std::uint64_t limit, Window& window) const {
    const std::uint64_t begin = bits.first * 64;
    std::size_t visits = 0;
    bool is_refused = false;
    while (visits < kVisits && at.read < size && at.position < limit &&
           at.position - begin < kWords * 64) {
      const auto from = static_cast<std::uint32_t>(at.position - begin);
      window.visits[visits] = {static_cast<std::uint16_t>(from),
                               static_cast<std::uint16_t>(at.read)};
      const Ahead ahead = window.ahead[from % kStretch][from / kStretch];
      const std::uint64_t then = at.position - from % kStretch + ahead.end;
      if (ahead.codes > 0 && at.read + ahead.codes <= size && then <= limit) {
        at.position = then;
        at.read += ahead.codes;
      } else {
        std::uint64_t gap = 0;
        is_refused = !read_one(at.position, bits, limit, gap);
        if (is_refused) break;
        ++at.read;
      }
      ++visits;
    }
    window.visits[visits].read = static_cast<std::uint16_t>(at.read);
    at.goes_on = at.read < size && at.position < limit && !is_refused;
    at.visits = visits;
    return at;
  }

  /// Reads a visit's codes, up to number `until`, and writes their indices if requested; returns
  /// how far they reach from `next` on.
  STARLING_BOTH std::uint64_t read(const Visit& visit, std::size_t until, const Bits& bits,
                                   std::uint64_t next, std::uint32_t* to) const {
    std::uint64_t position = bits.first * 64 + visit.at;
    const std::uint64_t begin = next;
    for (std::size_t i = visit.read; i < until; ++i) {
      std::uint64_t gap = 0;
      read_one(position, bits, ~std::uint64_t{0}, gap);
      next += gap;
      if (to != nullptr) to[i] = static_cast<std::uint32_t>(next);
      ++next;
    }
    return next - begin;
  }

  /// Moves past a code; false if no code begins there with its one bit below the limit. The gap is
  /// bounded by n, which is beyond all correct gaps.
  STARLING_BOTH bool read_one(std::uint64_t& position, const Bits& bits, std::uint64_t limit,
                              std::uint64_t& gap) const {
    std::uint64_t quotient = 0;
    if (position >= limit) return false;
    std::uint64_t word = bits.at(position);
    while (word == 0) {
      quotient += 64;
      position += 64;
      if (position >= limit || quotient >= n) return false;
      word = bits.at(position);
    }
    const std::uint32_t zeros = zeros_below(word);
    quotient += zeros;
    position += zeros + 1;
    const std::uint64_t rest = zeros < 32 ? word >> zeros >> 1 : bits.at(position);
    const delta::GolombPart part =
        delta::part_of(of.odd, static_cast<std::uint32_t>(rest & kPrefixMask));
    const std::uint64_t low = rest >> part.size & ((std::uint64_t{1} << of.shift) - 1);
    position += part.size + of.shift;
    gap = quotient * (std::uint64_t{of.odd} << of.shift) + (std::uint64_t{part.part} << of.shift) +
          low;
    gap = gap < n ? gap : n;
    return true;
  }
};

/// Makes indices that begin at zero in each run continue where the last run ended. One call per
/// index.
struct JoinRuns {
  const std::uint64_t* begins;  ///< of runs
  std::uint32_t* indices;

  STARLING_BOTH void operator()(std::size_t j) const {
    indices[j] += static_cast<std::uint32_t>(begins[j / delta::kCodesPerRun]);
  }
};

}  // namespace starling::compute::cuda
