// Asking a running peer through its control port.
#pragma once

#include <string>

#include "base/result.hpp"

namespace starling::peers {

/// GET or POST of `path` ("/status") at "host:port". Returns the reply's body. Blocks for at most
/// some seconds. Errors: usage: that is not an address; unreachable: no answer there, or no
/// success.
[[nodiscard]] base::Result<std::string> ask(const std::string& control, const std::string& path,
                                            bool post = false);

/// The control address of a peer named by "host:port" (an address is not checked), its folder, or
/// "": the only one that runs below `runs`. Errors: usage: that is not a peer's folder, or several
/// run, whose folders it names; unreachable: it does not run, or none does; data: its folder cannot
/// be read.
[[nodiscard]] base::Result<std::string> find_control(const std::string& peer);

}  // namespace starling::peers
