// The addresses at which others can reach this machine, the most useful ones first.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip.hpp"
#include "io/netlink.hpp"

namespace starling::io {

/// An address of this machine, with its properties.
struct OwnAddress {
  base::Ip address;
  std::string interface;
  bool is_route = false;  ///< source address of packets to the internet
  /// Of a bridge to this machine's own containers and virtual machines: nothing else reaches it,
  /// and many machines have the same address (docker's 172.17.0.1, libvirt's 192.168.122.1).
  bool is_inner = false;
  bool is_temporary = false;
  bool is_deprecated = false;

  friend bool operator==(const OwnAddress&, const OwnAddress&) = default;
};

/// The addresses of interfaces that are up, except loopback.
[[nodiscard]] std::vector<OwnAddress> own_addresses();

/// Whether a link is a bridge without a network card among its ports.
[[nodiscard]] bool is_inner_bridge(const NetLink& link, std::span<const NetLink> all);

/// The address from which this machine would send to `to`; nothing: it has no route there. No
/// packet is sent.
[[nodiscard]] std::optional<base::Ip> source_to(const base::Ip& to);

/// A peer's addresses that do not come from its machine's interfaces.
struct KnownOfSelf {
  std::vector<std::string> announced{};  ///< "host:port" that a person gave
  std::vector<std::string> outer{};      ///< those that others see, or that a router maps
  std::vector<base::Ip> used{};          ///< own addresses over which peers came
};

/// The addresses to tell others for a listener bound to `bound`, at most `max`, without repeats:
/// those that a person gave, those seen from outside, and then those where it listens. If it
/// listens at all addresses of this machine, these are, by usefulness: source addresses of packets
/// to the internet (global ones before private ones), other global ones, private ones, link-local
/// IPv4 ones, and bridges over which peers came. Temporary addresses give way to lasting ones;
/// deprecated and link-local IPv6 addresses are left out.
[[nodiscard]] std::vector<std::string> told_addresses(const base::IpPort& bound,
                                                      const KnownOfSelf& known,
                                                      std::span<const OwnAddress> own,
                                                      std::size_t max);

/// The same for this machine as it is now. Empty if there is no network.
[[nodiscard]] std::vector<std::string> external_addresses(const base::IpPort& bound,
                                                          const KnownOfSelf& known,
                                                          std::size_t max);

/// The same, but the loopback address if there would be none.
[[nodiscard]] std::vector<std::string> reachable_addresses(const base::IpPort& bound,
                                                           const KnownOfSelf& known,
                                                           std::size_t max);

}  // namespace starling::io
