#include "delta/codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/assert.hpp"
#include "delta/golomb.hpp"
#include "delta/quantize.hpp"

namespace starling::delta {
namespace {

using base::ErrorCode;
using base::fail;
using wire::delta_format::kBlockMax;
using wire::delta_format::kElementsMax;
using wire::delta_format::kMagnitudeMax;
using wire::delta_format::level_max;

// The last byte of the codes may hold bits that belong to no value.
bool left_over_is_zero(const Shape& shape) {
  const std::size_t used = shape.count * static_cast<std::size_t>(shape.bits) % 8;
  return used == 0 || std::to_integer<std::uint32_t>(shape.values.back()) >> used == 0;
}

base::Status check_sparse(const Shape& shape, std::size_t n, Elements& scratch) {
  if (!scales_are_sound(shape.scales, Kind::sparse, level_max(shape.bits))) {
    return fail(ErrorCode::protocol, "delta: a scale is not positive and bounded");
  }
  if (!left_over_is_zero(shape)) {
    return fail(ErrorCode::protocol, "delta: bits set behind the last value");
  }
  scratch.indices.resize(shape.count);
  if (!golomb_decode(shape.indices, shape.golomb, n, scratch.indices)) {
    return fail(ErrorCode::protocol, "delta: its indices are not {} rising numbers below {}",
                shape.count, n);
  }
  return {};
}

void write_sparse(std::size_t n, const Options& options, Scratch& scratch, base::Buffer& out) {
  const Elements& chosen = scratch.chosen;
  std::vector<float>& scales = scratch.scales;
  const std::uint32_t golomb = golomb_parameter(chosen.indices, n);
  write_header({.kind = Kind::sparse,
                .bits = options.bits,
                .golomb = golomb,
                .block = options.block,
                .n = static_cast<std::uint32_t>(n),
                .count = static_cast<std::uint32_t>(chosen.size())},
               out);
  golomb_encode(chosen.indices, golomb, out);
  const std::size_t scales_at = out.size();
  scales.resize(blocks_of(chosen.size(), options.block));
  const std::size_t values_at = scales_at + scales.size() * sizeof(float);
  out.resize(values_at + codes_bytes(chosen.size(), options.bits));
  pack_values(chosen.values, options.bits, options.block, scratch.codes, scales,
              std::span(out).subspan(values_at));
  if (!scales.empty()) {
    std::memcpy(out.data() + scales_at, scales.data(), scales.size() * sizeof(float));
  }
}

}  // namespace

std::size_t count_for(double density, std::size_t n) {
  const auto count = static_cast<std::size_t>(std::llround(density * static_cast<double>(n)));
  return std::clamp(count, std::size_t{1}, n);
}

base::Result<std::size_t> encode(const Difference& difference, const Options& options,
                                 Scratch& scratch, base::Buffer& out) {
  DifferenceSource source(difference);
  return encode(source, options, scratch, out);
}

base::Result<std::size_t> encode(Source& source, const Options& options, Scratch& scratch,
                                 base::Buffer& out) {
  const std::size_t n = source.size();
  ASSERT(n >= 1 && n <= kElementsMax);
  ASSERT(wire::delta_format::is_bits(options.bits));
  ASSERT(options.block >= 1 && options.block <= kBlockMax);
  ASSERT(options.density > 0.0 && options.density <= 1.0);
  out.clear();
  Elements& chosen = scratch.chosen;
  const std::size_t count = count_for(options.density, n);
  if (auto status = select_largest(source, count, scratch.select, chosen); !status) {
    return fail(status.error());
  }
  // What is not finite is among the largest, so looking at these is enough.
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    if (!(std::fabs(chosen.values[j]) <= kMagnitudeMax)) {
      return fail(ErrorCode::diverged,
                  "parameter {} is not finite or far too large: training has "
                  "diverged; try a smaller learning rate",
                  chosen.indices[j]);
    }
  }
  write_sparse(n, options, scratch, out);
  return chosen.size();
}

void read_back(base::ByteView payload, std::size_t n, const Scratch& scratch, Elements& out) {
  const auto shape = read_header(payload, n);
  ASSERT(shape.has_value() && shape->count == scratch.chosen.size());
  out.indices = scratch.chosen.indices;
  out.values.resize(shape->count);
  unpack_values(shape->values, shape->bits, shape->block, shape->scales, out.values);
}

base::Result<Shape> check(base::ByteView payload, std::size_t n, const Limits& limits,
                          Elements& scratch) {
  auto shape = read_header(payload, n);
  if (!shape) return shape;
  if (shape->kind != limits.kind) {
    return fail(ErrorCode::protocol, "delta: a {} one where a {} one is expected",
                name_of(shape->kind), name_of(limits.kind));
  }
  if (shape->count > limits.count_max) {
    return fail(ErrorCode::protocol, "delta: carries {} elements where at most {} are taken",
                shape->count, limits.count_max);
  }
  const base::Status status =
      shape->kind == Kind::sparse ? check_sparse(*shape, n, scratch) : check_dense(*shape);
  if (!status) return fail(status.error());
  return shape;
}

base::Status decode(base::ByteView payload, std::size_t n, const Limits& limits, Elements& out) {
  ASSERT(limits.kind == Kind::sparse);
  const auto shape = check(payload, n, limits, out);
  if (!shape) return fail(shape.error());
  out.values.resize(shape->count);
  unpack_values(shape->values, shape->bits, shape->block, shape->scales, out.values);
  return {};
}

void apply(const Elements& delta, std::span<float> mirror) {
  ASSERT(delta.indices.empty() || delta.indices.back() < mirror.size());
  for (std::size_t j = 0; j < delta.size(); ++j) mirror[delta.indices[j]] += delta.values[j];
}

}  // namespace starling::delta
