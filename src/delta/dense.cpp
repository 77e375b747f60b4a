#include "delta/dense.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/assert.hpp"
#include "base/clones.hpp"
#include "delta/header.hpp"
#include "delta/quantize.hpp"

namespace starling::delta {
namespace {

using base::ErrorCode;
using base::fail;
using namespace delta::format;

// Nearest level, halves away from zero; |value| / scale is at most a hair above kDenseLevelMax.
STARLING_CLONES void to_signed_levels(const float* values, std::size_t n, float scale,
                                      std::int8_t* levels) {
  constexpr float kTop = kDenseLevelMax;
  for (std::size_t i = 0; i < n; ++i) {
    float level = values[i] / scale;
    level = level > kTop ? kTop : level;
    level = level < -kTop ? -kTop : level;
    level += level < 0.0F ? -0.5F : 0.5F;
    levels[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(level));
  }
}

STARLING_CLONES void add_levels(const float* origin, const std::int8_t* levels, float scale,
                                std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = origin[i] + static_cast<float>(levels[i]) * scale;
  }
}

STARLING_CLONES bool holds_minus_128(const std::byte* levels, std::size_t n) {
  bool found = false;
  for (std::size_t i = 0; i < n; ++i) found |= levels[i] == std::byte{0x80};
  return found;
}

// The scale that just reaches the largest value; 0 for a block of zeros.
float dense_scale(std::uint32_t key) noexcept {
  if (key == 0) return 0.0F;
  return std::max(std::bit_cast<float>(key) / static_cast<float>(kDenseLevelMax),
                  std::numeric_limits<float>::denorm_min());
}

base::Status check_dense(const Shape& shape) {
  if (!scales_are_sound(shape.scales, Kind::dense, kDenseLevelMax)) {
    return fail(ErrorCode::protocol, "dense delta: a scale is negative or not bounded");
  }
  if (holds_minus_128(shape.values.data(), shape.values.size())) {
    return fail(ErrorCode::protocol, "dense delta: a level is beyond {}", kDenseLevelMax);
  }
  return {};
}

}  // namespace

base::Status encode_dense(const Difference& difference, base::Bytes& out) {
  const std::size_t n = difference.size();
  ASSERT(n >= 1 && n <= kElementsMax);
  out.clear();
  write_header({.kind = Kind::dense,
                .bits = 8,
                .golomb = 0,
                .block = kDenseBlock,
                .n = static_cast<std::uint32_t>(n),
                .count = static_cast<std::uint32_t>(n)},
               out);
  const std::size_t blocks = blocks_of(n, kDenseBlock);
  const std::size_t values_at = out.size() + blocks * sizeof(float);
  const std::size_t scales_at = out.size();
  out.resize(values_at + n);
  std::array<float, kDenseBlock> values;
  std::array<std::int8_t, kDenseBlock> levels;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = b * kDenseBlock;
    const std::size_t size = std::min<std::size_t>(kDenseBlock, n - begin);
    difference.fill(begin, std::span(values).first(size));
    const std::uint32_t key = largest_magnitude(values.data(), size);
    if (key > std::bit_cast<std::uint32_t>(kMagnitudeMax)) {
      out.clear();
      return fail(ErrorCode::diverged,
                  "a parameter between {} and {} is not finite or far too "
                  "large: training has diverged; try a smaller learning rate",
                  begin, begin + size);
    }
    const float scale = dense_scale(key);
    std::memcpy(out.data() + scales_at + b * sizeof scale, &scale, sizeof scale);
    if (scale > 0.0F) {
      to_signed_levels(values.data(), size, scale, levels.data());
      std::memcpy(out.data() + values_at + begin, levels.data(), size);
    }
  }
  return {};
}

base::Status decode_dense(base::ByteView payload, std::span<const float> origin,
                          std::span<float> out) {
  ASSERT(origin.size() == out.size());
  const auto shape = read_header(payload, origin.size());
  if (!shape) return fail(shape.error());
  if (shape->kind != Kind::dense) {
    return fail(ErrorCode::protocol, "dense delta: of another kind");
  }
  if (auto status = check_dense(*shape); !status) return status;
  std::array<std::int8_t, kDenseBlock> levels;
  for (std::size_t begin = 0; begin < out.size(); begin += kDenseBlock) {
    const std::size_t size = std::min<std::size_t>(kDenseBlock, out.size() - begin);
    std::memcpy(levels.data(), shape->values.data() + begin, size);
    add_levels(origin.data() + begin, levels.data(), scale_at(shape->scales, begin / kDenseBlock),
               size, out.data() + begin);
    if (largest_magnitude(out.data() + begin, size) > std::bit_cast<std::uint32_t>(kMagnitudeMax)) {
      return fail(ErrorCode::protocol, "dense delta: moves an element beyond {}", kMagnitudeMax);
    }
  }
  return {};
}

}  // namespace starling::delta
