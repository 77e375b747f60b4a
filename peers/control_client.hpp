// Asking a running peer through its control port.
#pragma once

#include <string>

#include "base/result.hpp"

namespace starling::peers {

/// GET or POST of `path` ("/status") at "host:port". The reply's body. Blocks for some seconds at
/// most. usage: that is no address; unreachable: nobody answers there, or not with a success.
[[nodiscard]] base::Result<std::string> ask(const std::string& control, const std::string& path,
                                            bool post = false);

/// The control address of a peer named by "host:port" (an address is not looked at), its folder, or
/// "": the only one that runs below `runs`. usage: that is no peer's folder, or several run, whose
/// folders it names; unreachable: it does not run, or none does; data: its folder cannot be read.
[[nodiscard]] base::Result<std::string> find_control(const std::string& peer);

}  // namespace starling::peers
