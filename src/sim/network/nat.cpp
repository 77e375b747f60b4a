#include "sim/network/nat.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace starling::sim {
namespace {

constexpr std::uint32_t kHome = 0xC0A8'0102;     // 192.168.1.2 and up, the same in every home
constexpr std::uint32_t kCarrier = 0x6440'0001;  // 100.64.0.1 and up (RFC 6598)
constexpr std::uint32_t kPublic =
    0x0B4D'0001;  // 11.77.0.1 and up: no such host answers to a private network
constexpr std::uint16_t kEphemeralFirst = 32768;
constexpr std::uint16_t kEphemeralCount = 28000;
constexpr std::uint16_t kPortFirst = 1024;

}  // namespace

Nat::Nat(const Plan& plan, std::uint64_t seed) : rng_(seed) {
  for (const PlannedPeer& peer : plan.peers) place(peer);
  for (const PlannedPeer& peer : plan.peers) {
    if (peer.nat && peer.nat->pcp) open_ports(peer.number);
  }
}

base::Ip Nat::fresh_host(bool v6) {
  if (!v6) return base::Ip::v4(kPublic + hosts_++);
  ++hosts_;
  return base::Ip::parse(fmt::format("2001:db8::{:x}:{:x}", hosts_ >> 16, hosts_ & 0xffff)).value();
}

std::uint32_t Nat::add_router(const NatSettings& settings, std::optional<std::uint32_t> upstream) {
  const auto number = static_cast<std::uint32_t>(routers_.size());
  Router& router = routers_.emplace_back();
  router.maps = settings.kind != NatKind::firewall;
  router.strict = settings.kind == NatKind::strict;
  router.upstream = upstream;
  if (router.maps) {
    router.outer = upstream ? base::Ip::v4(kCarrier + number) : fresh_host(false);
    router_at_[router.outer] = number;
  }
  return number;
}

void Nat::place(const PlannedPeer& peer) {
  const NatSettings settings = peer.nat.value_or(NatSettings{});
  Site& site = sites_.emplace_back();
  site.number = peer.router;
  std::vector<std::uint32_t>& behind = peers_behind_[peer.router];
  if (settings.mapping > 0) site.forgets = base::from_seconds(settings.mapping);
  std::vector<std::uint32_t>& routers = shared_[peer.router];
  if (behind.empty() && settings.kind != NatKind::open) {
    std::optional<std::uint32_t> upstream;
    if (settings.kind == NatKind::cgnat) upstream = add_router(settings, std::nullopt);
    routers.push_back(add_router(settings, upstream));
    if (upstream) routers.push_back(*upstream);
  }
  site.routers = routers;
  const bool at_home = !routers.empty() && routers_[routers.front()].maps;
  if (settings.ipv6 != Ipv6::only) {
    const auto place_at_home = static_cast<std::uint32_t>(behind.size());
    site.hosts.push_back(at_home ? base::Ip::v4(kHome + place_at_home) : fresh_host(false));
    if (!at_home) peer_at_[site.hosts.back()] = peer.number;
  }
  if (settings.ipv6 != Ipv6::none) {
    site.hosts.push_back(fresh_host(true));
    peer_at_[site.hosts.back()] = peer.number;
  }
  behind.push_back(peer.number);
}

// The router nearest to the peer lets in connections for it. Two peers of one router get two ports.
void Nat::open_ports(std::uint32_t peer) {
  const Site& site = sites_[peer];
  if (site.routers.empty()) return;
  Router& router = routers_[site.routers.front()];
  for (const base::Ip& host : site.hosts) {
    const base::IpPort inner{host, kListeningPort};
    if (!translates(router, host)) {
      router.open.insert(inner);
      continue;
    }
    std::uint16_t port = kListeningPort;
    while (router.mapped.contains(port)) ++port;
    router.mapped[port] = inner;
    router.ports[inner] = port;
  }
}

bool Nat::translates(const Router& router, const base::Ip& host) {
  return router.maps && !host.is_v6();
}

const base::Ip* Nat::host_of(std::uint32_t peer, bool v6) const {
  const auto& hosts = sites_[peer].hosts;
  const auto found = std::ranges::find(hosts, v6, &base::Ip::is_v6);
  return found == hosts.end() ? nullptr : &*found;
}

