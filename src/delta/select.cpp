// A float's magnitude orders like its bits without the sign, so all comparisons are on integers
// ("keys"). A threshold estimated from a sample, on the low side, lets one pass over the difference
// keep a little more than is needed; the exact threshold is then found among those few. Where the
// estimate fails, two histograms (upper and lower half of the key) give the exact threshold.
#include "delta/select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <span>

#include "base/assert.hpp"
#include "base/rng.hpp"

namespace starling::delta {
namespace {

using base::fail;

constexpr std::size_t kChunk = 32768;       // elements of the difference held at a time
constexpr std::size_t kSample = 16384;      // elements that predict the threshold
constexpr std::size_t kSampleMore = 65536;  // the same, of more than kMany
constexpr std::size_t kMany = std::size_t{1} << 24;
constexpr std::size_t kExactBelow = 32768;    // elements: below, all are candidates
constexpr std::size_t kOrderBelow = 2048;     // candidates: below, no histogram is worth its room
constexpr std::uint32_t kEstimateShift = 18;  // 32 steps an octave
constexpr std::uint32_t kHalfBits = 16;       // of a key, for one histogram
constexpr std::size_t kBins = std::size_t{1} << kHalfBits;
constexpr std::uint32_t kLowMask = kBins - 1;

std::uint32_t key_of(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

template <class Use>
base::Status for_each_chunk(Source& source, std::vector<float>& buffer, Use&& use) {
  const std::size_t n = source.size();
  buffer.resize(std::max(buffer.size(), std::min(kChunk, n)));
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::span<float> chunk = std::span(buffer).first(std::min(kChunk, n - begin));
    if (auto status = source.fill(begin, chunk); !status) return status;
    use(begin, std::span<const float>(chunk));
  }
  return {};
}

// The threshold that leaves exactly `count` elements, and how many of those equal to it are in.
struct Cut {
  std::uint32_t key = 0;
  std::size_t equals = 0;
};

// Walks a histogram from its top until `count` elements are passed.
Cut cut_of(std::span<const std::uint32_t> histogram, std::size_t count) {
  std::size_t above = 0;
  for (std::size_t bin = histogram.size(); bin-- > 0;) {
    if (above + histogram[bin] >= count) return {static_cast<std::uint32_t>(bin), count - above};
    above += histogram[bin];
  }
  return {0, 0};  // fewer than count
}

// A key that a little more than `count` elements reach, most likely. The places are jittered so
// that no regular structure of the replica (rows of a layer) is met in step.
base::Result<std::uint32_t> estimate_key(Source& source, std::size_t count,
                                         SelectScratch& scratch) {
  const std::size_t n = source.size();
  const std::size_t sample = n > kMany ? kSampleMore : kSample;
  const std::size_t stride = n / sample;
  scratch.places.resize(sample);
  scratch.values.resize(std::max(scratch.values.size(), sample));
  std::uint64_t state = n;
  for (std::size_t i = 0; i < sample; ++i) {
    const std::uint64_t jitter = ((base::splitmix64(state) >> 32) * stride) >> 32;
    scratch.places[i] = static_cast<std::uint32_t>(i * stride + jitter);
  }
  const std::span<float> values = std::span(scratch.values).first(sample);
  if (auto status = source.sample(scratch.places, values); !status) return fail(status.error());
  std::vector<std::uint32_t>& histogram = scratch.histogram;
  histogram.assign(std::size_t{1} << (31 - kEstimateShift), 0);
  for (const float value : values) ++histogram[key_of(value) >> kEstimateShift];
  const double expected =
      static_cast<double>(count) * static_cast<double>(sample) / static_cast<double>(n);
  // Four standard deviations of the sampling, and what few samples need on top.
  const double rank = expected * 1.05 + 4.0 * std::sqrt(expected) + 8.0;
  const Cut cut = cut_of(histogram, static_cast<std::size_t>(rank));
  return std::max(cut.key << kEstimateShift, std::uint32_t{1});
}

// Exactly, from two histograms; key 0 where all that is not zero is in.
base::Result<Cut> exact_cut(Source& source, std::size_t count, SelectScratch& scratch) {
  std::vector<std::uint32_t>& histogram = scratch.histogram;
  histogram.assign(kBins, 0);
  auto read =
      for_each_chunk(source, scratch.values, [&](std::size_t, std::span<const float> chunk) {
        for (const float value : chunk) {
          const std::uint32_t key = key_of(value);
          histogram[key >> kHalfBits] += key != 0 ? 1 : 0;
        }
      });
  if (!read) return fail(read.error());
  const Cut high = cut_of(histogram, count);
  if (high.equals == 0) return Cut{};
  histogram.assign(kBins, 0);
  read = for_each_chunk(source, scratch.values, [&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram[key & kLowMask] += key != 0 && key >> kHalfBits == high.key ? 1 : 0;
    }
  });
  if (!read) return fail(read.error());
  const Cut low = cut_of(histogram, high.equals);
  return Cut{high.key << kHalfBits | low.key, low.equals};
}

// Exactly, among candidates that contain the answer: where they are many, a histogram finds the
// upper half of the key, and only the candidates that have it are ordered.
Cut cut_among(std::span<const float> found, std::size_t count, SelectScratch& scratch) {
  std::vector<std::uint32_t>& keys = scratch.keys;
  keys.clear();
  std::size_t wanted = count;
  if (found.size() < kOrderBelow) {
    for (const float value : found) keys.push_back(key_of(value));
  } else {
    std::vector<std::uint32_t>& histogram = scratch.histogram;
    histogram.assign(kBins / 2, 0);
    for (const float value : found) ++histogram[key_of(value) >> kHalfBits];
    const Cut high = cut_of(histogram, count);
    for (const float value : found) {
      if (key_of(value) >> kHalfBits == high.key) keys.push_back(key_of(value));
    }
    wanted = high.equals;
  }
  const auto place = keys.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
  std::nth_element(keys.begin(), place, keys.end(), std::greater<>());
  const std::uint32_t key = *place;
  const auto above = static_cast<std::size_t>(
      std::count_if(keys.begin(), place, [key](std::uint32_t other) { return other > key; }));
  return {key, wanted - above};
}

// What is above the cut and the first `equals` of those on it, `count` in all.
void take(const FoundElements& found, Cut cut, std::size_t count, Elements& chosen) {
  chosen.indices.resize(count);
  chosen.values.resize(count);
  std::size_t taken = 0;
  for (std::size_t j = 0; taken < count; ++j) {
    const std::uint32_t key = key_of(found.values[j]);
    const bool tied = key == cut.key && cut.equals > 0;
    cut.equals -= tied ? 1 : 0;
    chosen.indices[taken] = found.indices[j];
    chosen.values[taken] = found.values[j];
    taken += key > cut.key || tied ? 1 : 0;
  }
}

// The slow way in: collects exactly what is chosen, so that ties need no room.
base::Status collect_exactly(Source& source, Cut cut, std::size_t count, SelectScratch& scratch,
                             Elements& chosen) {
  chosen.indices.clear();
  chosen.values.clear();
  chosen.indices.reserve(count);
  chosen.values.reserve(count);
  const auto take = [&](std::size_t begin, std::span<const float> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const std::uint32_t key = key_of(chunk[i]);
      if (key < cut.key || key == 0) continue;
      if (key == cut.key && cut.equals == 0) continue;
      if (key == cut.key) --cut.equals;
      chosen.indices.push_back(static_cast<std::uint32_t>(begin + i));
      chosen.values.push_back(chunk[i]);
    }
  };
  return for_each_chunk(source, scratch.values, take);
}

}  // namespace

