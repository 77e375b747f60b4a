// A range of ports, "LO-HI" as people write it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace starling::base {

/// From first to last; both 0: any.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  [[nodiscard]] bool any() const noexcept { return first == 0; }
  [[nodiscard]] bool has(std::uint16_t port) const noexcept {
    return any() || (first <= port && port <= last);
  }
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// "LO-HI", both from 1024 on, with at least `count` ports, or "": any. The error (run_file)
/// follows the name of a key.
[[nodiscard]] Result<PortRange> parse_port_range(std::string_view text, unsigned count);

}  // namespace starling::base
