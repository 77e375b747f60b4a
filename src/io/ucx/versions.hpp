// Which releases of UCX can talk to each other, and which may use IPv6.
#pragma once

#include <compare>
#include <string>

#include <fmt/core.h>

namespace starling::io::ucx {

struct Version {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;

  friend auto operator<=>(const Version&, const Version&) = default;
};

[[nodiscard]] inline std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.release);
}

/// Releases from here on keep their wire format; earlier ones refuse all others.
inline constexpr Version kSettledFrom{1, 15, 0};

/// Whether two ends can link (tried: 1.13 refuses 1.14 to 1.18; 1.15, 1.16 and 1.18 do link).
[[nodiscard]] constexpr bool compatible(const Version& a, const Version& b) noexcept {
  if (a.major == b.major && a.minor == b.minor) return true;
  return a >= kSettledFrom && b >= kSettledFrom;
}

/// The first release that ran clean under valgrind over IPv6. 1.13 writes beyond its heap blocks.
inline constexpr Version kIpv6From{1, 22, 0};

[[nodiscard]] constexpr bool takes_ipv6(const Version& version) noexcept {
  return version >= kIpv6From;
}

}  // namespace starling::io::ucx
