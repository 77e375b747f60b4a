// The addresses of this machine's network interfaces, with their subnets.
#pragma once

#include <vector>

#include "io/ucx/fabric_choice.hpp"

namespace starling::io::ucx {

/// The current addresses of interfaces that are up. Empty if the system does not tell.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

}  // namespace starling::io::ucx
