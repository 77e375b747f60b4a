#include "sim/nat.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace starling::sim {
namespace {

constexpr std::uint32_t kHome = 0xC0A8'0102;     // 192.168.1.2 and up, the same in every home
constexpr std::uint32_t kCarrier = 0x6440'0001;  // 100.64.0.1 and up (RFC 6598)
constexpr std::uint32_t kPublic =
    0x0B4D'0001;  // 11.77.0.1 and up: no such host answers to a private network
constexpr std::uint16_t kEphemeralFirst = 32768;
constexpr std::uint16_t kEphemeralCount = 28000;
constexpr std::uint16_t kPortFirst = 1024;

bool in(std::uint32_t number, std::uint32_t network, int bits) {
  return number >> (32 - bits) == network >> (32 - bits);
}

template <class Number>
bool read_number(std::string_view& text, Number& number, int base, std::string_view end) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  if (!text.starts_with(end)) return false;
  text.remove_prefix(end.size());
  return true;
}

std::optional<Host> read_v6(std::string_view& text) {
  constexpr std::string_view kPrefix = "[2001:db8::";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  std::uint16_t high = 0;
  std::uint16_t low = 0;
  std::string_view two = text;
  if (read_number(two, high, 16, ":") && read_number(two, low, 16, "]:")) {
    text = two;
  } else {
    high = 0;
    if (!read_number(text, low, 16, "]:")) return std::nullopt;
  }
  return Host{true, (std::uint32_t{high} << 16) | low};
}

