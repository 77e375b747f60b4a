// The reports of the process that maps a port to the peer that started it: a line of text for each
// change.
//
//   mapped PROTOCOL ADDRESS SECONDS    others reach the port there, for so long unless it is
//   renewed none FAMILY WHY                    of this family it is not mapped; it is tried again
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace starling::io::router {

enum class Protocol : std::uint8_t { pcp, nat_pmp, upnp };
/// "PCP", "NAT-PMP", "UPnP": for people.
[[nodiscard]] const char* to_string(Protocol protocol) noexcept;

/// Bytes, without the line's end.
inline constexpr std::size_t kLineMax = 320;
/// Bytes of WHY.
inline constexpr std::size_t kWhyMax = 240;
/// Shorter and longer lifetimes are not believed.
inline constexpr base::Duration kLifetimeMin = std::chrono::seconds(30);
inline constexpr base::Duration kLifetimeMax = std::chrono::hours(24 * 7);

struct Mapping {
  Protocol protocol = Protocol::pcp;
  base::IpPort outer;
  base::Duration lifetime{};

  friend bool operator==(const Mapping&, const Mapping&) = default;
};

struct Unmapped {
  bool v4 = true;
  std::string why;

  friend bool operator==(const Unmapped&, const Unmapped&) = default;
};

using Line = std::variant<Mapping, Unmapped>;

/// Without a line's end.
[[nodiscard]] std::string write_line(const Line& line);
/// Errors (protocol) say what is wrong. The returned text is safe to show.
[[nodiscard]] base::Result<Line> read_line(std::string_view text);

}  // namespace starling::io::router
