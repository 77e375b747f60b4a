#include "delta/header.hpp"

#include <cmath>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "delta/golomb.hpp"
#include "delta/quantize.hpp"

namespace starling::delta {
namespace {

using base::ErrorCode;
using base::fail;
using base::load_little;
using base::store_little;
using namespace delta::format;

constexpr std::uint8_t kVersionShift = 4;
constexpr std::uint8_t kKindShift = 3;
constexpr std::uint8_t kKindMask = 1;
constexpr std::uint8_t kBitsMask = 7;

base::Status check_fields(const Shape& shape, std::size_t n) {
  if (shape.n != n) {
    return fail(ErrorCode::protocol, "delta: for {} elements where the replica has {}", shape.n, n);
  }
  if (shape.count > shape.n) {
    return fail(ErrorCode::protocol, "delta: carries {} of {} elements", shape.count, shape.n);
  }
  const bool dense = shape.kind == Kind::dense;
  const bool fits = dense ? shape.bits == 8 && shape.golomb == 0 && shape.block == kDenseBlock &&
                                shape.count == shape.n
                          : shape.golomb <= kGolombMax && shape.block >= 1;
  if (!fits || !is_bits(shape.bits)) {
    return fail(ErrorCode::protocol, "delta: header of kind {} has bits {}, golomb {}, block {}",
                name_of(shape.kind), shape.bits, shape.golomb, shape.block);
  }
  return {};
}

}  // namespace

std::string_view name_of(Kind kind) noexcept { return kind == Kind::dense ? "dense" : "sparse"; }

void write_header(const Shape& shape, base::Bytes& out) {
  ASSERT(shape.n <= kElementsMax && shape.count <= shape.n && shape.block <= kBlockMax);
  ASSERT(is_bits(shape.bits) && shape.golomb <= kGolombMax);
  const std::size_t begin = out.size();
  out.resize(begin + kHeaderBytes);
  store_little(
      out, begin + kKindAt,
      static_cast<std::uint8_t>(kVersion << kVersionShift |
                                static_cast<int>(shape.kind) << kKindShift | (shape.bits - 1)));
  store_little(out, begin + kGolombAt, static_cast<std::uint8_t>(shape.golomb));
  store_little(out, begin + kBlockAt, static_cast<std::uint16_t>(shape.block));
  store_little(out, begin + kElementsAt, shape.n);
  store_little(out, begin + kCountAt, shape.count);
}

base::Result<Shape> read_header(base::ByteView payload, std::size_t n) {
  if (payload.size() < kHeaderBytes) {
    return fail(ErrorCode::protocol, "delta: {} bytes are less than a header", payload.size());
  }
  const auto first = load_little<std::uint8_t>(payload, kKindAt);
  if (first >> kVersionShift != kVersion) {
    return fail(ErrorCode::protocol, "delta: format version {} where this program knows {}",
                first >> kVersionShift, kVersion);
  }
  Shape shape{.kind = static_cast<Kind>(first >> kKindShift & kKindMask),
              .bits = (first & kBitsMask) + 1,
              .golomb = load_little<std::uint8_t>(payload, kGolombAt),
              .block = load_little<std::uint16_t>(payload, kBlockAt),
              .n = load_little<std::uint32_t>(payload, kElementsAt),
              .count = load_little<std::uint32_t>(payload, kCountAt)};
  if (const auto status = check_fields(shape, n); !status) return fail(status.error());
  const std::size_t scales = blocks_of(shape.count, shape.block) * sizeof(float);
  const std::size_t values = codes_bytes(shape.count, shape.bits);
  const bool dense = shape.kind == Kind::dense;
  const std::size_t starts = dense ? 0 : starts_bytes(shape.count);
  const std::size_t fixed = kHeaderBytes + starts + scales + values;
  if (payload.size() < fixed || (dense && payload.size() > fixed)) {
    return fail(ErrorCode::protocol, "delta: {} bytes do not hold {} {} elements", payload.size(),
                shape.count, name_of(shape.kind));
  }
  shape.values = payload.last(values);
  shape.scales = payload.subspan(payload.size() - values - scales, scales);
  shape.starts = payload.subspan(kHeaderBytes, starts);
  shape.indices = payload.subspan(kHeaderBytes + starts, payload.size() - fixed);
  return shape;
}

bool scales_are_sound(base::ByteView scales, Kind kind, int level_max) noexcept {
  const float most = kMagnitudeMax / static_cast<float>(level_max);
  for (std::size_t b = 0; b < scales.size() / sizeof(float); ++b) {
    const float scale = scale_at(scales, b);
    // The comparisons are false for NaN; a negative zero is refused with the negative numbers.
    const bool positive =
        scale > 0.0F || (kind == Kind::dense && scale == 0.0F && !std::signbit(scale));
    if (!positive || !(scale <= most)) return false;
  }
  return true;
}

}  // namespace starling::delta
