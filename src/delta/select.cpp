// A threshold estimated from a sample, on the low side, lets one pass over the difference keep a
// little more than is needed; the exact threshold is then found among those few. If the estimate
// fails, it is found among all.
#include "delta/select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.hpp"

namespace starling::delta {
namespace {

// Elements that predict the threshold: a lookup costs about as much as scanning 40, but more
// lookups leave fewer unneeded candidates.
constexpr std::size_t kSampleLeast = 4096;
constexpr std::size_t kSampleMost = 65536;
constexpr std::size_t kElementsASample = 1024;
constexpr std::size_t kRoomInSamples = 32;  // for candidates beyond three times the count
constexpr std::size_t kExactBelow = 32768;  // elements: below, all are candidates

std::size_t sample_of(std::size_t n) {
  return std::clamp(std::bit_floor(n / kElementsASample), kSampleLeast, kSampleMost);
}

bool is_sampled(std::size_t count, std::size_t n) { return n >= kExactBelow && count < n; }

}  // namespace

std::size_t room_for(std::size_t count, std::size_t n) {
  if (!is_sampled(count, n)) return n;
  return std::min(n, 3 * count + kRoomInSamples * (n / sample_of(n)));
}

base::Result<Choice> select_largest(DeltaSource& source, std::size_t count, float limit,
                                    std::span<std::uint32_t> gaps) {
  const std::size_t n = source.size();
  ASSERT(count >= 1 && n < std::size_t{1} << 31);
  Choosing which{.count = count, .limit = limit, .room = room_for(count, n)};
  if (is_sampled(count, n)) {
    which.sample = sample_of(n);
    const double expected =
        static_cast<double>(count) * static_cast<double>(which.sample) / static_cast<double>(n);
    // Four standard deviations of the sampling, and a margin for few samples.
    which.rank = static_cast<std::size_t>(expected * 1.05 + 4.0 * std::sqrt(expected) + 8.0);
  }
  return source.choose(which, gaps);
}

}  // namespace starling::delta
