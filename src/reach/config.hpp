// A run file's settings for relays.
#pragma once

#include <cstdint>

namespace starling::reach {

struct Config {
  std::uint32_t circuits = 8;  ///< relay.circuits: relayed by this peer at once; 0: none
  double limit = 1;            ///< relay.limit: Mbit/s of all of them together; 0: none at all

  friend bool operator==(const Config&, const Config&) = default;
};

/// The defaults of a dedicated relay.
inline constexpr Config kRelayConfig{.circuits = 256, .limit = 100};

}  // namespace starling::reach
