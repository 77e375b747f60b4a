// A process of its own that keeps a port mapped on the router: what a hostile network says is read
// here, and not by the peer. It is started by io::PortMapping, and says on its standard output what
// has come of it (router/line.hpp).
#pragma once

#include <string>

namespace starling::io::router {

/// Until standard input ends, or a SIGTERM comes: then the mapping is removed. `listen`: the
/// numeric "ip:port" that the peer listens on. Returns the process' exit code; 2: `listen` is none.
[[nodiscard]] int map_port(const std::string& listen);

}  // namespace starling::io::router
