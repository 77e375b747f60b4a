#include "delta/codec.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "delta/golomb.hpp"
#include "delta/quantize.hpp"
#include "delta/select.hpp"
#include "delta/source.hpp"

namespace starling::delta {
namespace {

using base::ErrorCode;
using base::fail;
using format::golomb_odd;
using format::golomb_shift;
using format::kBlockMax;
using format::kElementsMax;
using format::kMagnitudeMax;
using format::level_max;

static_assert(Coding::kValueMax == kMagnitudeMax);

constexpr std::size_t kGapsLooked = 2048;  // these decide on the divisor

// The last byte of the codes may hold bits that belong to no value.
bool left_over_is_zero(const Shape& shape) {
  const std::size_t used = shape.count * static_cast<std::size_t>(shape.bits) % 8;
  return used == 0 || std::to_integer<std::uint32_t>(shape.values.back()) >> used == 0;
}

base::Status check_delta(const Shape& shape) {
  if (!scales_are_sound(shape.scales, Kind::sparse, level_max(shape.bits))) {
    return fail(ErrorCode::protocol, "delta: a scale is not positive and bounded");
  }
  if (!left_over_is_zero(shape)) {
    return fail(ErrorCode::protocol, "delta: bits set after the last value");
  }
  if (!starts_are_sound(shape.starts, shape.indices.size())) {
    return fail(ErrorCode::protocol, "delta: runs of indices do not begin one after another");
  }
  return {};
}

Coding coding_of(std::uint32_t golomb, int bits, std::size_t block) {
  return {.odd = golomb_odd(golomb), .shift = golomb_shift(golomb), .bits = bits, .block = block};
}

CodedDelta sections_of(const Shape& shape) {
  return {.coding = coding_of(shape.golomb, shape.bits, shape.block),
          .count = shape.count,
          .starts = shape.starts,
          .codes = shape.indices,
          .scales = shape.scales,
          .values = shape.values};
}

base::Status taken(bool indices_are_right, const Shape& shape) {
  if (indices_are_right) return {};
  return fail(ErrorCode::protocol, "delta: its indices are not {} rising numbers below {}",
              shape.count, shape.n);
}

}  // namespace

std::size_t count_for(double density, std::size_t n) {
  const auto count = static_cast<std::size_t>(std::llround(density * static_cast<double>(n)));
  return std::clamp(count, std::size_t{1}, n);
}

base::Status encode(const Difference& difference, const Options& options, base::Bytes& out,
                    HostDelta& coded) {
  DifferenceSource source;
  source.read(difference);
  Scratch scratch;
  return encode(source, options, scratch, out, coded);
}

base::Status encode(DeltaSource& source, const Options& options, Scratch& scratch, base::Bytes& out,
                    Delta& coded) {
  const std::size_t n = source.size();
  ASSERT(n >= 1 && n <= kElementsMax);
  ASSERT(format::is_bits(options.bits));
  ASSERT(options.block >= 1 && options.block <= kBlockMax);
  ASSERT(options.density > 0.0 && options.density <= 1.0);
  out.clear();
  const std::size_t wanted = count_for(options.density, n);
  // Values that are not finite are among the largest, so checking the chosen ones is enough.
  scratch.gaps.resize(kGapsLooked);
  const auto choice = select_largest(source, wanted, kMagnitudeMax, scratch.gaps);
  if (!choice) return fail(choice.error());
  if (choice->beyond) {
    return fail(ErrorCode::diverged,
                "parameter {} is not finite or far too large: training has diverged; try a smaller "
                "learning rate",
                *choice->beyond);
  }
  const auto gaps = std::span(scratch.gaps).first(std::min(kGapsLooked, choice->count));
  const std::uint32_t golomb = golomb_parameter(gaps, choice->count, n);
  write_header({.kind = Kind::sparse,
                .bits = options.bits,
                .golomb = golomb,
                .block = options.block,
                .n = static_cast<std::uint32_t>(n),
                .count = static_cast<std::uint32_t>(choice->count)},
               out);
  auto status = source.code(coding_of(golomb, options.bits, options.block), out, coded);
  if (!status) out.clear();
  return status;
}

base::Result<Shape> check(base::ByteView payload, std::size_t n) {
  auto shape = read_header(payload, n);
  if (!shape) return shape;
  if (shape->kind != Kind::sparse) {
    return fail(ErrorCode::protocol, "delta: a keyframe where a delta is expected");
  }
  if (const auto status = check_delta(*shape); !status) return fail(status.error());
  return shape;
}

float largest_value(const Shape& shape) {
  float largest = 0.0F;
  for (std::size_t b = 0; b < shape.scales.size() / sizeof(float); ++b) {
    largest = std::max(largest, scale_at(shape.scales, b));
  }
  return largest * static_cast<float>(level_max(shape.bits));
}

base::Status decode(const Shape& shape, ReplicaMemory& memory, Delta& into) {
  const auto right = memory.decode(sections_of(shape), into);
  if (!right) return fail(right.error());
  return taken(*right, shape);
}

bool decode(const CodedDelta& coded, std::size_t n, Elements& out) {
  out.indices.resize(coded.count);
  if (!golomb_decode(coded.starts, coded.codes, coded.coding, n, out.indices)) return false;
  out.values.resize(coded.count);
  unpack_values(coded.values, coded.coding.bits, coded.coding.block, coded.scales, out.values);
  return true;
}

base::Status decode(base::ByteView payload, std::size_t n, Elements& out) {
  const auto shape = check(payload, n);
  if (!shape) return fail(shape.error());
  return taken(decode(sections_of(*shape), n, out), *shape);
}

}  // namespace starling::delta
