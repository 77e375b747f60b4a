// A threshold estimated from a sample, on the low side, lets one pass over the difference keep a
// little more than is needed; the exact threshold is then found among those few. Where the estimate
// fails, it is found among all.
#include "delta/select.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "compute/cut.hpp"

namespace starling::delta {
namespace {

using base::fail;
using compute::Choice;
using compute::DeltaSource;

constexpr std::size_t kSample = 16384;      // elements that predict the threshold
constexpr std::size_t kSampleMore = 65536;  // the same, of more than kMany
constexpr std::size_t kMany = std::size_t{1} << 24;
constexpr std::size_t kExactBelow = 32768;    // elements: below, all are candidates
constexpr std::uint32_t kEstimateShift = 18;  // 32 steps an octave

// A key that a little more than `count` elements reach, most likely. The places are jittered so
// that no regular structure of the replica (rows of a layer) is met in step.
base::Result<std::uint32_t> estimate_key(DeltaSource& source, std::size_t count,
                                         SelectScratch& scratch) {
  const std::size_t n = source.size();
  const std::size_t sample = n > kMany ? kSampleMore : kSample;
  const std::size_t stride = n / sample;
  scratch.places.resize(sample);
  scratch.values.resize(sample);
  std::uint64_t state = n;
  for (std::size_t i = 0; i < sample; ++i) {
    const std::uint64_t jitter = ((base::splitmix64(state) >> 32) * stride) >> 32;
    scratch.places[i] = static_cast<std::uint32_t>(i * stride + jitter);
  }
  if (auto status = source.sample(scratch.places, scratch.values); !status) {
    return fail(status.error());
  }
  std::vector<std::uint32_t>& histogram = scratch.histogram;
  histogram.assign(std::size_t{1} << (31 - kEstimateShift), 0);
  for (const float value : scratch.values) {
    ++histogram[compute::key_of(value) >> kEstimateShift];
  }
  const double expected =
      static_cast<double>(count) * static_cast<double>(sample) / static_cast<double>(n);
  // Four standard deviations of the sampling, and what few samples need on top.
  const auto rank = static_cast<std::size_t>(expected * 1.05 + 4.0 * std::sqrt(expected) + 8.0);
  const std::uint32_t bin = compute::cut_of(histogram, rank).key;
  return std::max(bin << kEstimateShift, std::uint32_t{1});
}

}  // namespace

base::Result<Choice> select_largest(DeltaSource& source, std::size_t count, float limit,
                                    SelectScratch& scratch) {
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
  const auto found = source.find(key_min, room);
  if (!found) return fail(found.error());
  const bool has_all = *found <= room && (*found >= count || key_min == 1);
  return source.choose(has_all ? DeltaSource::Among::found : DeltaSource::Among::all, count, limit);
}

}  // namespace starling::delta