// The peer with this address, among those that can be reached without passing a router.
std::optional<std::uint32_t> Nat::beside(std::uint32_t peer, const base::Ip& host) const {
  for (const std::uint32_t other : neighbours(peer)) {
    if (std::ranges::find(sites_[other].hosts, host) != sites_[other].hosts.end()) return other;
  }
  return std::nullopt;
}

std::optional<Nat::Passage> Nat::dial(std::uint32_t from, const base::IpPort& to, bool punches,
                                      base::Time now) {
  const base::Ip* const host = host_of(from, to.ip.is_v6());
  if (host == nullptr) return std::nullopt;
  base::IpPort source{*host, kListeningPort};
  if (!punches) {
    source.port = static_cast<std::uint16_t>(kEphemeralFirst + ephemeral_);
    ephemeral_ = static_cast<std::uint16_t>((ephemeral_ + 1) % kEphemeralCount);
  }
  if (const auto there = beside(from, to.ip)) {
    if (to.port != kListeningPort) return std::nullopt;
    return Passage{*there, source, true};
  }
  for (const std::uint32_t number : sites_[from].routers) {
    Router& router = routers_[number];
    if (router.maps && router.outer == to.ip) return std::nullopt;
    source = pass_out(router, source, to, punches, now);
  }
  if (to.ip.is_private() || to.ip.is_shared()) return std::nullopt;
  const auto there = arrive(source, to, now);
  if (!there) return std::nullopt;
  return Passage{*there, source, false};
}

// The source that is seen beyond the router. Only a dial from the listening port leaves a hole: no
// peer waits for others at any other port.
base::IpPort Nat::pass_out(Router& router, const base::IpPort& inner, const base::IpPort& to,
                           bool punches, base::Time now) {
  const bool maps = translates(router, inner.ip);
  if (!punches) {
    if (!maps) return inner;
    return {router.outer, router.strict ? draw_port(router) : inner.port};
  }
  const auto found = router.holes.find({inner, to});
  const bool known = found != router.holes.end() && found->second.until > now;
  std::uint16_t port = inner.port;
  if (known) {
    port = found->second.port;
  } else if (maps) {
    port = router.strict ? draw_port(router) : keep_port(router, inner);
  }
  std::erase_if(router.holes, [&](const auto& hole) { return hole.second.until <= now; });
  router.holes[{inner, to}] = {port, now + kHoleLasts};
  return {maps ? router.outer : inner.ip, port};
}

std::uint16_t Nat::draw_port(const Router& router) {
  while (true) {
    const auto port = static_cast<std::uint16_t>(kPortFirst + rng_.below(65536 - kPortFirst));
    const auto taken = [&](const auto& hole) { return hole.second.port == port; };
    if (!router.mapped.contains(port) && std::ranges::none_of(router.holes, taken)) return port;
  }
}

std::uint16_t Nat::keep_port(Router& router, const base::IpPort& inner) {
  const auto known = router.ports.find(inner);
  if (known != router.ports.end()) return known->second;
  std::uint16_t port = inner.port;
  const auto taken = [&](const auto& entry) { return entry.second == port; };
  while (std::ranges::any_of(router.ports, taken)) ++port;
  router.ports[inner] = port;
  return port;
}

