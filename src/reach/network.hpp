// Addresses as text, "host:port" with IPv6 in brackets, as far as reach must understand them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/messages.hpp"

namespace starling::reach {

/// Without brackets; nothing if there is no host or no port from 1 to 65535.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] std::optional<HostPort> host_port(std::string_view address);

/// Addresses of one network count as one place on the internet: the first 16 bits of an IPv4
/// address, 32 of an IPv6 one; a name is its own network. Empty for text that is not an address.
/// IPv4 in IPv6 is IPv4.
[[nodiscard]] std::string network_of(std::string_view address);

/// Where to dial a member at the same moment as it dials: the address at which another member sees
/// it, and at that host the port that it listens on, which a router may have kept. Of a member that
/// can be dialed, its record's first address comes before them.
[[nodiscard]] std::vector<std::string> meeting_places(const wire::MemberRecord& record,
                                                      const std::string& observed);

}  // namespace starling::reach
