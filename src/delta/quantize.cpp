// The scale of a block. For given levels l of the magnitudes v, the scale of least squares is
// sum(v l) / sum(l l), and leaves an error of sum(v v) - sum(v l)^2 / sum(l l). For a given scale
// the nearest levels are the best. So: try some scales, take the levels with the smallest error,
// and alternate between the two from there (S. P. Lloyd, IEEE Transactions on Information Theory
// 28, 1982).
#include "delta/quantize.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/assert.hpp"
#include "base/clones.hpp"
#include "base/integer.hpp"
#include "delta/coding.hpp"
#include "delta/format.hpp"
#include "delta/header.hpp"

namespace starling::delta {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using format::kMagnitudeMax;
using format::level_max;

constexpr std::uint32_t kMagnitudeMask = 0x7fffffffU;
constexpr std::size_t kGroup = 8;  // codes that fill whole bytes at any number of bits

// Values side by side: the compiler's code adds and divides each one separately, so the bits are
// the same with registers of any width.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kHalf = kLanes / 2;
using Floats __attribute__((vector_size(kLanes * sizeof(float)))) = float;
using Integers __attribute__((vector_size(kLanes * sizeof(float)))) = std::int32_t;
using Doubles __attribute__((vector_size(kHalf * sizeof(double)))) = double;

// The nearest of the levels 1 .. top for each magnitude. Divides rather than multiplies by 1 /
// scale, which is infinite for the smallest scales.
STARLING_CLONES void to_codes(const float* values, std::size_t n, float scale, int bits,
                              std::uint8_t* codes) {
  const auto top = static_cast<float>(level_max(bits));
  for (std::size_t i = 0; i < n; ++i) {
    const auto word = std::bit_cast<std::uint32_t>(values[i]);
    float level = std::bit_cast<float>(word & kMagnitudeMask) / scale + 0.5F;
    level = level < 1.0F ? 1.0F : level;
    level = level > top ? top : level;
    const auto below = static_cast<std::uint32_t>(static_cast<std::int32_t>(level) - 1);
    codes[i] = static_cast<std::uint8_t>(word >> 31 << (bits - 1) | below);
  }
}

// The sums that give the best scale for the levels that are nearest at `scale`.
struct Moments {
  double value_level = 0;
  double level_level = 0;

  /// The part of the squared error that these levels remove.
  [[nodiscard]] double gain() const { return value_level * (value_level / level_level); }
  [[nodiscard]] double scale() const { return value_level / level_level; }
};

STARLING_CLONES Moments moments_at(const float* values, std::size_t n, float scale, float top) {
  std::array<Doubles, 2> value_level{};
  std::array<Doubles, 2> level_level{};
  const Floats highest = Floats{} + top;
  const Floats lowest = Floats{} + 1.0F;
  const auto add = [&](const float* at) __attribute__((always_inline)) {
    Integers words;
    std::memcpy(&words, at, sizeof words);
    words &= static_cast<std::int32_t>(kMagnitudeMask);
    Floats magnitudes;
    std::memcpy(&magnitudes, &words, sizeof words);
    Floats level = magnitudes / scale + 0.5F;
    level = level < lowest ? lowest : level;
    level = level > highest ? highest : level;
    level = __builtin_convertvector(__builtin_convertvector(level, Integers), Floats);
    const auto add_half = [&](auto half, auto half_level, std::size_t h) {
      const Doubles wide = __builtin_convertvector(half, Doubles);
      const Doubles wide_level = __builtin_convertvector(half_level, Doubles);
      value_level[h] += wide_level * wide;
      level_level[h] += wide_level * wide_level;
    };
    add_half(__builtin_shufflevector(magnitudes, magnitudes, 0, 1, 2, 3),
             __builtin_shufflevector(level, level, 0, 1, 2, 3), 0);
    add_half(__builtin_shufflevector(magnitudes, magnitudes, 4, 5, 6, 7),
             __builtin_shufflevector(level, level, 4, 5, 6, 7), 1);
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add(values + i);
  if (i < n) {
    std::array<float, kLanes> rest{};
    std::memcpy(rest.data(), values + i, (n - i) * sizeof(float));
    add(rest.data());
  }
  Moments sum;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum.value_level += value_level[lane / kHalf][lane % kHalf];
    sum.level_level += level_level[lane / kHalf][lane % kHalf];
  }
  // The lanes after the last value have a magnitude of 0, which goes to level 1.
  sum.level_level -= static_cast<double>((kLanes - n % kLanes) % kLanes);
  return sum;
}

// Eight codes as `bits` bytes.
std::uint64_t join(const std::uint8_t* codes, int bits) {
  std::uint64_t word = 0;
  for (std::size_t j = 0; j < kGroup; ++j) {
    word |= std::uint64_t{codes[j]} << (j * static_cast<std::size_t>(bits));
  }
  return word;
}

STARLING_CLONES void multiply(float* values, std::size_t n, float scale) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= scale;
}

}  // namespace

