// A threshold estimated from a sample, on the low side, lets one pass over the difference keep a
// little more than is needed; the exact threshold is then found among those few. Where the estimate
// fails, it is found among all.
#include "delta/select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "compute/cut.hpp"

namespace starling::delta {
namespace {

using base::fail;
using compute::Choice;
using compute::DeltaSource;

// Elements that predict the threshold: looking one up costs about as much as scanning 40, and of
// more there are fewer candidates that were not needed.
constexpr std::size_t kSampleLeast = 4096;
constexpr std::size_t kSampleMost = 65536;
constexpr std::size_t kElementsASample = 1024;
constexpr std::size_t kRoomInSamples = 32;    // for candidates beyond three times the count
constexpr std::size_t kExactBelow = 32768;    // elements: below, all are candidates
constexpr std::uint32_t kEstimateShift = 18;  // of a key: 32 steps an octave are ordered first

std::size_t sample_of(std::size_t n) {
  return std::clamp(std::bit_floor(n / kElementsASample), kSampleLeast, kSampleMost);
}

bool is_sampled(std::size_t count, std::size_t n) { return n >= kExactBelow && count < n; }

// A key that a little more than `count` elements reach, most likely. The places are jittered so
// that no regular structure of the replica (rows of a layer) is met in step.
base::Result<std::uint32_t> estimate_key(DeltaSource& source, std::size_t count,
                                         SelectScratch& scratch) {
  const std::size_t n = source.size();
  const std::size_t sample = sample_of(n);
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
  const compute::Cut cut = compute::cut_of(histogram, rank);
  if (cut.equals == 0) return 1;  // fewer were looked at
  std::vector<std::uint32_t>& keys = scratch.places;
  keys.clear();
  for (const float value : scratch.values) {
    const std::uint32_t key = compute::key_of(value);
    if (key >> kEstimateShift == cut.key) keys.push_back(key);
  }
  const auto place = keys.begin() + static_cast<std::ptrdiff_t>(cut.equals - 1);
  std::ranges::nth_element(keys, place, std::greater<>());
  return std::max(*place, std::uint32_t{1});
}

}  // namespace

std::size_t room_for(std::size_t count, std::size_t n) {
  if (!is_sampled(count, n)) return n;
  return std::min(n, 3 * count + kRoomInSamples * (n / sample_of(n)));
}

base::Result<Choice> select_largest(DeltaSource& source, std::size_t count, float limit,
                                    SelectScratch& scratch) {
  const std::size_t n = source.size();
  ASSERT(count >= 1 && n < std::size_t{1} << 31);
  std::uint32_t key_min = 1;
  if (is_sampled(count, n)) {
    const auto estimate = estimate_key(source, count, scratch);
    if (!estimate) return fail(estimate.error());
    key_min = *estimate;
  }
  const std::size_t room = room_for(count, n);
  const auto found = source.find(key_min, room);
  if (!found) return fail(found.error());
  const bool has_all = *found <= room && (*found >= count || key_min == 1);
  return source.choose(has_all ? DeltaSource::Among::found : DeltaSource::Among::all, count, limit);
}

}  // namespace starling::delta
