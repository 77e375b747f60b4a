// How a peer uses fabrics: what its run file says.
#pragma once

#include <string>

#include "io/ucx/ports.hpp"

namespace starling::io {

struct FabricConfig {
  std::string fabric = "auto";  ///< links.fabric: "auto", "none" or a name
  ucx::PortRange ports{};       ///< links.fabric_ports
};

}  // namespace starling::io