STARLING_CLONES std::uint32_t largest_magnitude(const float* values, std::size_t n) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto key =
        static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(values[i]) & kMagnitudeMask);
    largest = largest > key ? largest : key;
  }
  return static_cast<std::uint32_t>(largest);
}

float sparse_scale(std::span<const float> values, int bits) {
  const auto top = static_cast<float>(level_max(bits));
  const float most = kMagnitudeMax / top;
  const auto bounded = [most](double scale) {
    return std::clamp(static_cast<float>(scale), std::numeric_limits<float>::denorm_min(), most);
  };
  const auto at = [&](float scale) { return moments_at(values.data(), values.size(), scale, top); };
  const float full = std::bit_cast<float>(largest_magnitude(values.data(), values.size())) / top;
  Moments best;
  double best_gain = -1.0;
  for (int number = 0; number < scale_tries(bits); ++number) {
    const float part = scale_part(number);
    const Moments sums = at(bounded(static_cast<double>(full * part)));
    if (const double gain = sums.gain(); gain > best_gain) {
      best_gain = gain;
      best = sums;
    }
  }
  for (int round = 0; round < scale_rounds(bits); ++round) {
    const Moments sums = at(bounded(best.scale()));
    if (!(sums.gain() > best.gain())) break;
    best = sums;
  }
  return bounded(best.scale());
}

void pack_values(std::span<const float> values, int bits, std::size_t block,
                 std::vector<std::uint8_t>& codes, std::span<float> scales,
                 std::span<std::byte> out) {
  ASSERT(scales.size() == blocks_of(values.size(), block));
  ASSERT(out.size() == codes_bytes(values.size(), bits));
  codes.resize(base::round_up(values.size(), kGroup));
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::size_t begin = b * block;
    const std::size_t size = std::min(block, values.size() - begin);
    scales[b] = sparse_scale(values.subspan(begin, size), bits);
    to_codes(values.data() + begin, size, scales[b], bits, codes.data() + begin);
  }
  std::fill(codes.begin() + static_cast<std::ptrdiff_t>(values.size()), codes.end(),
            std::uint8_t{0});
  const auto step = static_cast<std::size_t>(bits);
  for (std::size_t at = 0, i = 0; at < out.size(); at += step, i += kGroup) {
    const std::uint64_t word = join(codes.data() + i, bits);
    std::memcpy(out.data() + at, &word, std::min(step, out.size() - at));
  }
}

void unpack_values(base::ByteView codes, int bits, std::size_t block, base::ByteView scales,
                   std::span<float> out) {
  ASSERT(scales.size() == blocks_of(out.size(), block) * sizeof(float));
  ASSERT(codes.size() == codes_bytes(out.size(), bits));
  const std::uint32_t mask = (1U << bits) - 1;
  std::array<float, 256> level_of;
  for (std::uint32_t code = 0; code <= mask; ++code) {
    const auto level = static_cast<float>((code & (mask >> 1)) + 1);
    level_of[code] = code >> (bits - 1) != 0 ? -level : level;
  }
  const auto step = static_cast<std::size_t>(bits);
  for (std::size_t at = 0, i = 0; at < codes.size(); at += step, i += kGroup) {
    std::uint64_t word = 0;
    std::memcpy(&word, codes.data() + at, std::min(step, codes.size() - at));
    const std::size_t size = std::min(kGroup, out.size() - i);
    for (std::size_t j = 0; j < size; ++j, word >>= bits) out[i + j] = level_of[word & mask];
  }
  for (std::size_t b = 0; b * block < out.size(); ++b) {
    const std::size_t size = std::min(block, out.size() - b * block);
    multiply(out.data() + b * block, size, scale_at(scales, b));
  }
}

}  // namespace starling::delta
