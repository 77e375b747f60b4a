// Asking a running peer through its control port.
#pragma once

#include <string>

#include "base/result.hpp"

namespace starling::peers {

/// GET or POST of `path` ("/status") at "host:port". The reply's body.
/// Errors (unreachable): nobody answers there, or the reply is not a success.
[[nodiscard]] base::Result<std::string> ask(const std::string& control, const std::string& path,
                                            bool post = false);

/// The control address of a peer named by "host:port", its folder, or "" (the only one that runs
/// below `runs`). Errors (usage) say which peers there are.
[[nodiscard]] base::Result<std::string> find_control(const std::string& peer);

}  // namespace starling::peers
