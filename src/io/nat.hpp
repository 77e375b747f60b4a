// What a router makes of this machine's connections, judged by how others see these. Pure. The
// kinds are those of scenarios: see "address and port mapping" in RFC 4787, 4.1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ip.hpp"

namespace starling::io {

/// A connection that this machine made.
struct Sighting {
  base::IpPort own;       ///< this end
  base::IpPort peer;      ///< the other end
  base::IpPort observed;  ///< this end as the other one sees it
};

enum class NatKind : std::uint8_t {
  none,      ///< nothing translates
  unknown,   ///< something does; no two sightings tell more
  moderate,  ///< one outer port for all destinations
  strict,    ///< another outer port, or address, for each destination
};

/// Of one family of addresses.
struct Nat {
  NatKind kind = NatKind::none;
  Sighting seen;                    ///< has the outer address
  std::optional<Sighting> another;  ///< of the same own port: agrees (moderate), or not (strict)
};

/// Of each family that a machine other than this one has seen, IPv4 first. Sightings are compared
/// where the connections left from one own port.
[[nodiscard]] std::vector<Nat> judge_nat(std::span<const Sighting> sightings);

/// Whether behind the router that maps a port as `mapped` another one translates: this is no
/// address of the internet, or not the one that others see.
[[nodiscard]] bool is_behind_another(const base::IpPort& mapped, std::span<const Nat> nats);

}  // namespace starling::io
