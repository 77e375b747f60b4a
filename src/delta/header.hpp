// The parts of a payload: its header, and where the rest lies. Layout: delta/format.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "delta/format.hpp"

namespace starling::delta {

using Kind = format::Kind;

/// A payload's description of itself; the views point into it.
struct Shape {
  Kind kind = Kind::sparse;
  int bits = 0;
  std::uint32_t golomb = 0;  ///< the divisor's number
  std::uint32_t block = 0;
  std::uint32_t n = 0;      ///< elements of the replica
  std::uint32_t count = 0;  ///< elements carried
  base::ByteView starts{};
  base::ByteView indices{};
  base::ByteView scales{};
  base::ByteView values{};
};

[[nodiscard]] std::string_view name_of(Kind kind) noexcept;

/// Appends the header; the views are not used.
void write_header(const Shape& shape, base::Bytes& out);

/// Reads the header of untrusted bytes for a replica of `n` elements and finds the sections. Their
/// lengths agree with the header and use up the payload; their content is not checked. Error
/// (protocol): says what is wrong.
[[nodiscard]] base::Result<Shape> read_header(base::ByteView payload, std::size_t n);

/// Scale `b`: a payload has no alignment.
[[nodiscard]] inline float scale_at(base::ByteView scales, std::size_t b) noexcept {
  float scale;
  std::memcpy(&scale, scales.data() + b * sizeof scale, sizeof scale);
  return scale;
}

/// Whether no scale is negative, NaN, or too large for values of `level_max` (or zero, if sparse).
[[nodiscard]] bool scales_are_sound(base::ByteView scales, Kind kind, int level_max) noexcept;

}  // namespace starling::delta
