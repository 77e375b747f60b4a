// This machine's way to the internet, as the kernel would take it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.hpp"

namespace starling::io::router {

struct Route {
  base::Ip own;      ///< the address that packets are sent from
  base::Ip gateway;  ///< the router
  std::uint32_t interface = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Nothing where there is no router of this family. Sends nothing on the network, opens no file.
[[nodiscard]] std::optional<Route> route_to_internet(bool v4);

}  // namespace starling::io::router
