// The language of the switch's control socket: one JSON object per line, one reply per line.
#pragma once

#include <string>
#include <string_view>

#include "fabric.hpp"

namespace starling::net_switch {

inline constexpr std::size_t kRequestMax = 64 * 1024;

/// Carries out a request and returns its reply, without the line's end:
///
///     {"set": {"rate_bps", "queue_ms", "delay_ms", "jitter_ms", "loss", "duplicate", "reorder",
///              "corrupt", "cut"}, "from": [ports], "to": [ports]}
///         each is optional: conditions that are not named stay, ports that are not named are all
///     {"line": {"rate_bps", "queue_ms"}, "ports": [ports]}    shared by all pairs of a port
///     {"reset": true, "from": [ports], "to": [ports]}    back to perfect pairs
///     {"counters": true}
///
/// The reply has "ok". If that is false, "error" says why, and nothing was changed. Counters are a
/// list with an object for each pair that was offered a frame.
[[nodiscard]] std::string answer(Fabric& fabric, std::string_view request);

}  // namespace starling::net_switch
