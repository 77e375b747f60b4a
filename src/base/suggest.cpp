#include "base/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace starling::base {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string suggestion(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr std::size_t kCompareMax = 64;
  std::string_view best;
  std::size_t best_distance = 1 + std::max<std::size_t>(2, wrong.size() / 3);
  if (wrong.size() <= kCompareMax) {
    for (const std::string_view name : names) {
      // Whoever left an ending out ("latency") means the first name that goes on ("latency_ms").
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