base::Status select_largest(Source& source, std::size_t count, SelectScratch& scratch,
                            Elements& chosen) {
  const std::size_t n = source.size();
  ASSERT(count >= 1 && n < std::size_t{1} << 31);
  const bool sampled = n >= kExactBelow && count < n;
  std::uint32_t key_min = 1;
  if (sampled) {
    const auto estimate = estimate_key(source, count, scratch);
    if (!estimate) return fail(estimate.error());
    key_min = *estimate;
  }
  const std::size_t room = sampled ? std::min(n, 3 * count + kSample) : n;
  FoundElements& found = scratch.found;
  if (auto status = source.collect(key_min, room, found); !status) return status;
  if (found.count <= room) {
    if (found.count <= count && (found.count == count || key_min == 1)) {
      chosen.indices.assign(found.indices.begin(), found.indices.begin() + found.count);
      chosen.values.assign(found.values.begin(), found.values.begin() + found.count);
      return {};
    }
    if (found.count > count) {
      const std::span<const float> values(found.values.data(), found.count);
      take(found, cut_among(values, count, scratch), count, chosen);
      return {};
    }
  }
  const auto cut = exact_cut(source, count, scratch);
  if (!cut) return fail(cut.error());
  return collect_exactly(source, *cut, count, scratch, chosen);
}

}  // namespace starling::delta