std::optional<Host> read_v4(std::string_view& text) {
  std::uint32_t number = 0;
  for (const std::string_view end : {".", ".", ".", ":"}) {
    std::uint8_t byte = 0;
    if (!read_number(text, byte, 10, end)) return std::nullopt;
    number = (number << 8) | byte;
  }
  return Host{false, number};
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const std::uint32_t n = endpoint.host.number;
  if (!endpoint.host.v6) {
    return fmt::format("{}.{}.{}.{}:{}", n >> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255,
                       endpoint.port);
  }
  if (n >> 16 == 0) return fmt::format("[2001:db8::{:x}]:{}", n, endpoint.port);
  return fmt::format("[2001:db8::{:x}:{:x}]:{}", n >> 16, n & 0xFFFF, endpoint.port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const auto host = text.starts_with('[') ? read_v6(text) : read_v4(text);
  std::uint16_t port = 0;
  if (!host || !read_number(text, port, 10, "") || !text.empty()) return std::nullopt;
  return Endpoint{*host, port};
}

bool is_private(const Host& host) {
  return !host.v6 && (in(host.number, kHome, 16) || in(host.number, kCarrier, 10));
}

Nat::Nat(const Plan& plan, std::uint64_t seed) : rng_(seed) {
  for (const PlannedPeer& peer : plan.peers) place(peer);
  for (const PlannedPeer& peer : plan.peers) {
    if (peer.nat && peer.nat->pcp) open_ports(peer.number);
  }
}

Host Nat::fresh_host(bool v6) { return {v6, v6 ? ++hosts_ : kPublic + hosts_++}; }

std::uint32_t Nat::add_router(const NatSettings& settings, std::optional<std::uint32_t> upstream) {
  const auto number = static_cast<std::uint32_t>(routers_.size());
  Router& router = routers_.emplace_back();
  router.maps = settings.kind != NatKind::firewall;
  router.strict = settings.kind == NatKind::strict;
  router.upstream = upstream;
  if (router.maps) {
    router.outer = upstream ? Host{false, kCarrier + number} : fresh_host(false);
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
    site.hosts.push_back(at_home ? Host{false, kHome + place_at_home} : fresh_host(false));
    if (!at_home) peer_at_[site.hosts.back()] = peer.number;
  }
  if (settings.ipv6 != Ipv6::none) {
    site.hosts.push_back(fresh_host(true));
    peer_at_[site.hosts.back()] = peer.number;
  }
  behind.push_back(peer.number);
}

// The router nearest to the peer lets in what comes for it. Two of one router get two ports.
void Nat::open_ports(std::uint32_t peer) {
  const Site& site = sites_[peer];
  if (site.routers.empty()) return;
  Router& router = routers_[site.routers.front()];
  for (const Host& host : site.hosts) {
    const Endpoint inner{host, kListeningPort};
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

bool Nat::translates(const Router& router, const Host& host) { return router.maps && !host.v6; }

const Host* Nat::host_of(std::uint32_t peer, bool v6) const {
  const auto& hosts = sites_[peer].hosts;
  const auto found = std::ranges::find(hosts, v6, &Host::v6);
  return found == hosts.end() ? nullptr : &*found;
}

// Whose machine has the address, of those that are reached without passing a router.
std::optional<std::uint32_t> Nat::beside(std::uint32_t peer, const Host& host) const {
  for (const std::uint32_t other : neighbours(peer)) {
    if (std::ranges::find(sites_[other].hosts, host) != sites_[other].hosts.end()) return other;
  }
  return std::nullopt;
}

std::optional<Nat::Passage> Nat::dial(std::uint32_t from, const Endpoint& to, bool punches,
                                      base::Time now) {
  const Host* const host = host_of(from, to.host.v6);
  if (host == nullptr) return std::nullopt;
  Endpoint source{*host, kListeningPort};
  if (!punches) {
    source.port = static_cast<std::uint16_t>(kEphemeralFirst + ephemeral_);
    ephemeral_ = static_cast<std::uint16_t>((ephemeral_ + 1) % kEphemeralCount);
  }
  if (const auto there = beside(from, to.host)) {
    if (to.port != kListeningPort) return std::nullopt;
    return Passage{*there, source, true};
  }
  for (const std::uint32_t number : sites_[from].routers) {
    Router& router = routers_[number];
    if (router.maps && router.outer == to.host) return std::nullopt;
    source = pass_out(router, source, to, punches, now);
  }
  if (is_private(to.host)) return std::nullopt;
  const auto there = arrive(source, to, now);
  if (!there) return std::nullopt;
  return Passage{*there, source, false};
}

// The source that is seen beyond the router. Only a dial from the listening port leaves a hole:
// nobody waits for others at any other port.
Endpoint Nat::pass_out(Router& router, const Endpoint& inner, const Endpoint& to, bool punches,
                       base::Time now) {
  const bool maps = translates(router, inner.host);
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
  return {maps ? router.outer : inner.host, port};
}

std::uint16_t Nat::draw_port(const Router& router) {
  while (true) {
    const auto port = static_cast<std::uint16_t>(kPortFirst + rng_.below(65536 - kPortFirst));
    const auto taken = [&](const auto& hole) { return hole.second.port == port; };
    if (!router.mapped.contains(port) && std::ranges::none_of(router.holes, taken)) return port;
  }
}

std::uint16_t Nat::keep_port(Router& router, const Endpoint& inner) {
  const auto known = router.ports.find(inner);
  if (known != router.ports.end()) return known->second;
  std::uint16_t port = inner.port;
  const auto taken = [&](const auto& entry) { return entry.second == port; };
  while (std::ranges::any_of(router.ports, taken)) ++port;
  router.ports[inner] = port;
  return port;
}

// Where it goes on to behind the router.
std::optional<Endpoint> Nat::pass_in(const Router& router, const Endpoint& from, const Endpoint& to,
                                     base::Time now) {
  const bool maps = translates(router, to.host);
  if (maps) {
    const auto mapped = router.mapped.find(to.port);
    if (mapped != router.mapped.end()) return mapped->second;
  } else if (router.open.contains(to)) {
    return to;
  }
  for (const auto& [ends, hole] : router.holes) {
    const auto& [inner, dialed] = ends;
    const bool is_it = maps ? !inner.host.v6 && hole.port == to.port : inner == to;
    if (is_it && dialed == from && hole.until > now) return inner;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Nat::arrive(const Endpoint& from, Endpoint to, base::Time now) const {
  const auto peer = peer_at_.find(to.host);
  if (peer != peer_at_.end()) {
    const auto lets_in = [&](std::uint32_t router) {
      return pass_in(routers_[router], from, to, now).has_value();
    };
    const bool heard =
        to.port == kListeningPort && std::ranges::all_of(sites_[peer->second].routers, lets_in);
    return heard ? std::optional(peer->second) : std::nullopt;
  }
  for (auto at = router_at_.find(to.host); at != router_at_.end(); at = router_at_.find(to.host)) {
    const auto inner = pass_in(routers_[at->second], from, to, now);
    if (!inner) return std::nullopt;
    to = *inner;
    for (const auto& [number, peers] : peers_behind_) {
      const auto& routers = shared_.at(number);
      if (routers.empty() || routers.front() != at->second) continue;
      for (const std::uint32_t behind : peers) {
        const Host* const host = host_of(behind, false);
        if (host != nullptr && *host == to.host) return behind;
      }
    }
  }
  return std::nullopt;
}

std::vector<Endpoint> Nat::own(std::uint32_t peer) const {
  const Site& site = sites_[peer];
  std::vector<Endpoint> ends;
  for (const Host& host : site.hosts) ends.push_back({host, kListeningPort});
  if (site.routers.empty()) return ends;
  const Router& router = routers_[site.routers.front()];
  for (const auto& [port, inner] : router.mapped) {
    if (beside(peer, inner.host) == peer) ends.push_back({router.outer, port});
  }
  return ends;
}

std::vector<Endpoint> Nat::outer(std::uint32_t peer) const {
  const Site& site = sites_[peer];
  std::vector<Endpoint> ends;
  for (const Host& host : site.hosts) {
    Endpoint end{host, kListeningPort};
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

void Nat::forget(Router& router, const std::vector<Host>& hosts) {
  const auto of_it = [&](const Host& host) {
    return std::ranges::find(hosts, host) != hosts.end();
  };
  std::erase_if(router.holes, [&](const auto& hole) { return of_it(hole.first.first.host); });
  std::erase_if(router.ports, [&](const auto& port) {
    return of_it(port.first.host) && !router.mapped.contains(port.second);
  });
}

void Nat::lose_mappings(std::uint32_t peer) {
  std::vector<Host> hosts = sites_[peer].hosts;
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
  for (Host& host : site.hosts) {
    peer_at_.erase(host);
    const Endpoint before{host, kListeningPort};
    host = fresh_host(host.v6);
    peer_at_[host] = peer;
    for (const std::uint32_t number : site.routers) {
      Router& router = routers_[number];
      if (router.open.erase(before) > 0) router.open.insert({host, kListeningPort});
    }
  }
}

}  // namespace starling::sim
