// A float's magnitude orders like its bits without the sign, so all comparisons are on integers
// ("keys"). A threshold estimated from a sample, on the low side, lets one pass over the difference
// keep a little more than is needed; the exact threshold is then found among those few. Where the
// estimate fails, two histograms (upper and lower half of the key) give the exact threshold.
#include "delta/select.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <span>

#include "base/assert.hpp"
#include "base/clones.hpp"
#include "base/rng.hpp"
#include "delta/scan.hpp"

namespace starling::delta {
namespace {

constexpr std::size_t kChunk = 2048;        // elements of the difference held at a time (L1)
constexpr std::size_t kScan = 8192;         // elements after which candidates are counted
constexpr std::size_t kSample = 16384;      // elements that predict the threshold
constexpr std::size_t kSampleMore = 65536;  // the same, of more than kMany
constexpr std::size_t kMany = std::size_t{1} << 24;
constexpr std::size_t kSampleAhead = 64;  // elements of a sample that are asked for at a time
static_assert(kSample % kSampleAhead == 0 && kSampleMore % kSampleAhead == 0);
constexpr std::size_t kExactBelow = 32768;    // elements: below, all are candidates
constexpr std::size_t kOrderBelow = 2048;     // candidates: below, no histogram is worth its room
constexpr std::uint32_t kEstimateShift = 18;  // 32 steps an octave
constexpr std::uint32_t kHalfBits = 16;       // of a key, for one histogram
constexpr std::size_t kBins = std::size_t{1} << kHalfBits;
constexpr std::uint32_t kLowMask = kBins - 1;

std::uint32_t key_of(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

STARLING_CLONES void subtract(const float* base, const float* mirror, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = base[i] - mirror[i];
}

STARLING_CLONES void add_subtract(const float* base, const float* offset, const float* mirror,
                                  float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = (base[i] + offset[i]) - mirror[i];
}

template <class Use>
void for_each_chunk(const Difference& difference, Use&& use) {
  std::array<float, kChunk> buffer;
  const std::size_t n = difference.size();
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::span<float> chunk(buffer.data(), std::min(kChunk, n - begin));
    difference.fill(begin, chunk);
    use(begin, std::span<const float>(chunk));
  }
}

// Finds all elements with a key of at least `key_min`; false when they are more than `room`.
bool collect(const Difference& difference, std::uint32_t key_min, std::size_t room,
             Candidates& found) {
  // Whether all fit is looked at after each part.
  const std::size_t n = difference.size();
  found.reserve(room + std::min(kScan, n) + 1);
  for (std::size_t begin = 0; begin < n && found.count <= room; begin += kScan) {
    found.count = scan(difference, begin, std::min(begin + kScan, n), key_min, found.indices.data(),
                       found.values.data(), found.count);
  }
  return found.count <= room;
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
std::uint32_t estimate_key(const Difference& difference, std::size_t count,
                           std::vector<std::uint32_t>& histogram) {
  const std::size_t n = difference.size();
  const std::size_t sample = n > kMany ? kSampleMore : kSample;
  const std::size_t stride = n / sample;
  histogram.assign(std::size_t{1} << (31 - kEstimateShift), 0);
  std::uint64_t state = n;
  std::array<std::size_t, kSampleAhead> places;
  for (std::size_t begin = 0; begin < sample; begin += places.size()) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint64_t jitter = ((base::splitmix64(state) >> 32) * stride) >> 32;
      places[i] = (begin + i) * stride + jitter;
      difference.prefetch(places[i]);
    }
    for (const std::size_t place : places) {
      ++histogram[key_of(difference.at(place)) >> kEstimateShift];
    }
  }
  const double expected =
      static_cast<double>(count) * static_cast<double>(sample) / static_cast<double>(n);
  // Four standard deviations of the sampling, and what few samples need on top.
  const double rank = expected * 1.05 + 4.0 * std::sqrt(expected) + 8.0;
  const Cut cut = cut_of(histogram, static_cast<std::size_t>(rank));
  return std::max(cut.key << kEstimateShift, std::uint32_t{1});
}

// Exactly, from two histograms; key 0 where all that is not zero is in.
Cut exact_cut(const Difference& difference, std::size_t count,
              std::vector<std::uint32_t>& histogram) {
  histogram.assign(kBins, 0);
  for_each_chunk(difference, [&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram[key >> kHalfBits] += key != 0 ? 1 : 0;
    }
  });
  const Cut high = cut_of(histogram, count);
  if (high.equals == 0) return {};
  histogram.assign(kBins, 0);
  for_each_chunk(difference, [&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram[key & kLowMask] += key != 0 && key >> kHalfBits == high.key ? 1 : 0;
    }
  });
  const Cut low = cut_of(histogram, high.equals);
  return {high.key << kHalfBits | low.key, low.equals};
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
void take(const Candidates& found, Cut cut, std::size_t count, Elements& chosen) {
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
void collect_exactly(const Difference& difference, Cut cut, std::size_t count, Elements& chosen) {
  chosen.indices.clear();
  chosen.values.clear();
  chosen.indices.reserve(count);
  chosen.values.reserve(count);
  for_each_chunk(difference, [&](std::size_t begin, std::span<const float> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const std::uint32_t key = key_of(chunk[i]);
      if (key < cut.key || key == 0) continue;
      if (key == cut.key && cut.equals == 0) continue;
      if (key == cut.key) --cut.equals;
      chosen.indices.push_back(static_cast<std::uint32_t>(begin + i));
      chosen.values.push_back(chunk[i]);
    }
  });
}

}  // namespace

void Difference::fill(std::size_t begin, std::span<float> out) const noexcept {
  mirror.for_each_block(begin, begin + out.size(), [&](std::size_t at, std::span<const float> of) {
    float* const to = out.data() + (at - begin);
    if (offset.empty()) {
      subtract(base.data() + at, of.data(), to, of.size());
    } else {
      add_subtract(base.data() + at, offset.data() + at, of.data(), to, of.size());
    }
  });
}

void select_largest(const Difference& difference, std::size_t count, SelectScratch& scratch,
                    Elements& chosen) {
  const std::size_t n = difference.size();
  ASSERT(difference.base.size() == n);
  ASSERT(difference.offset.empty() || difference.offset.size() == n);
  ASSERT(count >= 1 && n < std::size_t{1} << 31);
  const bool sampled = n >= kExactBelow && count < n;
  const std::uint32_t key_min = sampled ? estimate_key(difference, count, scratch.histogram) : 1;
  const std::size_t room = sampled ? std::min(n, 3 * count + kSample) : n;
  Candidates& found = scratch.found;
  found.count = 0;
  if (collect(difference, key_min, room, found)) {
    if (found.count <= count && (found.count == count || key_min == 1)) {
      chosen.indices.assign(found.indices.begin(), found.indices.begin() + found.count);
      chosen.values.assign(found.values.begin(), found.values.begin() + found.count);
      return;
    }
    if (found.count > count) {
      const std::span<const float> values(found.values.data(), found.count);
      take(found, cut_among(values, count, scratch), count, chosen);
      return;
    }
  }
  collect_exactly(difference, exact_cut(difference, count, scratch.histogram), count, chosen);
}

}  // namespace starling::delta
