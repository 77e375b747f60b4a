#include "base/port_range.hpp"

#include "base/parse_number.hpp"

namespace starling::base {
namespace {

constexpr unsigned kPortMin = 1024;  // lower ports belong to the system
constexpr unsigned kPortMax = 65535;

}  // namespace

Result<PortRange> parse_port_range(std::string_view text, unsigned count) {
  if (text.empty()) return PortRange{};
  const std::size_t dash = text.find('-');
  const auto first = parse_number<unsigned>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : parse_number<unsigned>(text.substr(dash + 1));
  if (dash == std::string_view::npos || !first || !last) {
    return fail(ErrorCode::run_file,
                "\"{}\" is not a range of ports: write two numbers, as in \"47000-47015\"", text);
  }
  if (*first < kPortMin || *last > kPortMax || *last < *first) {
    return fail(ErrorCode::run_file,
                "\"{}\" is not a range of ports: the first must be {} or more, the last {} or "
                "less and not below the first",
                text, kPortMin, kPortMax);
  }
  if (*last - *first + 1 < count) {
    return fail(ErrorCode::run_file, "\"{}\" is too small: it must have {} ports or more", text,
                count);
  }
  return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

}  // namespace starling::base
