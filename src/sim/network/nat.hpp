// Routers and firewalls between the peers of a scenario: which dials get through, and which source
// address the other end sees. It models Linux with nftables (scenarios/lab does the same with real
// packets); mappings and filters are named as in RFC 4787.
//
//   moderate   one outer port for all destinations, the inner one if it is free
//              (endpoint-independent mapping); lets in only what was dialed, address and port
//   strict     a different random outer port for each destination (symmetric); filter as above
//   cgnat      a moderate router behind a moderate router
//   firewall   nothing is mapped; filter as above
//
// IPv6 is filtered but never mapped. No router lets the peers behind it dial its outer address.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

/// The port on which all peers listen.
inline constexpr std::uint16_t kListeningPort = 7000;

class Nat {
 public:
  /// A dial that gets through.
  struct Passage {
    std::uint32_t to = 0;   ///< peer
    base::IpPort observed;  ///< the source that `to` sees
    bool inside = false;    ///< both are behind one router, which the dial does not pass
  };

  /// Knows what each peer of the plan is behind. The seed decides the ports that strict routers
  /// draw.
  Nat(const Plan& plan, std::uint64_t seed);

  /// A dial from a port of its own or, with `punches`, from the listening port. With `punches`,
  /// routers let the other end's answer in for kHoleLasts, even if this dial reaches nobody.
  [[nodiscard]] std::optional<Passage> dial(std::uint32_t from, const base::IpPort& to,
                                            bool punches, base::Time now);

  /// The addresses of the peer's machine, and those that its router forwards to it (`pcp`).
  [[nodiscard]] std::vector<base::IpPort> own(std::uint32_t peer) const;
  /// Whether its machine has an address of this family.
  [[nodiscard]] bool has_family(std::uint32_t peer, bool v6) const {
    return host_of(peer, v6) != nullptr;
  }
  /// The addresses that others would have to dial.
  [[nodiscard]] std::vector<base::IpPort> outer(std::uint32_t peer) const;
  /// The peers whose connections pass a router that this peer's pass too; at least the peer itself.
  [[nodiscard]] const std::vector<std::uint32_t>& neighbours(std::uint32_t peer) const;
  /// Whether the outer address of its IPv4 belongs to a router, shared by all of its neighbours.
  [[nodiscard]] bool is_mapped(std::uint32_t peer) const;
  /// A connection that is silent for longer is forgotten; nothing: none is ever forgotten.
  [[nodiscard]] std::optional<base::Duration> forgets_after(std::uint32_t peer) const;

  /// The routers of the peer forget all of its connections and dials.
  void lose_mappings(std::uint32_t peer);
  /// They forget the connections of all peers behind them.
  void restart(std::uint32_t peer);
  /// The outermost router that maps, or else the machine, gets another outer address.
  void change_address(std::uint32_t peer);

  /// How long a router waits for the answer to a dial (Linux: nf_conntrack_tcp_timeout_syn_sent).
  static constexpr base::Duration kHoleLasts = std::chrono::seconds(120);

 private:
  /// The hole that a punch left.
  struct Hole {
    std::uint16_t port = 0;  ///< outer
    base::Time until{};
  };
  struct Router {
    bool maps = true;  ///< IPv4; otherwise it only filters
    bool strict = false;
    std::optional<std::uint32_t> upstream;        ///< router
    base::Ip outer;                               ///< maps
    std::map<base::IpPort, std::uint16_t> ports;  ///< not strict: outer port by inner end
    std::map<std::pair<base::IpPort, base::IpPort>, Hole> holes;  ///< by inner end and destination
    std::map<std::uint16_t, base::IpPort> mapped;  ///< by PCP: inner end by outer port
    std::set<base::IpPort> open;                   ///< by PCP: ends that are not mapped
  };
  struct Site {
    std::vector<base::Ip> hosts;         ///< one per family
    std::vector<std::uint32_t> routers;  ///< innermost first
    std::uint32_t number = 0;            ///< of its router in the plan, or its own
    std::optional<base::Duration> forgets;
  };

  void place(const PlannedPeer& peer);
  std::uint32_t add_router(const NatSettings& settings, std::optional<std::uint32_t> upstream);
  void open_ports(std::uint32_t peer);
  [[nodiscard]] base::Ip fresh_host(bool v6);
  [[nodiscard]] static bool translates(const Router& router, const base::Ip& host);
  [[nodiscard]] const base::Ip* host_of(std::uint32_t peer, bool v6) const;
  [[nodiscard]] std::optional<std::uint32_t> beside(std::uint32_t peer, const base::Ip& host) const;
  base::IpPort pass_out(Router& router, const base::IpPort& inner, const base::IpPort& to,
                        bool punches, base::Time now);
  std::uint16_t draw_port(const Router& router);
  [[nodiscard]] static std::uint16_t keep_port(Router& router, const base::IpPort& inner);
  [[nodiscard]] static std::optional<base::IpPort> pass_in(const Router& router,
                                                           const base::IpPort& from,
                                                           const base::IpPort& to, base::Time now);
  [[nodiscard]] std::optional<std::uint32_t> arrive(const base::IpPort& from, base::IpPort to,
                                                    base::Time now) const;
  static void forget(Router& router, const std::vector<base::Ip>& hosts);

  base::Rng rng_;
  std::vector<Site> sites_;  ///< by peer
  std::vector<Router> routers_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> shared_;  ///< number in the plan: routers
  std::map<std::uint32_t, std::vector<std::uint32_t>> peers_behind_;  ///< number in the plan: peers
  std::map<base::Ip, std::uint32_t> peer_at_;  ///< hosts that the network reaches
  std::map<base::Ip, std::uint32_t>
      router_at_;            ///< outer hosts, also those inside a carrier's network
  std::uint32_t hosts_ = 0;  ///< given out
  std::uint16_t ephemeral_ = 0;
};

}  // namespace starling::sim
