// Whether a link may go over UCX, and over which network interface. Pure.
//
// UCX's data ports obey whoever reaches them (guard.hpp), so a link goes there only where whoever
// shares an address with a member may be trusted, too.
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

/// The interface over which `here` and `there`, the two ends of a connection, are on one private
/// subnet, if they are: 10/8, 172.16/12, 192.168/16, fc00::/7, `here` its own address.
[[nodiscard]] std::optional<InterfaceAddress> shared_private_subnet(
    std::span<const InterfaceAddress> interfaces, const base::Ip& here, const base::Ip& there);

/// What one end says of itself.
struct FabricEnd {
  std::string fabric;     ///< links.fabric of its run file
  Version version{};      ///< of its UCX; nothing is compared while it is 0.0.0: not loaded yet
  std::string why_not{};  ///< why it cannot use UCX, if so: none, a host name that is too long
};

/// What is known of a link that is up.
struct FabricFacts {
  FabricEnd here;
  FabricEnd there;
  bool encrypted = true;      ///< security.mode is not "off"
  bool closed_swarm = false;  ///< there is a secret, which both ends have proved to have
  bool same_machine = false;  ///< and the same user: proved (machine_proof.hpp)
  bool same_subnet = false;   ///< shared_private_subnet()
};

enum class FabricKind : std::uint8_t {
  none,
  machine,  ///< loopback
  subnet,   ///< the interface of the subnet that both are on
  named,    ///< the interface that the link came over, by both run files' word
};

struct FabricChoice {
  FabricKind kind = FabricKind::none;
  std::string why_not{};  ///< of none: in words, for `starling links`
};

/// Both ends decide alike from the same facts, `here` and `there` swapped.
[[nodiscard]] FabricChoice choose_fabric(const FabricFacts& facts);

}  // namespace starling::io::ucx
