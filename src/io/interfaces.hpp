// At which addresses others can reach this machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace starling::io {

/// What to tell others for a listener bound to `bound` ("ip:port"): that address, or, where it is
/// 0.0.0.0, the port at every IPv4 address of this machine that is not loopback, at most `max`;
/// 127.0.0.1 where there is no other.
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound,
                                                           std::size_t max);

}  // namespace starling::io
