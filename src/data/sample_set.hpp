// Samples by their number, from any source.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "data/batch_buffer.hpp"

namespace starling::data {

inline constexpr std::uint32_t kSamplesMax = 100'000'000;
inline constexpr std::size_t kSampleValuesMax = std::size_t{1} << 24;

/// Samples, numbered from 0 to size() - 1. Immutable, so any number of threads may read. It only
/// views bytes that the Dataset keeps.
class SampleSet {
 public:
  SampleSet(const SampleSet&) = delete;
  SampleSet& operator=(const SampleSet&) = delete;
  virtual ~SampleSet() = default;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] const SampleFormat& format() const noexcept { return format_; }
  /// The label of each sample, if samples have one; otherwise empty.
  [[nodiscard]] std::span<const std::int32_t> labels() const noexcept { return labels_; }

  /// Makes `out` a batch of the samples in that order. `shifts` (only for text) has the shift of
  /// each window (see TokenSet); empty: no window is moved. Allocates nothing once `out` has room.
  void fill(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> shifts,
            BatchBuffer& out) const;
  /// The same for samples first, first + 1, ... as they are, without a shift.
  void fill_range(std::uint32_t first, std::uint32_t count, BatchBuffer& out) const;
  /// The same for numbers first, first + 1, ... of `wanted` samples that represent all (spread()).
  void fill_spread(std::uint32_t first, std::uint32_t count, std::uint32_t wanted,
                   BatchBuffer& out) const;

 protected:
  /// `labels`: of each sample, or empty.
  SampleSet(SampleFormat format, std::uint32_t size, std::vector<std::int32_t> labels)
      : format_(std::move(format)), size_(size), labels_(std::move(labels)) {}

  /// The place of one sample in a batch; null for parts that the format does not have.
  struct Slot {
    float* samples;
    std::int32_t* tokens;
    std::int32_t* labels;
    float* targets;
  };
  /// Writes a sample; if labels() has its label, the label is there already.
  virtual void read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept = 0;

 private:
  void fill_slot(std::uint32_t index, std::uint32_t shift, std::size_t at, BatchBuffer& out) const;

  SampleFormat format_;
  std::uint32_t size_;
  std::vector<std::int32_t> labels_;
};

}  // namespace starling::data
