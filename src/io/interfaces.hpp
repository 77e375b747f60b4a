// At which addresses others can reach this machine, the most useful ones first.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip.hpp"
#include "io/netlink.hpp"

namespace starling::io {

/// An address of this machine, and what is known of it.
struct OwnAddress {
  base::Ip address;
  std::string interface;
  bool is_route = false;  ///< what the machine sends to the rest of the world comes from it
  /// Of a bridge to this machine's own containers and virtual machines: nobody else reaches it, and
  /// many machines have the very same (docker's 172.17.0.1, libvirt's 192.168.122.1).
  bool is_inner = false;
  bool is_temporary = false;
  bool is_deprecated = false;

  friend bool operator==(const OwnAddress&, const OwnAddress&) = default;
};

/// Those of interfaces that are up, loopback aside.
[[nodiscard]] std::vector<OwnAddress> own_addresses();

/// Whether a link is a bridge that no card is a port of.
[[nodiscard]] bool is_inner_bridge(const NetLink& link, std::span<const NetLink> all);

/// The own address from which this machine would send to `to`; nothing: it has no way there. No
/// packet is sent.
[[nodiscard]] std::optional<base::Ip> source_to(const base::Ip& to);

/// What is known of a peer's addresses beside the interfaces of its machine.
struct KnownOfSelf {
  std::vector<std::string> announced{};  ///< "host:port" that a person gave
  std::vector<std::string> outer{};      ///< at which others see it, and that a router maps
  std::vector<base::Ip> used{};          ///< own ones over which somebody came
};

/// What to tell others for a listener bound to `bound`, at most `max`, each once: what a person
/// gave, what is seen from outside, and then where it listens. At all addresses of this machine
/// these are, by use: those it sends from to the rest of the world (global ones before private
/// ones), other global ones, private ones, link-local ones of IPv4, and bridges over which somebody
/// came. Temporary addresses make way for lasting ones; deprecated and link-local IPv6 ones are
/// nothing for others.
[[nodiscard]] std::vector<std::string> told_addresses(const base::IpPort& bound,
                                                      const KnownOfSelf& known,
                                                      std::span<const OwnAddress> own,
                                                      std::size_t max);

/// The same for this machine as it is now. None where there is no network.
[[nodiscard]] std::vector<std::string> external_addresses(const base::IpPort& bound,
                                                          const KnownOfSelf& known,
                                                          std::size_t max);

/// The same, but the port at the loopback address where there is none.
[[nodiscard]] std::vector<std::string> reachable_addresses(const base::IpPort& bound,
                                                           const KnownOfSelf& known,
                                                           std::size_t max);

}  // namespace starling::io
