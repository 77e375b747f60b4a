// The swarm settings of a run file and the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace starling::membership {

struct Config {
  std::uint32_t degree = 4;  ///< neighbours that a peer seeks
  /// Name of the one peer that all others are linked with, and with nobody else: a star, to compare
  /// with. Empty: any with any.
  std::string hub;
  std::vector<std::string> join;  ///< addresses "host:port" of peers to find the swarm by
  base::Duration heartbeat = std::chrono::seconds(1);
  /// Links to open before the first step, and how long to wait for them at most. A peer that knows
  /// of others waits for one at least (peer::Core).
  std::uint32_t wait_for = 0;
  base::Duration wait_timeout = std::chrono::seconds(10);

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace starling::membership
