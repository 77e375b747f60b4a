// A separate process that keeps a port mapped on the router: it reads a hostile network's bytes, so
// that the peer does not. io::PortMapping starts it, and it reports on its standard output
// (router/line.hpp).
#pragma once

#include <string>

namespace starling::io::router {

/// Runs until standard input ends or a SIGTERM comes; then it removes the mapping. `listen`: the
/// numeric "ip:port" that the peer listens on. Returns the process's exit code; 2: `listen` is
/// invalid.
[[nodiscard]] int map_port(const std::string& listen);

}  // namespace starling::io::router
