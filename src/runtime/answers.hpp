// The answers of every peer on its control port, whether it trains or relays.
#pragma once

#include <string>
#include <vector>

#include "io/control.hpp"
#include "io/node.hpp"
#include "peer/status.hpp"
#include "report/status_json.hpp"

namespace starling::runtime {

/// The addresses and the traffic of a node; of the run, only its id.
[[nodiscard]] report::StatusExtra extra_of(const peer::Status& status, const io::Node& node);

/// For an invite: one address of each member that is alive and may be dialed. Addresses that this
/// peer has dialed itself come first, since they work.
[[nodiscard]] std::vector<std::string> addresses_of_others(const peer::Status& status);

/// The page's files, /metrics, /status, /members and /links; 404 for other paths.
[[nodiscard]] io::ControlReply answer(const io::ControlRequest& request, const peer::Status& status,
                                      const report::StatusExtra& extra);

}  // namespace starling::runtime
