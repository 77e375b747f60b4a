// How a router changes this machine's connections, judged by how others see them. Pure. The kinds
// are those of scenarios: see "address and port mapping" in RFC 4787, 4.1.
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
  unknown,   ///< something translates; no two sightings tell more
  moderate,  ///< one outer port for all destinations
  strict,    ///< another outer port, or address, for each destination
};

/// The result for one family of addresses.
struct Nat {
  NatKind kind = NatKind::none;
  Sighting seen;                    ///< has the outer address
  std::optional<Sighting> another;  ///< from the same own port: agrees (moderate) or not (strict)
};

/// For each family that another machine has seen, IPv4 first. Sightings are compared if their
/// connections left from the same port.
[[nodiscard]] std::vector<Nat> judge_nat(std::span<const Sighting> sightings);

/// Whether another router beyond the one that maps a port as `mapped` translates, too: `mapped` is
/// not an internet address, or not the one that others see.
[[nodiscard]] bool is_behind_another(const base::IpPort& mapped, std::span<const Nat> nats);

}  // namespace starling::io
