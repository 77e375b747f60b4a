#include "delta/scan.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/clones.hpp"
#include "base/prefetch.hpp"

namespace starling::delta {
namespace {

constexpr std::size_t kRun = 32;  // elements that are checked together: a word of bits
// Bytes. The hardware stops at the end of a page. Prefetching a whole page ahead is a sixth slower:
// three vectors are read side by side, and the number of lines in flight is limited.
constexpr std::size_t kAhead = 1024;
constexpr std::uint32_t kTop = 1U << 31;

using Run = std::array<float, kRun>;

// Bit i: the magnitude of element i has bits of at least `limit`. Keys compare as signed integers,
// which every vector unit can; with its fixed length the loop becomes a few vector instructions.
inline std::uint32_t hits_of(const Run& run, std::int32_t limit) {
  std::uint32_t hits = 0;
  for (std::uint32_t i = 0; i < kRun; ++i) {
    const auto key = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(run[i]) & ~kTop);
    hits |= key >= limit ? 1U << i : 0U;
  }
  return hits;
}

struct Found {
  std::uint32_t* indices;
  float* values;
  std::size_t count;
};

// One hit is always written, since a branch on whether there is one would often be mispredicted.
inline void append(const Run& run, std::uint32_t first, std::uint32_t hits, Found& found) {
  do {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(hits | kTop));
    found.indices[found.count] = first + i;
    found.values[found.count] = run[i];
    found.count += hits != 0 ? 1 : 0;
    hits &= hits - 1;
  } while (hits != 0);
}

// Prefetches the elements that are read together with element `at`, one run at a time.
template <class... Vectors>
[[gnu::always_inline]] inline void ask(std::size_t at, const Vectors*... vectors) {
  (base::prefetch(vectors + at, kAhead / sizeof(float) * sizeof(*vectors), kRun * sizeof(*vectors)),
   ...);
}

inline float value_of(float value) { return value; }
inline float value_of(base::BFloat16 value) { return base::widen(value); }

// Whole runs: `n` elements, the first of which has index `first`.
template <class Value>
[[gnu::always_inline]] inline std::size_t scan_plain(const float* base, const Value* mirror,
                                                     std::size_t first, std::size_t n,
                                                     std::int32_t limit, Found found) {
  Run run;
  for (std::size_t at = 0; at < n; at += kRun) {
    ask(at, base, mirror);
    for (std::size_t i = 0; i < kRun; ++i) run[i] = base[at + i] - value_of(mirror[at + i]);
    append(run, static_cast<std::uint32_t>(first + at), hits_of(run, limit), found);
  }
  return found.count;
}

template <class Value>
[[gnu::always_inline]] inline std::size_t scan_offset(const float* base, const float* offset,
                                                      const Value* mirror, std::size_t first,
                                                      std::size_t n, std::int32_t limit,
                                                      Found found) {
  Run run;
  for (std::size_t at = 0; at < n; at += kRun) {
    ask(at, base, offset, mirror);
    for (std::size_t i = 0; i < kRun; ++i)
      run[i] = (base[at + i] + offset[at + i]) - value_of(mirror[at + i]);
    append(run, static_cast<std::uint32_t>(first + at), hits_of(run, limit), found);
  }
  return found.count;
}

// Writes the difference of `n` elements from `at` on to `run` and holds it back.
template <class Value>
[[gnu::always_inline]] inline void hold_back(const HoldBack& to, std::size_t at,
                                             const Value* mirror, std::size_t n,
                                             float* __restrict run) {
  float* const __restrict base = to.base.data() + at;
  float* const __restrict offset = to.offset.data() + at;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = base[i] + offset[i];
    const float away = x - value_of(mirror[at + i]);
    run[i] = away;
    const float held = to.keep * offset[i] + to.gain * away;
    offset[i] = held;
    base[i] = x - held;
  }
}

template <class Value>
[[gnu::always_inline]] inline std::size_t scan_held(const HoldBack& to, const Value* mirror,
                                                    std::size_t begin, std::size_t end,
                                                    std::int32_t limit, Found found) {
  Run run;
  std::size_t at = begin;
  for (; at + kRun <= end; at += kRun) {
    ask(at, to.base.data(), to.offset.data(), mirror);
    hold_back(to, at, mirror, kRun, run.data());
    append(run, static_cast<std::uint32_t>(at), hits_of(run, limit), found);
  }
  if (at < end) {
    run.fill(0.0F);  // zeros are never chosen
    hold_back(to, at, mirror, end - at, run.data());
    append(run, static_cast<std::uint32_t>(at), hits_of(run, limit), found);
  }
  return found.count;
}

STARLING_CLONES std::size_t scan_held_full(const HoldBack& to, const float* mirror,
                                           std::size_t begin, std::size_t end, std::int32_t limit,
                                           Found found) {
  return scan_held(to, mirror, begin, end, limit, found);
}

STARLING_CLONES std::size_t scan_held_half(const HoldBack& to, const base::BFloat16* mirror,
                                           std::size_t begin, std::size_t end, std::int32_t limit,
                                           Found found) {
  return scan_held(to, mirror, begin, end, limit, found);
}

STARLING_CLONES std::size_t scan_full(const float* base, const float* offset, const float* mirror,
                                      std::size_t first, std::size_t n, std::int32_t limit,
                                      Found found) {
  return offset == nullptr ? scan_plain(base, mirror, first, n, limit, found)
                           : scan_offset(base, offset, mirror, first, n, limit, found);
}

STARLING_CLONES std::size_t scan_half(const float* base, const float* offset,
                                      const base::BFloat16* mirror, std::size_t first,
                                      std::size_t n, std::int32_t limit, Found found) {
  return offset == nullptr ? scan_plain(base, mirror, first, n, limit, found)
                           : scan_offset(base, offset, mirror, first, n, limit, found);
}

}  // namespace

std::size_t scan(const Difference& difference, std::size_t begin, std::size_t end,
                 std::uint32_t key_min, std::uint32_t* indices, float* values, std::size_t count) {
  const auto limit = static_cast<std::int32_t>(key_min);
  const std::size_t whole = begin + (end - begin) / kRun * kRun;
  Found found{indices, values, count};
  const float* const base = difference.base.data() + begin;
  const float* const offset =
      difference.offset.empty() ? nullptr : difference.offset.data() + begin;
  const std::size_t n = whole - begin;
  const auto floats = difference.mirror.full();
  found.count =
      floats.empty()
          ? scan_half(base, offset, difference.mirror.half().data() + begin, begin, n, limit, found)
          : scan_full(base, offset, floats.data() + begin, begin, n, limit, found);
  if (whole < end) {
    Run run{};  // zeros are never chosen
    difference.fill(whole, std::span(run).first(end - whole));
    append(run, static_cast<std::uint32_t>(whole), hits_of(run, limit), found);
  }
  return found.count;
}

std::size_t scan_and_hold_back(const HoldBack& hold, const MirrorView& mirror, std::size_t begin,
                               std::size_t end, std::uint32_t key_min, std::uint32_t* indices,
                               float* values, std::size_t count) {
  const auto limit = static_cast<std::int32_t>(key_min);
  const Found found{indices, values, count};
  const auto floats = mirror.full();
  return floats.empty() ? scan_held_half(hold, mirror.half().data(), begin, end, limit, found)
                        : scan_held_full(hold, floats.data(), begin, end, limit, found);
}

}  // namespace starling::delta
