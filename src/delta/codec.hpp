// Deltas as bytes: encode on one side, check and decode on the other. Keyframes: delta/dense.hpp.
// Pure functions; any thread, one scratch object at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "delta/delta.hpp"
#include "delta/difference.hpp"
#include "delta/elements.hpp"
#include "delta/format.hpp"
#include "delta/header.hpp"
#include "delta/options.hpp"
#include "delta/replica_memory.hpp"

namespace starling::delta {

/// Memory that encode() uses again and again: nothing is allocated once it has grown.
struct Scratch {
  std::vector<std::uint32_t> gaps;
};

/// The most elements that a delta of a replica of `n` elements carries: density * n to the nearest,
/// at least 1.
[[nodiscard]] std::size_t count_for(double density, std::size_t n);

/// Writes the largest elements of a difference to `out` (replaced). Exactly count_for(density, n)
/// of them, fewer only if fewer are not zero. `coded`, in the same memory as the source, becomes
/// the result that decode() reads from `out`. Errors: diverged, if the difference is not finite or
/// beyond kMagnitudeMax; or an error of the source. Then `out` is left empty.
[[nodiscard]] base::Status encode(DeltaSource& source, const Options& options, Scratch& scratch,
                                  base::Bytes& out, Delta& coded);
[[nodiscard]] base::Status encode(const Difference& difference, const Options& options,
                                  base::Bytes& out, HostDelta& coded);

/// Checks untrusted bytes, a sparse payload for a replica of n elements, completely except for the
/// indices. Work: a look at scales and starts. Error (protocol): says what is wrong.
[[nodiscard]] base::Result<Shape> check(base::ByteView payload, std::size_t n);

/// A bound of the magnitudes of a checked delta's values.
[[nodiscard]] float largest_value(const Shape& shape);

/// Decodes a sparse payload that check() accepted into a memory's `into` (any state on failure).
/// Errors: protocol, if the indices are not strictly rising numbers below n; or an error of the
/// memory.
[[nodiscard]] base::Status decode(const Shape& shape, ReplicaMemory& memory, Delta& into);

/// The same in this process's memory. False if the indices are wrong.
[[nodiscard]] bool decode(const CodedDelta& coded, std::size_t n, Elements& out);

/// Checks a sparse payload completely, and decodes it into `out` (any state on failure).
[[nodiscard]] base::Status decode(base::ByteView payload, std::size_t n, Elements& out);

}  // namespace starling::delta
