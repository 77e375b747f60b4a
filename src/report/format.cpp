#include "report/format.hpp"

#include <array>
#include <cmath>

#include <fmt/core.h>

namespace starling::report {

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 of a unit would round to four digits: it is 1.00 of the next.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string format_count(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

std::string format_percent(double fraction, int decimals) {
  if (!std::isfinite(fraction)) return "-";
  return fmt::format("{:.{}f}%", fraction * 100, decimals);
}

std::string format_duration(double seconds) {
  // The upper bound, a thousand years, keeps the following within the range of integers.
  if (!(seconds >= 0 && seconds < 3.2e10)) return "-";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const std::uint64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace starling::report
