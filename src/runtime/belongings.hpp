// A peer's folder, identity, log and node in a process, whether it trains or relays.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/rng.hpp"
#include "io/identity.hpp"
#include "io/node.hpp"
#include "io/proxy.hpp"
#include "io/secret.hpp"
#include "membership/signer.hpp"
#include "peer/core.hpp"
#include "report/log.hpp"
#include "runtime/options.hpp"
#include "runtime/place.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {

struct Belongings {
  Place place;
  std::optional<io::Secret> secret;
  std::optional<io::ProxyConfig> proxy;
  io::Identity identity;
  report::Log log;
};

/// Makes the folder of a peer of this run with its identity and log. `secret`: a file; empty: there
/// is none. Errors: usage (an option, or a peer runs in this folder), secret, data (the folder).
[[nodiscard]] base::Result<Belongings> take_belongings(const std::string& run,
                                                       const std::string& secret,
                                                       const Options& options);

/// The node's options that follow from these, except its transport. Its notes go to the log, which
/// outlives it.
[[nodiscard]] io::Node::Options node_options(const Options& options, report::Log& log);

/// Makes the node, and writes its addresses to its folder, for this machine's programs.
[[nodiscard]] base::Result<std::unique_ptr<io::Node>> open_node(const std::string& dir,
                                                                const std::string& name,
                                                                const io::Identity& identity,
                                                                io::Node::Options options);

/// Makes the core for a peer with this record, which it may still change.
using MakeCore = std::function<std::unique_ptr<peer::Core>(wire::MemberRecord self,
                                                           membership::Signer& signer, base::Rng)>;
/// Runs a node until its peer ends.
[[nodiscard]] io::NodeEnd run_node(io::Node& node, const std::string& name,
                                   const io::Identity& identity, report::Log& log,
                                   const MakeCore& make_core);

}  // namespace starling::runtime
