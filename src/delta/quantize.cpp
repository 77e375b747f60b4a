#include "delta/quantize.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.hpp"
#include "base/clones.hpp"
#include "delta/header.hpp"
#include "wire/delta_format.hpp"

namespace starling::delta {
namespace {

using wire::delta_format::level_max;

constexpr std::size_t kLane = 512;  // values worked on at a time (L1)

float magnitude(float value) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
}

// Level of each magnitude: the nearest of 1 .. top. Divides rather than multiplies by 1 / scale,
// which is infinite for the smallest scales.
STARLING_CLONES void to_levels(const float* values, std::size_t n, float scale, float top,
                               std::int32_t* levels) {
  for (std::size_t i = 0; i < n; ++i) {
    float level = magnitude(values[i]) / scale + 0.5F;
    level = level < 1.0F ? 1.0F : level;
    level = level > top ? top : level;
    levels[i] = static_cast<std::int32_t>(level);
  }
}

// The sums that give the best scale for fixed levels. Doubles, four at a time by hand, since the
// compiler may not reorder float sums.
struct Moments {
  double value_level = 0;
  double level_level = 0;
};

Moments moments_of(const float* values, const std::int32_t* levels, std::size_t n) {
  std::array<double, 4> vl{};
  std::array<double, 4> ll{};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) {
      const double level = levels[i + j];
      vl[j] += level * static_cast<double>(magnitude(values[i + j]));
      ll[j] += level * level;
    }
  }
  for (; i < n; ++i) {
    const double level = levels[i];
    vl[0] += level * static_cast<double>(magnitude(values[i]));
    ll[0] += level * level;
  }
  return {(vl[0] + vl[1]) + (vl[2] + vl[3]), (ll[0] + ll[1]) + (ll[2] + ll[3])};
}

Moments moments_at(std::span<const float> values, float scale, float top) {
  std::array<std::int32_t, kLane> levels;
  Moments sum;
  for (std::size_t i = 0; i < values.size(); i += kLane) {
    const std::size_t n = std::min(kLane, values.size() - i);
    to_levels(values.data() + i, n, scale, top, levels.data());
    const Moments part = moments_of(values.data() + i, levels.data(), n);
    sum.value_level += part.value_level;
    sum.level_level += part.level_level;
  }
  return sum;
}

// Scales to try, as parts of the one that just reaches the largest value. Heavy tails want the
// top clipped (what is cut off stays in the difference and goes with a later delta).
std::span<const float> tries_of(int bits) {
  static constexpr std::array<float, 5> kFew{1.0F, 0.8F, 0.62F, 0.45F, 0.3F};
  return bits == 8 ? std::span(kFew).first(1) : std::span(kFew);
}

STARLING_CLONES void signed_codes(const float* values, const std::int32_t* levels, std::size_t n,
                                  int bits, std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(values[i]) >> 31;
    codes[i] =
        static_cast<std::uint8_t>(sign << (bits - 1) | static_cast<std::uint32_t>(levels[i] - 1));
  }
}

}  // namespace

float sparse_scale(std::span<const float> values, int bits) {
  std::uint32_t largest = 0;
  for (const float value : values) {
    const std::uint32_t key = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
    largest = largest > key ? largest : key;
  }
  const float top = static_cast<float>(level_max(bits));
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const float full = std::bit_cast<float>(largest) / top;
  // For given levels the best scale is vl / ll, and then the squared error is vv - vl^2 / ll:
  // the try with the largest vl^2 / ll wins.
  double best_gain = -1.0;
  double best_scale = full;
  for (const float part : tries_of(bits)) {
    const Moments sums = moments_at(values, std::max(full * part, kLeast), top);
    const double gain = sums.value_level * (sums.value_level / sums.level_level);
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = sums.value_level / sums.level_level;
    }
  }
  const float most = wire::delta_format::kMagnitudeMax / top;
  return std::clamp(static_cast<float>(best_scale), kLeast, most);
}

void pack_values(std::span<const float> values, int bits, std::size_t block,
                 std::span<float> scales, std::span<std::byte> out) {
  ASSERT(scales.size() == blocks_of(values.size(), block));
  ASSERT(out.size() == codes_bytes(values.size(), bits));
  const float top = static_cast<float>(level_max(bits));
  const auto per_byte = static_cast<std::size_t>(8 / bits);
  std::array<std::int32_t, kLane> levels;
  std::array<std::uint8_t, kLane> codes;
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::size_t begin = b * block;
    const std::size_t end = std::min(begin + block, values.size());
    scales[b] = sparse_scale(values.subspan(begin, end - begin), bits);
    for (std::size_t i = begin; i < end; i += kLane) {
      const std::size_t n = std::min(kLane, end - i);
      to_levels(values.data() + i, n, scales[b], top, levels.data());
      signed_codes(values.data() + i, levels.data(), n, bits, codes.data());
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t place = i + j;
        out[place / per_byte] |=
            static_cast<std::byte>(codes[j] << (place % per_byte * static_cast<std::size_t>(bits)));
      }
    }
  }
}

void unpack_values(base::ByteView codes, int bits, std::size_t block, base::ByteView scales,
                   std::span<float> out) {
  ASSERT(scales.size() == blocks_of(out.size(), block) * sizeof(float));
  ASSERT(codes.size() == codes_bytes(out.size(), bits));
  const auto per_byte = static_cast<std::size_t>(8 / bits);
  const std::uint32_t mask = (1U << bits) - 1;
  std::array<float, 256> level_of;
  for (std::uint32_t code = 0; code <= mask; ++code) {
    const auto level = static_cast<float>((code & (mask >> 1)) + 1);
    level_of[code] = code >> (bits - 1) != 0 ? -level : level;
  }
  for (std::size_t b = 0; b * block < out.size(); ++b) {
    const float scale = scale_at(scales, b);
    const std::size_t end = std::min((b + 1) * block, out.size());
    for (std::size_t i = b * block; i < end; ++i) {
      const auto byte = std::to_integer<std::uint32_t>(codes[i / per_byte]);
      const auto shift =
          static_cast<std::uint32_t>(i % per_byte) * static_cast<std::uint32_t>(bits);
      out[i] = level_of[byte >> shift & mask] * scale;
    }
  }
}

}  // namespace starling::delta
