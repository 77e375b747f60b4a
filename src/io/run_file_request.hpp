// Asking a swarm for its run file, before there is a peer.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "io/secret.hpp"
#include "peer/invite.hpp"

namespace starling::io {

/// From the first dial until an answer has to be there.
inline constexpr base::Duration kRunFileTimeout = std::chrono::seconds(10);

/// Dials all peers that the invite names, and returns what the first one answers that trains its
/// run: TOML from a stranger, to be checked like any run file. `secret`: the swarm's, if it has
/// one. Blocks. Errors: unreachable (for each address, why), network, internal.
[[nodiscard]] base::Result<std::string> request_run_file(const peer::Invite& invite,
                                                         const std::optional<Secret>& secret);

}  // namespace starling::io
