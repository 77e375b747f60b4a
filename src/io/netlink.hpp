// The machine's network interfaces and their addresses, from the kernel (rtnetlink(7)):
// getifaddrs() leaves out the facts that show which of them are useful to others. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ip.hpp"

namespace starling::io {

struct NetLink {
  std::uint32_t index = 0;
  std::uint32_t master = 0;  ///< index of the bridge or bond to which it belongs; 0: none
  std::string name;
  std::string kind;  ///< "bridge", "veth", "tun", ...; empty: a card, or loopback
  bool is_running = false;
  bool is_loopback = false;
};

struct NetAddress {
  base::Ip address;
  std::uint32_t link = 0;
  bool is_temporary = false;   ///< IPv6: drawn at random for a day (RFC 8981)
  bool is_deprecated = false;  ///< IPv6: no longer for new connections
};

/// All links; none if the kernel does not answer.
[[nodiscard]] std::vector<NetLink> net_links();
/// All addresses, except those that duplicate another machine's.
[[nodiscard]] std::vector<NetAddress> net_addresses();

}  // namespace starling::io
