#include "base/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace starling::base {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // from the first i of `a` to the first j of `b`
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> above(row.size());
  std::vector<std::size_t> next(row.size());
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({changed, row[j] + 1, next[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], above[j - 2] + 1);
    }
    above.swap(row);
    row.swap(next);
  }
  return row.back();
}

std::string suggestion(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr std::size_t kCompareMax = 64;
  std::string_view best;
  std::size_t best_distance = 1 + std::max<std::size_t>(2, wrong.size() / 3);
  if (wrong.size() <= kCompareMax) {
    for (const std::string_view name : names) {
      // A name without its ending ("latency") means the first name that begins with it
      // ("latency_ms").
      const bool begins = wrong.size() > 2 && name.starts_with(wrong);
      const std::size_t distance = begins ? 1 : edit_distance(wrong, name);
      if (distance < best_distance && distance < name.size()) {
        best = name;
        best_distance = distance;
      }
    }
  }
  if (!best.empty()) return fmt::format("; did you mean '{}'?", best);
  if (names.empty()) return {};
  return fmt::format("; there are: {}", fmt::join(names, ", "));
}

}  // namespace starling::base
