// This machine's route to the internet, as the kernel would choose it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.hpp"

namespace starling::io::router {

struct Route {
  base::Ip own;      ///< the source address of packets
  base::Ip gateway;  ///< the router
  std::uint32_t interface = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Nothing if there is no router of this family. Sends nothing on the network, opens no file.
[[nodiscard]] std::optional<Route> route_to_internet(bool v4);

}  // namespace starling::io::router
