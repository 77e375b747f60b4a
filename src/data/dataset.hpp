// A data set of labelled images: kept as bytes, normalised when a batch is filled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/config.hpp"
#include "data/idx.hpp"

namespace starling::data {

inline constexpr std::uint32_t kSamplesMax = 100'000'000;
inline constexpr std::size_t kSampleValuesMax = std::size_t{1} << 24;

/// Pixel p (0 to 255) becomes (p / 255 - mean) / std.
struct Normalisation {
  double mean = 0.0;
  double std = 1.0;
};

/// Labelled images. Immutable, so any number of threads may read. Samples are named by their
/// index, 0 to size() - 1.
class SampleSet {
 public:
  /// Joins images (shape {samples, height, width} or {samples, channels, height, width} or
  /// {samples, features}) and labels (shape {samples}). Errors (ErrorCode::data): counts that
  /// differ, a label that is not below `classes`. `name` stands in messages.
  [[nodiscard]] static base::Result<SampleSet> make(Idx images, Idx labels, std::uint32_t classes,
                                                    Normalisation normalisation,
                                                    const std::string& name);

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// {channels, height, width} or {features}.
  [[nodiscard]] const std::vector<std::uint32_t>& sample_shape() const noexcept {
    return sample_shape_;
  }
  [[nodiscard]] std::size_t sample_values() const noexcept { return sample_values_; }
  [[nodiscard]] std::span<const std::uint8_t> labels() const noexcept { return labels_.values(); }

  /// Writes the normalised samples one after the other (sample_values() floats each) and their
  /// labels. `samples` and `labels` have room for exactly the indices given.
  void fill(std::span<const std::uint32_t> indices, std::span<float> samples,
            std::span<std::int32_t> labels) const;
  /// The same for samples first, first + 1, ... as many as `labels` has room for.
  void fill_range(std::uint32_t first, std::span<float> samples,
                  std::span<std::int32_t> labels) const;

  /// XXH3-128 over the hashes of images and labels.
  [[nodiscard]] base::Hash128 hash() const;

 private:
  SampleSet(Idx images, Idx labels) : images_(std::move(images)), labels_(std::move(labels)) {}
  void fill_one(std::uint32_t index, float* out) const noexcept;

  Idx images_;
  Idx labels_;
  std::uint32_t size_ = 0;
  std::size_t sample_values_ = 0;
  std::vector<std::uint32_t> sample_shape_;
  std::array<float, 256> normalised_{};  ///< by pixel
};

/// The samples to train on and those to evaluate on.
struct Dataset {
  SampleSet train;
  SampleSet test;
  std::uint32_t classes = 0;
  base::Hash128 identity;  ///< of all contents: part of the run id
};

/// Reads the data set that a run file names. Unpacked files are kept in `cache_folder` for the
/// next start; empty: they are not kept. Errors (ErrorCode::data, or run_file for an unknown
/// source) say how to get what is missing. Takes about 0.4 s for Fashion-MNIST, 0.02 s cached.
[[nodiscard]] base::Result<Dataset> load(const Config& config,
                                         const std::string& cache_folder = {});

/// The names that data.source may have.
[[nodiscard]] std::span<const std::string_view> known_sources() noexcept;

}  // namespace starling::data
