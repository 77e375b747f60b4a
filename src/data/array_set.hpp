// Samples that are rows of bytes or floats, each with a label or targets: mostly images.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/sample_set.hpp"
#include "data/spread.hpp"

namespace starling::data {

/// Byte p (0 to 255) becomes (p / 255 - mean) / std.
struct Normalisation {
  double mean = 0.0;
  double std = 1.0;
};

/// Rows of equal length in memory that outlives this: all rows there, or those that spread()
/// takes, or those that it leaves.
struct Rows {
  const std::byte* first = nullptr;
  std::size_t stride = 0;  ///< bytes from one row to the next
  std::uint32_t count = 0;
  std::uint32_t others = 0;  ///< rows that lie between them
  bool taken = false;        ///< true: those that spread() takes; false: those that it leaves

  [[nodiscard]] const std::byte* row(std::uint32_t index) const noexcept {
    return first + number(index) * stride;
  }
  /// A row's number among all rows that lie there.
  [[nodiscard]] std::uint32_t number(std::uint32_t index) const noexcept {
    if (others == 0) return index;
    return taken ? spread(index, count, count + others)
                 : left_by_spread(index, others, count + others);
  }
  /// Of all rows: `wanted` of them that represent all, and the rest.
  [[nodiscard]] Rows taken_of(std::uint32_t wanted) const noexcept {
    return {first, stride, wanted, count - wanted, true};
  }
  [[nodiscard]] Rows left_of(std::uint32_t wanted) const noexcept {
    return {first, stride, count - wanted, wanted, false};
  }
};

/// Values of samples: bytes that are normalised, or floats (of any alignment) as they are.
struct Inputs {
  std::vector<Rows> blocks;  ///< one after the other; each row one sample
  /// {features}, {height, width} or {channels, height, width}.
  std::vector<std::uint32_t> shape;
  bool floats = false;
  /// For bytes: one for each channel, or one for all.
  std::vector<Normalisation> normalisation{{}};

  /// Rows of all blocks.
  [[nodiscard]] std::uint64_t count() const noexcept;
};

/// The desired outputs for the samples: a label each, or targets.
struct Answers {
  std::vector<std::int32_t> labels;
  std::uint32_t classes = 0;
  Rows targets;  ///< floats, if there are no labels
  std::vector<std::uint32_t> target_shape;
};

class ArraySet final : public SampleSet {
 public:
  /// Errors (ErrorCode::data): no samples, or more than kSamplesMax, or larger ones than
  /// kSampleValuesMax; counts that differ; a label outside 0 to classes - 1. `name` stands in
  /// messages.
  [[nodiscard]] static base::Result<std::unique_ptr<const ArraySet>> make(Inputs inputs,
                                                                          Answers answers,
                                                                          const std::string& name);

 private:
  ArraySet(SampleFormat format, std::uint32_t size, Inputs inputs, Answers answers);
  void read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept override;

  std::vector<Rows> blocks_;
  bool floats_;
  Rows targets_;
  std::size_t channel_values_;                      ///< bytes that one table normalises
  std::vector<std::array<float, 256>> normalised_;  ///< by channel and byte
};

/// Mean and deviation of each channel (one for {features}) over at most 4,096 samples of bytes
/// spread evenly. Sums of integers: the same on every machine. A deviation of 0 becomes 1.
[[nodiscard]] std::vector<Normalisation> measure(const Inputs& inputs);

/// For bytes of private data: peers must agree on it, and no peer knows the data of the others.
inline constexpr Normalisation kAgreedNormalisation{0.5, 0.25};

}  // namespace starling::data
