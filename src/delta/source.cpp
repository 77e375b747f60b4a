#include "delta/source.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "base/prefetch.hpp"
#include "delta/cut.hpp"
#include "delta/golomb.hpp"
#include "delta/quantize.hpp"
#include "delta/scan.hpp"

namespace starling::delta {

namespace {

constexpr std::size_t kScan = 8192;           // elements between two counts of those found
constexpr std::size_t kPlacesAhead = 64;      // elements of a sample that are prefetched at a time
constexpr std::size_t kElementsAhead = 16;    // of a delta, in flight from memory
constexpr std::size_t kChunk = 32768;         // elements of the difference held at a time
constexpr std::size_t kOrderBelow = 2048;     // candidates: below, a histogram does not pay
constexpr std::uint32_t kEstimateShift = 18;  // of a key: 32 steps an octave are ordered first

}  // namespace

base::Result<Choice> DifferenceSource::choose(const Choosing& which,
                                              std::span<std::uint32_t> gaps) {
  const std::uint32_t key_min = which.sample > 0 ? estimate_key(which.sample, which.rank) : 1;
  find(key_min, which.room);
  const bool is_enough =
      found_count_ <= which.room && (found_count_ >= which.count || key_min == 1);
  if (is_enough) {
    choose_found(which.count);
  } else {
    choose_all(cut_of_all(which.count), which.count);
  }
  const std::vector<std::uint32_t>& indices = chosen_.indices;
  const std::size_t told = std::min(gaps.size(), indices.size());
  for (std::size_t i = 0; i < told; ++i) {
    gaps[i] = gap_before(indices.data(), i * indices.size() / told);
  }
  return Choice{.count = chosen_.size(),
                .beyond = first_beyond(chosen_.indices, chosen_.values, which.limit),
                .in_one_pass = is_enough};
}

// A key that probably a few more elements reach than are wanted: that of a rank in a sample.
std::uint32_t DifferenceSource::estimate_key(std::size_t sample, std::size_t rank) {
  look_at(sample);
  histogram_.assign(std::size_t{1} << (31 - kEstimateShift), 0);
  for (const float value : sampled_) ++histogram_[key_of(value) >> kEstimateShift];
  const Cut cut = cut_of(histogram_, rank);
  if (cut.equals == 0) return 1;  // the sample is smaller than the rank
  keys_.clear();
  for (const float value : sampled_) {
    if (key_of(value) >> kEstimateShift == cut.key) keys_.push_back(key_of(value));
  }
  const auto place = keys_.begin() + static_cast<std::ptrdiff_t>(cut.equals - 1);
  std::ranges::nth_element(keys_, place, std::greater<>());
  return std::max(*place, std::uint32_t{1});
}

void DifferenceSource::look_at(std::size_t sample) {
  std::array<std::uint32_t, kPlacesAhead> places;
  sampled_.resize(sample);
  for (std::size_t begin = 0; begin < sample; begin += kPlacesAhead) {
    const std::size_t count = std::min(kPlacesAhead, sample - begin);
    for (std::size_t j = 0; j < count; ++j) {
      places[j] = sampled_place(begin + j, sample, size());
      difference_.prefetch(places[j]);
    }
    for (std::size_t j = 0; j < count; ++j) sampled_[begin + j] = difference_.at(places[j]);
  }
}

// Finds the elements whose magnitude has bits of at least `key_min`; if they are more than the
// room, only this fact.
void DifferenceSource::find(std::uint32_t key_min, std::size_t room) {
  const std::size_t n = size();
  // Elements beyond the room are written to the same places again.
  if (const std::size_t most = room + 1 + std::min(kScan, n) + 1; found_indices_.size() < most) {
    found_indices_.resize(most);
    found_values_.resize(most);
  }
  const bool holds = hold_ && !std::exchange(is_held_, true);
  found_count_ = 0;
  for (std::size_t begin = 0; begin < n; begin += kScan) {
    if (found_count_ > room && !holds) break;
    found_count_ = std::min(found_count_, room + 1);
    const std::size_t end = std::min(begin + kScan, n);
    found_count_ =
        holds ? scan_and_hold_back(*hold_, difference_.mirror, begin, end, key_min,
                                   found_indices_.data(), found_values_.data(), found_count_)
              : scan(difference_, begin, end, key_min, found_indices_.data(), found_values_.data(),
                     found_count_);
  }
}

// Takes the elements above the cut and the first of those on it.
void DifferenceSource::choose_found(std::size_t count) {
  if (found_count_ <= count) {
    const auto end = static_cast<std::ptrdiff_t>(found_count_);
    chosen_.indices.assign(found_indices_.begin(), found_indices_.begin() + end);
    chosen_.values.assign(found_values_.begin(), found_values_.begin() + end);
    return;
  }
  Cut cut = cut_of_found(count);
  chosen_.indices.resize(count);
  chosen_.values.resize(count);
  std::size_t taken = 0;
  for (std::size_t j = 0; taken < count; ++j) {
    const std::uint32_t key = key_of(found_values_[j]);
    const bool tied = key == cut.key && cut.equals > 0;
    cut.equals -= tied ? 1 : 0;
    chosen_.indices[taken] = found_indices_[j];
    chosen_.values[taken] = found_values_[j];
    taken += key > cut.key || tied ? 1 : 0;
  }
}

// If there are many, a histogram finds the upper half of the key, and only elements with that half
// are ordered.
Cut DifferenceSource::cut_of_found(std::size_t count) {
  const std::span<const float> found(found_values_.data(), found_count_);
  keys_.clear();
  std::size_t wanted = count;
  if (found.size() < kOrderBelow) {
    for (const float value : found) keys_.push_back(key_of(value));
  } else {
    histogram_.assign(kHighKeys, 0);
    for (const float value : found) ++histogram_[key_of(value) >> kHalfKeyBits];
    const Cut high = cut_of(histogram_, count);
    for (const float value : found) {
      if (key_of(value) >> kHalfKeyBits == high.key) keys_.push_back(key_of(value));
    }
    wanted = high.equals;
  }
  const auto place = keys_.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
  std::nth_element(keys_.begin(), place, keys_.end(), std::greater<>());
  const std::uint32_t key = *place;
  const auto above = static_cast<std::size_t>(
      std::count_if(keys_.begin(), place, [key](std::uint32_t other) { return other > key; }));
  return {key, wanted - above};
}

template <class Use>
void DifferenceSource::for_each_chunk(Use&& use) {
  const std::size_t n = size();
  chunk_.resize(std::max(chunk_.size(), std::min(kChunk, n)));
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::span<float> chunk = std::span(chunk_).first(std::min(kChunk, n - begin));
    difference_.fill(begin, chunk);
    use(begin, std::span<const float>(chunk));
  }
}

