// Calling on peers without being one: before there is a peer, or to see whether there could be one.
// All of it blocks.
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

/// From the first dial until an answer has to be there.
inline constexpr base::Duration kVisitTimeout = std::chrono::seconds(10);

/// How links of a swarm are made.
struct LinkSecurity {
  bool tls = true;
  std::optional<Secret> secret;        ///< the swarm's, if it has one
  std::optional<ProxyConfig> proxy{};  ///< as TransportConfig has it
};

/// Dials all peers that the invite names, and returns what the first one answers that says it
/// trains its run: TOML from a stranger, to be checked like any run file. Errors: unreachable (for
/// each address, why), secret (the same, where all have another one), network, internal.
[[nodiscard]] base::Result<std::string> request_run_file(const runfile::Invite& invite,
                                                         const std::optional<Secret>& secret,
                                                         const std::optional<ProxyConfig>& proxy);

/// What a peer says when a link to it is up.
struct Greeting {
  base::PeerId id;
  std::string name;  ///< its own choice of at most wire::kNameMax bytes
  wire::RunId run;
  base::Duration took{};  ///< from the dial
  /// Where it sees this machine, or the proxy that the link goes through; nothing: it does not say.
  std::optional<base::IpPort> observed{};
  /// The same beside both ends of the connection; not through a proxy.
  std::optional<Sighting> sighting{};
};

/// Dials peers as one that wants to join would, all from one port. What each has answered, or why
/// it has not, in their order: errors as above. Error (network, internal): nobody can be dialed.
[[nodiscard]] base::Result<std::vector<base::Result<Greeting>>> greet(
    const std::vector<std::string>& addresses, const LinkSecurity& security);

/// Listens as a peer would, makes a link from this process to itself over an address that others
/// were told, and sends a frame on it.
struct OwnLink {
  std::string address;
  base::Result<base::Duration> took;  ///< from the dial until the frame was there
};

/// One for each address that `listen` ("host:port") is reached at. Errors as above: it cannot
/// listen at all.
[[nodiscard]] base::Result<std::vector<OwnLink>> check_own_links(const std::string& listen,
                                                                 const LinkSecurity& security);

/// What a router has come to.
struct PortMapped {
  std::vector<base::IpPort> outer;  ///< some may be no addresses of the internet
  std::string text;                 ///< by which protocol it maps the port, or why not
};

/// Listens as a peer would and has the port mapped on the router, for a moment. Takes some seconds
/// where the router does not answer. `program`: as find_mapper() has it. Errors: it cannot listen.
[[nodiscard]] base::Result<PortMapped> check_port_mapping(const std::string& listen,
                                                          const std::string& program);

/// Announces a run of its own on the local network, as --lan does, and waits until it hears that.
/// Error (network): why it did not.
[[nodiscard]] base::Status check_lan();

}  // namespace starling::io
