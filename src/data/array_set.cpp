#include "data/array_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "base/assert.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kMeasuredSamples = 4096;

std::size_t values_of(const std::vector<std::uint32_t>& shape) noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

/// A sample's row, counted through the blocks.
const std::byte* row_of(const std::vector<Rows>& blocks, std::uint32_t index) noexcept {
  for (const Rows& block : blocks) {
    if (index < block.count) return block.row(index);
    index -= block.count;
  }
  return nullptr;
}

std::vector<std::array<float, 256>> tables(const std::vector<Normalisation>& channels) {
  std::vector<std::array<float, 256>> made(channels.size());
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      made[channel][pixel] = static_cast<float>(
          (static_cast<double>(pixel) / 255.0 - channels[channel].mean) / channels[channel].std);
    }
  }
  return made;
}

}  // namespace

std::uint64_t Inputs::count() const noexcept {
  return std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Rows& rows) { return sum + rows.count; });
}

base::Result<std::unique_ptr<const ArraySet>> ArraySet::make(Inputs inputs, Answers answers,
                                                             const std::string& name) {
  if (inputs.shape.empty() || inputs.shape.size() > 3) {
    return fail(ErrorCode::data,
                "{}: a sample has {} dimensions; it must be [features], [height, width] or "
                "[channels, height, width]",
                name, inputs.shape.size());
  }
  if (inputs.shape.size() == 2) inputs.shape.insert(inputs.shape.begin(), 1);
  const std::uint64_t count = inputs.count();
  const std::size_t values = values_of(inputs.shape);
  if (count == 0 || values == 0) return fail(ErrorCode::data, "{}: holds no samples", name);
  if (count > kSamplesMax || values > kSampleValuesMax) {
    return fail(ErrorCode::data, "{}: more than {} samples, or than {} values each", name,
                kSamplesMax, kSampleValuesMax);
  }
  const bool labelled = answers.classes != 0;
  const std::size_t there = labelled ? answers.labels.size() : answers.targets.count;
  if (there != count) {
    return fail(ErrorCode::data, "{}: {} samples but {} {}: the files do not belong together", name,
                count, there, labelled ? "labels" : "targets");
  }
  const auto wrong = std::ranges::find_if(answers.labels, [&](std::int32_t label) {
    return label < 0 || static_cast<std::uint32_t>(label) >= answers.classes;
  });
  if (wrong != answers.labels.end()) {
    return fail(ErrorCode::data, "{}: label {} of sample {} is not below {}, the number of classes",
                name, *wrong, wrong - answers.labels.begin(), answers.classes);
  }
  ASSERT(inputs.floats || inputs.normalisation.size() == 1 ||
         inputs.normalisation.size() == inputs.shape[0]);
  SampleFormat format{.shape = inputs.shape,
                      .vocabulary = 0,
                      .classes = answers.classes,
                      .target_shape = answers.target_shape};
  return std::unique_ptr<const ArraySet>(new ArraySet(
      std::move(format), static_cast<std::uint32_t>(count), std::move(inputs), std::move(answers)));
}

ArraySet::ArraySet(SampleFormat format, std::uint32_t size, Inputs inputs, Answers answers)
    : SampleSet(std::move(format), size, std::move(answers.labels)),
      blocks_(std::move(inputs.blocks)),
      floats_(inputs.floats),
      targets_(answers.targets),
      channel_values_(this->format().values() / inputs.normalisation.size()),
      normalised_(tables(inputs.normalisation)) {}

void ArraySet::read(std::uint32_t index, std::uint32_t, const Slot& out) const noexcept {
  const std::byte* const row = row_of(blocks_, index);
  if (floats_) {
    std::memcpy(out.samples, row, format().values() * sizeof(float));
  } else {
    float* to = out.samples;
    const auto* from = reinterpret_cast<const std::uint8_t*>(row);
    for (const auto& table : normalised_) {
      for (std::size_t i = 0; i < channel_values_; ++i) to[i] = table[from[i]];
      to += channel_values_;
      from += channel_values_;
    }
  }
  if (out.targets != nullptr) {
    std::memcpy(out.targets, targets_.row(index), format().targets() * sizeof(float));
  }
}

std::vector<Normalisation> measure(const Inputs& inputs) {
  const std::size_t channels = inputs.shape.size() == 3 ? inputs.shape[0] : 1;
  const std::size_t values = values_of(inputs.shape) / channels;
  const std::uint64_t count = inputs.count();
  const std::uint64_t taken = std::min(count, kMeasuredSamples);
  std::vector<Normalisation> measured(channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
    for (std::uint64_t sample = 0; sample < taken; ++sample) {
      const auto index = static_cast<std::uint32_t>(sample * count / taken);
      const auto* const pixels =
          reinterpret_cast<const std::uint8_t*>(row_of(inputs.blocks, index) + channel * values);
      for (std::size_t i = 0; i < values; ++i) {
        sum += pixels[i];
        squares += std::uint64_t{pixels[i]} * pixels[i];
      }
    }
    const double all = static_cast<double>(taken) * static_cast<double>(values);
    const double mean = static_cast<double>(sum) / all;
    const double variance = static_cast<double>(squares) / all - mean * mean;
    const double std = variance > 0 ? std::sqrt(variance) / 255 : 1;
    measured[channel] = {mean / 255, std};
  }
  return measured;
}

}  // namespace starling::data