// From two histograms; key 0 if everything that is not zero is included.
Cut DifferenceSource::cut_of_all(std::size_t count) {
  histogram_.assign(kHighKeys, 0);
  for_each_chunk([&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram_[key >> kHalfKeyBits] += key != 0 ? 1 : 0;
    }
  });
  const Cut high = cut_of(histogram_, count);
  if (high.equals == 0) return {};
  histogram_.assign(kLowKeys, 0);
  for_each_chunk([&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram_[key % kLowKeys] += key != 0 && key >> kHalfKeyBits == high.key ? 1 : 0;
    }
  });
  const Cut low = cut_of(histogram_, high.equals);
  return {high.key << kHalfKeyBits | low.key, low.equals};
}

// Takes exactly the chosen elements, so that ties need no room.
void DifferenceSource::choose_all(Cut cut, std::size_t count) {
  chosen_.indices.clear();
  chosen_.values.clear();
  chosen_.indices.reserve(count);
  chosen_.values.reserve(count);
  for_each_chunk([&](std::size_t begin, std::span<const float> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const std::uint32_t key = key_of(chunk[i]);
      if (key < cut.key || key == 0) continue;
      if (key == cut.key && cut.equals == 0) continue;
      if (key == cut.key) --cut.equals;
      chosen_.indices.push_back(static_cast<std::uint32_t>(begin + i));
      chosen_.values.push_back(chunk[i]);
    }
  });
}

base::Status DifferenceSource::code(const Coding& coding, base::Bytes& out, Delta& coded) {
  golomb_encode(chosen_.indices, coding, out);
  const std::size_t scales_at = out.size();
  scales_.resize(blocks_of(chosen_.size(), coding.block));
  const std::size_t values_at = scales_at + scales_.size() * sizeof(float);
  out.resize(values_at + codes_bytes(chosen_.size(), coding.bits));
  const std::span<std::byte> values = std::span(out).subspan(values_at);
  pack_values(chosen_.values, coding.bits, coding.block, codes_, scales_, values);
  const std::span<std::byte> scales =
      std::span(out).subspan(scales_at, scales_.size() * sizeof(float));
  std::ranges::copy(std::as_bytes(std::span(scales_)), scales.begin());
  Elements& to = static_cast<HostDelta&>(coded).elements();
  to.indices = chosen_.indices;
  to.values.resize(chosen_.size());
  unpack_values(values, coding.bits, coding.block, scales, to.values);
  if (is_held_) release(to);
  return {};
}

void DifferenceSource::release(const Elements& sent) {
  float* const y = hold_->base.data();
  float* const r = hold_->offset.data();
  for (std::size_t j = 0; j < sent.size(); ++j) {
    const std::size_t ahead = sent.indices[std::min(j + kElementsAhead, sent.size() - 1)];
    for (const float* vector : {y, r}) {
      base::prefetch(vector, ahead * sizeof(float), sizeof(float));
    }
    const std::size_t i = sent.indices[j];
    const float x = y[i] + r[i];
    r[i] -= hold_->gain * sent.values[j];
    y[i] = x - r[i];
  }
}

}  // namespace starling::delta
