#include "io/interfaces.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <sys/socket.h>

#include "base/descriptor.hpp"
#include "io/raw_address.hpp"

namespace starling::io {
namespace {

/// Ports of a bridge that lead into this machine.
constexpr std::array<std::string_view, 3> kInnerKinds{"veth", "tun", "dummy"};
/// Addresses elsewhere on the internet, one per family: reserved for documentation, so nobody has
/// them.
constexpr std::array kElsewhere{"192.0.2.1", "2001:db8::1"};
constexpr std::uint16_t kDiscardPort = 9;

enum class Use : std::uint8_t { route_global, route, global, local, link_local, inner };

/// Whether a lasting address and a temporary one are on the same network, as far as one can tell.
bool beside(const OwnAddress& a, const OwnAddress& b) {
  return a.interface == b.interface && a.address.is_v4() == b.address.is_v4() &&
         a.address.is_global() == b.address.is_global();
}

bool lasts(const OwnAddress& own) { return !own.is_temporary && !own.is_deprecated; }

bool may_be_told(const OwnAddress& own, const KnownOfSelf& known, std::span<const OwnAddress> all) {
  const base::Ip& address = own.address;
  if (address.is_loopback() || address.is_any() || own.is_deprecated) return false;
  if (!address.is_v4() && address.is_link_local()) return false;
  if (own.is_inner && !own.is_route) {
    return std::ranges::count(known.used, address) > 0;
  }
  return lasts(own) || std::ranges::none_of(all, [&](const OwnAddress& other) {
           return lasts(other) && beside(own, other);
         });
}

Use use_of(const OwnAddress& own, std::span<const OwnAddress> all) {
  // Also true for a lasting address beside the temporary one from which the machine sends.
  const bool route = std::ranges::any_of(
      all, [&](const OwnAddress& other) { return other.is_route && beside(own, other); });
  if (route) return own.address.is_global() ? Use::route_global : Use::route;
  if (own.is_inner) return Use::inner;
  if (own.address.is_global()) return Use::global;
  return own.address.is_link_local() ? Use::link_local : Use::local;
}

std::vector<OwnAddress> by_use(const base::Ip& bound, const KnownOfSelf& known,
                               std::span<const OwnAddress> own) {
  std::vector<OwnAddress> told;
  for (const OwnAddress& one : own) {
    if (bound.is_v4() && !one.address.is_v4()) continue;
    if (may_be_told(one, known, own)) told.push_back(one);
  }
  std::ranges::stable_sort(told, {}, [&](const OwnAddress& one) {
    return std::tuple(use_of(one, own), !one.address.is_v4());
  });
  return told;
}

}  // namespace

bool is_inner_bridge(const NetLink& link, std::span<const NetLink> all) {
  return link.kind == "bridge" && std::ranges::none_of(all, [&](const NetLink& port) {
           return port.master == link.index &&
                  std::ranges::find(kInnerKinds, port.kind) == kInnerKinds.end();
         });
}

std::optional<base::Ip> source_to(const base::Ip& to) {
  const RawAddress there({to, kDiscardPort});
  const base::Descriptor probe(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), there.get(), there.size()) != 0) return std::nullopt;
  const auto own = ip_port_from(
      [&](sockaddr* name, socklen_t* size) { return ::getsockname(probe.get(), name, size); });
  return own ? std::optional(own->ip) : std::nullopt;
}

std::vector<OwnAddress> own_addresses() {
  const std::vector<NetLink> links = net_links();
  std::vector<base::Ip> routes;
  for (const char* there : kElsewhere) {
    const auto source = source_to(base::Ip::parse(there).value());
    if (source) routes.push_back(*source);
  }
  std::vector<OwnAddress> own;
  for (const NetAddress& one : net_addresses()) {
    const auto link = std::ranges::find(links, one.link, &NetLink::index);
    if (link == links.end() || !link->is_running || link->is_loopback) continue;
    own.push_back({.address = one.address,
                   .interface = link->name,
                   .is_route = std::ranges::count(routes, one.address) > 0,
                   .is_inner = is_inner_bridge(*link, links),
                   .is_temporary = one.is_temporary,
                   .is_deprecated = one.is_deprecated});
  }
  return own;
}

std::vector<std::string> told_addresses(const base::IpPort& bound, const KnownOfSelf& known,
                                        std::span<const OwnAddress> own, std::size_t max) {
  std::vector<std::string> told;
  const auto tell = [&](const std::string& address) {
    if (told.size() < max && std::ranges::count(told, address) == 0) told.push_back(address);
  };
  for (const std::string& address : known.announced) tell(address);
  for (const std::string& address : known.outer) tell(address);
  if (!bound.ip.is_any()) {
    tell(to_string(bound));
    return told;
  }
  for (const OwnAddress& one : by_use(bound.ip, known, own)) {
    tell(to_string(base::IpPort{one.address, bound.port}));
  }
  return told;
}

std::vector<std::string> external_addresses(const base::IpPort& bound, const KnownOfSelf& known,
                                            std::size_t max) {
  const std::vector<OwnAddress> own =
      bound.ip.is_any() ? own_addresses() : std::vector<OwnAddress>();
  return told_addresses(bound, known, own, max);
}

std::vector<std::string> reachable_addresses(const base::IpPort& bound, const KnownOfSelf& known,
                                             std::size_t max) {
  std::vector<std::string> addresses = external_addresses(bound, known, max);
  if (addresses.empty()) {
    // A socket for both families has the IPv4 one, which is never missing.
    addresses.push_back(to_string(base::IpPort{base::Ip::loopback(), bound.port}));
  }
  return addresses;
}

}  // namespace starling::io
