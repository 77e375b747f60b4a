// The format of samples, and room for a batch of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "compute/batch.hpp"

namespace starling::data {

/// The input and the desired output in one sample.
struct SampleFormat {
  /// {features} or {channels, height, width} of floats, or {positions} of tokens.
  std::vector<std::uint32_t> shape;
  std::uint32_t vocabulary = 0;             ///< tokens are below it; 0: a sample is floats
  std::uint32_t classes = 0;                ///< labels are below it; 0: there are targets instead
  std::vector<std::uint32_t> target_shape;  ///< floats; empty: there are labels

  /// Floats or tokens a sample.
  [[nodiscard]] std::size_t values() const noexcept { return product(shape); }
  /// Labels a sample: one, or one for each position.
  [[nodiscard]] std::size_t labels() const noexcept {
    if (classes == 0) return 0;
    return vocabulary == 0 ? 1 : values();
  }
  /// Targets a sample.
  [[nodiscard]] std::size_t targets() const noexcept {
    return classes == 0 ? product(target_shape) : 0;
  }
  /// Bytes of a sample in a batch.
  [[nodiscard]] std::size_t batch_bytes() const noexcept {
    return sizeof(float) * (values() + labels() + targets());
  }

  friend bool operator==(const SampleFormat&, const SampleFormat&) = default;

 private:
  static std::size_t product(const std::vector<std::uint32_t>& sides) noexcept {
    return std::accumulate(sides.begin(), sides.end(), std::size_t{1}, std::multiplies<>());
  }
};

/// Storage of a batch, which is passed back and forth between the data thread and the trainer.
/// Fields that the format does not use stay empty.
struct BatchBuffer {
  std::vector<float> samples;        ///< one sample after the other, in the order of the shape
  std::vector<std::int32_t> tokens;  ///< instead of samples
  std::vector<std::int32_t> labels;
  std::vector<float> targets;
  std::uint32_t count = 0;  ///< samples
  std::uint64_t seed = 0;   ///< of the random numbers in a step on it
  std::uint64_t epoch = 0;  ///< passes over the own samples that ended before its end

  /// Makes room for that many samples; the old content is lost. Takes no memory if it had the room.
  void resize(const SampleFormat& format, std::uint32_t samples_wanted) {
    count = samples_wanted;
    (format.vocabulary == 0 ? samples.resize(count * format.values())
                            : tokens.resize(count * format.values()));
    labels.resize(count * format.labels());
    targets.resize(count * format.targets());
  }

  [[nodiscard]] compute::Batch view() const noexcept {
    return {.samples = samples, .tokens = tokens, .labels = labels, .targets = targets};
  }
};

}  // namespace starling::data
