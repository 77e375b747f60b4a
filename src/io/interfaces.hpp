// At which addresses others can reach this machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace starling::io {

/// What to tell others for a listener bound to `bound` ("ip:port"): that address, or, where it is
/// 0.0.0.0, the port at every IPv4 address of this machine that is not loopback, at most `max`.
/// None where there is no such address now.
[[nodiscard]] std::vector<std::string> external_addresses(const std::string& bound,
                                                          std::size_t max);

/// The same, but the port at 127.0.0.1 where there is none.
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound,
                                                           std::size_t max);

}  // namespace starling::io
