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

namespace starling::delta {
namespace {

constexpr std::size_t kChunk = 2048;        // elements of the difference held at a time (L1)
constexpr std::size_t kRun = 32;            // elements that are looked at together: a word of bits
constexpr std::size_t kSample = 16384;      // elements that predict the threshold
constexpr std::size_t kExactBelow = 32768;  // elements: below, all are candidates
constexpr std::size_t kOrderBelow = 2048;   // candidates: below, no histogram is worth its room
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

// Bit i: key i of the run is at least `limit`. Keys compare as signed integers, which every vector
// unit can; with its fixed length the loop becomes a handful of vector instructions.
inline std::uint32_t hits_of(const float* run, std::int32_t limit) {
  std::uint32_t hits = 0;
  for (std::uint32_t i = 0; i < kRun; ++i) {
    hits |= static_cast<std::int32_t>(key_of(run[i])) >= limit ? 1U << i : 0U;
  }
  return hits;
}

// Appends the elements of `values` (indices from `first`) whose key is at least `key_min` > 0; the
// arrays have room for all of them. Returns the new count. `values` is padded with zeros to a whole
// number of runs.
STARLING_CLONES std::size_t append_from(const float* values, std::size_t n, std::uint32_t first,
                                        std::uint32_t key_min, std::uint32_t* indices, float* kept,
                                        std::size_t count) {
  const auto limit = static_cast<std::int32_t>(key_min);
  for (std::size_t run = 0; run < n; run += kRun) {
    for (std::uint32_t hits = hits_of(values + run, limit); hits != 0; hits &= hits - 1) {
      const std::size_t i = run + static_cast<std::size_t>(std::countr_zero(hits));
      indices[count] = first + static_cast<std::uint32_t>(i);
      kept[count] = values[i];
      ++count;
    }
  }
  return count;
}

template <class Use>
void for_each_chunk(const Difference& difference, Use&& use) {
  static_assert(kChunk % kRun == 0, "chunks are whole runs");
  std::array<float, kChunk> buffer;
  const std::size_t n = difference.size();
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::span<float> chunk(buffer.data(), std::min(kChunk, n - begin));
    difference.fill(begin, chunk);
    // The last run ends with zeros, which are never chosen.
    const std::size_t padded = (chunk.size() + kRun - 1) / kRun * kRun;
    std::fill(chunk.data() + chunk.size(), chunk.data() + padded, 0.0F);
    if (!use(begin, std::span<const float>(chunk))) return;
  }
}

// All elements with a key of at least `key_min`, or false when they are more than `room`.
bool collect(const Difference& difference, std::uint32_t key_min, std::size_t room,
             Elements& found) {
  // Whether all fit is looked at after each chunk.
  const std::size_t chunk_size = std::min(kChunk, difference.size());
  found.indices.resize(room + chunk_size);
  found.values.resize(room + chunk_size);
  std::size_t count = 0;
  bool fits = true;
  for_each_chunk(difference, [&](std::size_t begin, std::span<const float> chunk) {
    count = append_from(chunk.data(), chunk.size(), static_cast<std::uint32_t>(begin), key_min,
                        found.indices.data(), found.values.data(), count);
    fits = count <= room;
    return fits;
  });
  found.indices.resize(fits ? count : 0);
  found.values.resize(fits ? count : 0);
  return fits;
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
  const std::size_t stride = n / kSample;
  histogram.assign(std::size_t{1} << (31 - kEstimateShift), 0);
  std::uint64_t state = n;
  for (std::size_t i = 0; i < kSample; ++i) {
    const std::uint64_t jitter = ((base::splitmix64(state) >> 32) * stride) >> 32;
    ++histogram[key_of(difference.at(i * stride + jitter)) >> kEstimateShift];
  }
  const double expected =
      static_cast<double>(count) * static_cast<double>(kSample) / static_cast<double>(n);
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
    return true;
  });
  const Cut high = cut_of(histogram, count);
  if (high.equals == 0) return {};
  histogram.assign(kBins, 0);
  for_each_chunk(difference, [&](std::size_t, std::span<const float> chunk) {
    for (const float value : chunk) {
      const std::uint32_t key = key_of(value);
      histogram[key & kLowMask] += key != 0 && key >> kHalfBits == high.key ? 1 : 0;
    }
    return true;
  });
  const Cut low = cut_of(histogram, high.equals);
  return {high.key << kHalfBits | low.key, low.equals};
}

// Exactly, among candidates that contain the answer: where they are many, a histogram finds the
// upper half of the key, and only the candidates that have it are ordered.
Cut cut_among(const Elements& found, std::size_t count, SelectScratch& scratch) {
  std::vector<std::uint32_t>& keys = scratch.keys;
  keys.clear();
  std::size_t wanted = count;
  if (found.size() < kOrderBelow) {
    for (const float value : found.values) keys.push_back(key_of(value));
  } else {
    std::vector<std::uint32_t>& histogram = scratch.histogram;
    histogram.assign(kBins / 2, 0);
    for (const float value : found.values) ++histogram[key_of(value) >> kHalfBits];
    const Cut high = cut_of(histogram, count);
    for (const float value : found.values) {
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

// Keeps what is above the cut and the first `equals` of those on it.
void trim(Elements& found, const Cut& cut) {
  std::size_t kept = 0;
  std::size_t equals = cut.equals;
  for (std::size_t j = 0; j < found.size(); ++j) {
    const std::uint32_t key = key_of(found.values[j]);
    const bool tied = key == cut.key && equals > 0;
    equals -= tied ? 1 : 0;
    found.indices[kept] = found.indices[j];
    found.values[kept] = found.values[j];
    kept += key > cut.key || tied ? 1 : 0;
  }
  found.indices.resize(kept);
  found.values.resize(kept);
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
    return true;
  });
}

}  // namespace

void Difference::fill(std::size_t begin, std::span<float> out) const noexcept {
  if (offset.empty()) {
    subtract(base.data() + begin, mirror.data() + begin, out.data(), out.size());
  } else {
    add_subtract(base.data() + begin, offset.data() + begin, mirror.data() + begin, out.data(),
                 out.size());
  }
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
  if (collect(difference, key_min, room, chosen)) {
    if (chosen.size() == count || (chosen.size() < count && key_min == 1)) return;
    if (chosen.size() > count) {
      trim(chosen, cut_among(chosen, count, scratch));
      return;
    }
  }
  collect_exactly(difference, exact_cut(difference, count, scratch.histogram), count, chosen);
}

}  // namespace starling::delta