// The inner end to which the router forwards it.
std::optional<base::IpPort> Nat::pass_in(const Router& router, const base::IpPort& from,
                                         const base::IpPort& to, base::Time now) {
  const bool maps = translates(router, to.ip);
  if (maps) {
    const auto mapped = router.mapped.find(to.port);
    if (mapped != router.mapped.end()) return mapped->second;
  } else if (router.open.contains(to)) {
    return to;
  }
  for (const auto& [ends, hole] : router.holes) {
    const auto& [inner, dialed] = ends;
    const bool is_it = maps ? !inner.ip.is_v6() && hole.port == to.port : inner == to;
    if (is_it && dialed == from && hole.until > now) return inner;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Nat::arrive(const base::IpPort& from, base::IpPort to,
                                         base::Time now) const {
  const auto peer = peer_at_.find(to.ip);
  if (peer != peer_at_.end()) {
    const auto lets_in = [&](std::uint32_t router) {
      return pass_in(routers_[router], from, to, now).has_value();
    };
    const bool heard =
        to.port == kListeningPort && std::ranges::all_of(sites_[peer->second].routers, lets_in);
    return heard ? std::optional(peer->second) : std::nullopt;
  }
  for (auto at = router_at_.find(to.ip); at != router_at_.end(); at = router_at_.find(to.ip)) {
    const auto inner = pass_in(routers_[at->second], from, to, now);
    if (!inner) return std::nullopt;
    to = *inner;
    for (const auto& [number, peers] : peers_behind_) {
      const auto& routers = shared_.at(number);
      if (routers.empty() || routers.front() != at->second) continue;
      for (const std::uint32_t behind : peers) {
        const base::Ip* const host = host_of(behind, false);
        if (host != nullptr && *host == to.ip) return behind;
      }
    }
  }
  return std::nullopt;
}

std::vector<base::IpPort> Nat::own(std::uint32_t peer) const {
  const Site& site = sites_[peer];
  std::vector<base::IpPort> ends;
  for (const base::Ip& host : site.hosts) ends.push_back({host, kListeningPort});
  if (site.routers.empty()) return ends;
  const Router& router = routers_[site.routers.front()];
  for (const auto& [port, inner] : router.mapped) {
    if (beside(peer, inner.ip) == peer) ends.push_back({router.outer, port});
  }
  return ends;
}

std::vector<base::IpPort> Nat::outer(std::uint32_t peer) const {
  const Site& site = sites_[peer];
  std::vector<base::IpPort> ends;
  for (const base::Ip& host : site.hosts) {
    base::IpPort end{host, kListeningPort};
    for (const std::uint32_t number : site.routers) {
      const Router& router = routers_[number];
      if (!translates(router, host)) continue;
      const auto port = router.ports.find(end);
      end = {router.outer, port == router.ports.end() ? end.port : port->second};
    }
    ends.push_back(end);
  }
  return ends;
}

const std::vector<std::uint32_t>& Nat::neighbours(std::uint32_t peer) const {
  return peers_behind_.at(sites_[peer].number);
}

bool Nat::is_mapped(std::uint32_t peer) const {
  const auto& routers = sites_[peer].routers;
  return !routers.empty() && routers_[routers.back()].maps;
}

std::optional<base::Duration> Nat::forgets_after(std::uint32_t peer) const {
  return sites_[peer].forgets;
}

void Nat::forget(Router& router, const std::vector<base::Ip>& hosts) {
  const auto of_it = [&](const base::Ip& host) {
    return std::ranges::find(hosts, host) != hosts.end();
  };
  std::erase_if(router.holes, [&](const auto& hole) { return of_it(hole.first.first.ip); });
  std::erase_if(router.ports, [&](const auto& port) {
    return of_it(port.first.ip) && !router.mapped.contains(port.second);
  });
}

void Nat::lose_mappings(std::uint32_t peer) {
  std::vector<base::Ip> hosts = sites_[peer].hosts;
  for (const std::uint32_t number : sites_[peer].routers) {
    forget(routers_[number], hosts);
    if (routers_[number].maps) hosts.push_back(routers_[number].outer);
  }
}

void Nat::restart(std::uint32_t peer) {
  for (const std::uint32_t other : neighbours(peer)) lose_mappings(other);
}

void Nat::change_address(std::uint32_t peer) {
  Site& site = sites_[peer];
  lose_mappings(peer);
  if (is_mapped(peer)) {
    Router& router = routers_[site.routers.back()];
    router_at_.erase(router.outer);
    router.outer = fresh_host(false);
    router_at_[router.outer] = site.routers.back();
    restart(peer);
    return;
  }
  for (base::Ip& host : site.hosts) {
    peer_at_.erase(host);
    const base::IpPort before{host, kListeningPort};
    host = fresh_host(host.is_v6());
    peer_at_[host] = peer;
    for (const std::uint32_t number : site.routers) {
      Router& router = routers_[number];
      if (router.open.erase(before) > 0) router.open.insert({host, kListeningPort});
    }
  }
}

}  // namespace starling::sim
