// Deltas are made and applied where the replica lies, so that only their bytes leave a device's
// memory. delta/format.hpp describes the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "delta/coding.hpp"

namespace starling::delta {

/// The sections of a received delta. Their lengths agree with `count`, scales are positive and
/// bounded, starts rise and end within the codes; the codes themselves are not checked.
struct CodedDelta {
  Coding coding;
  std::size_t count = 0;
  base::ByteView starts{};  ///< the bit at which each run of kCodesPerRun codes begins, except the
                            ///< first
  base::ByteView codes{};   ///< codes of the indices
  base::ByteView scales{};
  base::ByteView values{};
};

/// Elements of a replica, in the memory of its vectors: `indices` rise strictly, and each has a
/// value. Made by that memory, which outlives them; empty at first.
class Delta {
 public:
  virtual ~Delta() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// Keeps its room.
  virtual void clear() noexcept = 0;
  /// Empties it and makes room for `count` elements; returns the bytes of device memory that it
  /// then has. Later calls make room by themselves: this shows early that there is some.
  [[nodiscard]] virtual base::Result<std::size_t> reserve(std::size_t /*count*/) {
    clear();
    return std::size_t{0};
  }
  /// If it has room for more than one and a half times `count` elements, frees all of it, with its
  /// content.
  virtual void free_beyond(std::size_t count) noexcept = 0;
  /// Replaces the content of both vectors.
  [[nodiscard]] virtual base::Status read(std::vector<std::uint32_t>& indices,
                                          std::vector<float>& values) const = 0;
};

/// The elements of a difference to choose: the `count` (>= 1) of largest magnitude, among equal
/// ones those of lower index, and never a zero; fewer if there are fewer.
struct Choosing {
  std::size_t count = 0;
  float limit = 0;  ///< of magnitudes: Choice::beyond
  // For a single pass over the vectors: it keeps elements that are not smaller than the one of rank
  // `rank` (1: the largest) among `sample` of them (sampled_place()), or without a sample all that
  // are not zero. If they are more than `room`, or too few, several passes go through all elements.
  std::size_t room = 0;
  std::size_t sample = 0;
  std::size_t rank = 0;
};

/// The chosen elements of a difference.
struct Choice {
  std::size_t count = 0;
  std::optional<std::uint32_t> beyond;  ///< the first index whose magnitude is beyond the limit
  bool in_one_pass = true;
};

/// A difference of vectors from which a delta is made: choose(), then code(). Magnitudes are
/// ordered like their bits; values that are not finite count as large. Errors are those of the
/// vectors' memory.
class DeltaSource {
 public:
  virtual ~DeltaSource() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// With g the smaller of gaps.size() and the number of chosen elements, gap i of the first g
  /// becomes the number of elements between the chosen one with number i * count / g and the one
  /// before it (or the vectors' beginning).
  [[nodiscard]] virtual base::Result<Choice> choose(const Choosing& which,
                                                    std::span<std::uint32_t> gaps) = 0;
  /// Appends the sections of the chosen elements to `out`; `coded` becomes their decoded form.
  [[nodiscard]] virtual base::Status code(const Coding& coding, base::Bytes& out, Delta& coded) = 0;
};

}  // namespace starling::delta
