// Calls peers without being one: before there is a peer, or to see whether there could be one. All
// calls block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/nat.hpp"
#include "io/proxy.hpp"
#include "io/secret.hpp"
#include "runfile/invite.hpp"
#include "wire/messages.hpp"

namespace starling::io {

/// The time from the first dial to the last answer, at most.
inline constexpr base::Duration kVisitTimeout = std::chrono::seconds(10);

/// How links of a swarm are made.
struct LinkSecurity {
  bool tls = true;
  std::optional<Secret> secret;        ///< the swarm's, if it has one
  std::optional<ProxyConfig> proxy{};  ///< as in TransportConfig
};

/// Dials all peers that the invite names, and returns the answer of the first one that says it
/// trains the invite's run: TOML from a stranger, to be checked like any run file. Errors:
/// unreachable (the reason for each address), secret (the same, if all have another secret),
/// network, internal.
[[nodiscard]] base::Result<std::string> request_run_file(const runfile::Invite& invite,
                                                         const std::optional<Secret>& secret,
                                                         const std::optional<ProxyConfig>& proxy);

/// A peer's first message on a new link.
struct Greeting {
  base::PeerId id;
  std::string name;  ///< its own choice of at most wire::kNameMax bytes
  wire::RunId run;
  base::Duration took{};  ///< from the dial
  /// The address at which it sees this machine, or the link's proxy; nothing: it does not say.
  std::optional<base::IpPort> observed{};
  /// The same with both ends of the connection; not through a proxy.
  std::optional<Sighting> sighting{};
};

/// Dials peers like a peer that wants to join, all from one port. Returns each one's answer, or why
/// there is none, in their order: errors as above. Error (network, internal): no peer can be
/// dialed.
[[nodiscard]] base::Result<std::vector<base::Result<Greeting>>> greet(
    const std::vector<std::string>& addresses, const LinkSecurity& security);

/// The result for one address: listens like a peer, makes a link from this process to itself over
/// an address that others would be told, and sends a frame on it.
struct OwnLink {
  std::string address;
  base::Result<base::Duration> took;  ///< from the dial until the frame was there
};

/// One for each address at which `listen` ("host:port") is reached. Errors as above: it cannot
/// listen at all.
[[nodiscard]] base::Result<std::vector<OwnLink>> check_own_links(const std::string& listen,
                                                                 const LinkSecurity& security);

/// A router's answer.
struct PortMapped {
  std::vector<base::IpPort> outer;  ///< some may not be internet addresses
  std::string text;                 ///< the protocol that maps the port, or why none does
};

/// Listens like a peer and lets the router map the port for a moment. Takes some seconds if the
/// router does not answer. `program`: from find_mapper(). Errors: it cannot listen.
[[nodiscard]] base::Result<PortMapped> check_port_mapping(const std::string& listen,
                                                          const std::string& program);

/// Announces a run of its own on the local network, like --lan, and waits until it hears the
/// announcement. Error (network): why it did not.
[[nodiscard]] base::Status check_lan();

}  // namespace starling::io
