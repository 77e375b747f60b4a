// Decides whether a link may go over UCX, and over which network interface. Pure.
//
// UCX's data ports obey anybody who reaches them (guard.hpp), so a link goes there only if
// everybody who shares an address with a member may be trusted, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/ip.hpp"
#include "io/ucx/versions.hpp"

namespace starling::io::ucx {

/// One address of a network interface of this machine that is up.
struct InterfaceAddress {
  std::string device;
  base::Ip address;
  unsigned prefix = 0;  ///< bits that all addresses of its subnet have in common
};

/// The interface through which `here` and `there`, the two ends of a connection, are on one private
/// subnet (10/8, 172.16/12, 192.168/16, fc00::/7), if they are; `here` is the interface's own
/// address.
[[nodiscard]] std::optional<InterfaceAddress> shared_private_subnet(
    std::span<const InterfaceAddress> interfaces, const base::Ip& here, const base::Ip& there);

/// One end's account of itself.
struct FabricEnd {
  std::string fabric;     ///< links.fabric of its run file
  Version version{};      ///< of its UCX; not compared while it is 0.0.0: not loaded yet
  std::string why_not{};  ///< why it cannot use UCX, if so: no UCX, a host name that is too long
};

/// The facts about a link that is up.
struct FabricFacts {
  FabricEnd here;
  FabricEnd there;
  bool encrypted = true;      ///< security.mode is not "off"
  bool closed_swarm = false;  ///< there is a secret, which both ends have proved
  bool same_machine = false;  ///< and the same user: proved (machine_proof.hpp)
  bool same_subnet = false;   ///< shared_private_subnet()
};

enum class FabricKind : std::uint8_t {
  none,
  machine,  ///< loopback
  subnet,   ///< the interface of the subnet that both share
  named,    ///< the interface of the link's connection, as both run files say
};

struct FabricChoice {
  FabricKind kind = FabricKind::none;
  std::string why_not{};  ///< if none: why, in words, for `starling links`
};

/// Both ends make the same decision from the same facts, with `here` and `there` swapped.
[[nodiscard]] FabricChoice choose_fabric(const FabricFacts& facts);

}  // namespace starling::io::ucx
