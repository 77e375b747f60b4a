// Deltas as bytes: encode on one side, check and decode on the other. Keyframes: delta/dense.hpp.
// Pure functions; any thread, one scratch object at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "delta/dense.hpp"
#include "delta/difference.hpp"
#include "delta/header.hpp"
#include "delta/select.hpp"
#include "wire/delta_format.hpp"

namespace starling::delta {

/// How much of a difference a delta carries, and how finely.
struct Options {
  double density = 0.003;     ///< fraction of the elements, > 0, <= 1
  int bits = 4;               ///< a value: 1, 2, 3, 4 or 8
  std::uint32_t block = 128;  ///< values that share a scale, 1 .. kBlockMax
};

/// Memory that encode() uses again and again: nothing is allocated once it has grown.
struct Scratch {
  SelectScratch select;
  Elements chosen;
  std::vector<float> scales;
  std::vector<std::uint8_t> codes;
};

/// What a receiver takes.
struct Limits {
  Kind kind = Kind::sparse;
  std::uint32_t count_max = wire::delta_format::kElementsMax;
};

/// The elements a delta of a replica of `n` elements carries, at most: density * n to the nearest,
/// at least 1.
[[nodiscard]] std::size_t count_for(double density, std::size_t n);

/// Writes the largest elements of a difference to `out` (replaced). Exactly
/// count_for(density, n) of them, fewer only where fewer are not zero. Returns their number.
/// diverged: the difference is not finite or beyond kMagnitudeMax; or an error of the source. Then
/// `out` is left empty.
[[nodiscard]] base::Result<std::size_t> encode(Source& source, const Options& options,
                                               Scratch& scratch, base::Buffer& out);
[[nodiscard]] base::Result<std::size_t> encode(const Difference& difference, const Options& options,
                                               Scratch& scratch, base::Buffer& out);

/// What the payload carries that encode() wrote last with this scratch, as decode() reads it.
void read_back(base::ByteView payload, std::size_t n, const Scratch& scratch, Elements& out);

/// Checks untrusted bytes completely, for a replica of n elements, without a write anywhere but to
/// `scratch` (the indices, for the sparse kind). Work: one pass over the bytes.
/// protocol: says what is wrong.
[[nodiscard]] base::Result<Shape> check(base::ByteView payload, std::size_t n, const Limits& limits,
                                        Elements& scratch);

/// Checks a sparse payload as check() does, and decodes it into `out` (any state on failure).
[[nodiscard]] base::Status decode(base::ByteView payload, std::size_t n, const Limits& limits,
                                  Elements& out);

/// mirror[index] += value, in order of index: single float32 additions, the same bits everywhere.
void apply(const Elements& delta, std::span<float> mirror);

}  // namespace starling::delta
