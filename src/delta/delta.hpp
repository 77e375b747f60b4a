// Deltas where they are made and applied, so that of a replica in a device's memory nothing but
// their bytes travels. What the bytes mean is delta/format.hpp's.
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

/// A delta that came, in its sections. Their lengths agree with `count`, scales are positive and
/// bounded, starts rise and end within the codes; what the codes say is not known.
struct CodedDelta {
  Coding coding;
  std::size_t count = 0;
  base::ByteView starts{};  ///< the bit that each run of kCodesPerRun codes but the first begins at
  base::ByteView codes{};   ///< codes of the indices
  base::ByteView scales{};
  base::ByteView values{};
};

/// Elements of a replica, where its vectors lie: `indices` strictly rise, each has a value. Made by
/// the memory that they are in, which outlives them; empty at first.
class Delta {
 public:
  virtual ~Delta() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// Its room stays.
  virtual void clear() noexcept = 0;
  /// Empties it and makes room for so many elements; tells the bytes of a device's memory that it
  /// has then. What follows makes room by itself: this is to know early that there is some.
  [[nodiscard]] virtual base::Result<std::size_t> reserve(std::size_t /*count*/) {
    clear();
    return std::size_t{0};
  }
  /// Where it has room for more than one and a half times as many elements, gives all of it back,
  /// with what it holds.
  virtual void free_beyond(std::size_t count) noexcept = 0;
  /// Replaces what the two have.
  [[nodiscard]] virtual base::Status read(std::vector<std::uint32_t>& indices,
                                          std::vector<float>& values) const = 0;
};

/// Which elements of a difference are to be chosen: the `count` (>= 1) of largest magnitude, of
/// equal ones those of lower index, and never a zero: fewer where fewer are there.
struct Choosing {
  std::size_t count = 0;
  float limit = 0;  ///< of magnitudes: Choice::beyond
  // How one pass over the vectors can do: it keeps those that are no smaller than the one of rank
  // `rank` (1: the largest) among `sample` of them (sampled_place()), or without a sample all that
  // are not zero. Where they are more than `room`, or too few, all are looked through some times.
  std::size_t room = 0;
  std::size_t sample = 0;
  std::size_t rank = 0;
};

/// What was chosen of a difference.
struct Choice {
  std::size_t count = 0;
  std::optional<std::uint32_t> beyond;  ///< the first index whose magnitude is beyond the limit
  bool in_one_pass = true;
};

/// A difference of vectors from which a delta is made: choose(), then code(). A magnitude orders as
/// its bits do; what is not finite counts as large. Errors are those of the memory that the vectors
/// lie in.
class DeltaSource {
 public:
  virtual ~DeltaSource() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// With g the smaller one of gaps.size() and the count of those chosen, the first g gaps become
  /// how many elements lie between number i * count / g of those chosen and the one before it (or
  /// the vectors' beginning).
  [[nodiscard]] virtual base::Result<Choice> choose(const Choosing& which,
                                                    std::span<std::uint32_t> gaps) = 0;
  /// Appends the sections of what was chosen to `out`; `coded` becomes what they say.
  [[nodiscard]] virtual base::Status code(const Coding& coding, base::Buffer& out,
                                          Delta& coded) = 0;
};

}  // namespace starling::delta
