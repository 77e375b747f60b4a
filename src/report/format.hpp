// Numbers for people. Pure; decimal point and units do not depend on the locale.
#pragma once

#include <cstdint>
#include <string>

namespace starling::report {

/// "512 B", "1.23 kB", "45.6 MB": three digits, decimal units.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// With separators: "1,234,567".
[[nodiscard]] std::string format_count(std::uint64_t count);

/// A fraction as a percentage, "87.5%"; "-" if it is not finite.
[[nodiscard]] std::string format_percent(double fraction, int decimals = 1);

/// A duration in seconds: "4.2 s", "2 min 03 s", "1 h 02 min"; "-" if it is not finite or negative.
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace starling::report
