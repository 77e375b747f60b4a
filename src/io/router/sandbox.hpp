// What the process that talks to routers gives up, for good: it reads what a hostile network says.
#pragma once

#include "base/result.hpp"

namespace starling::io::router {

/// From now on this process opens no file, starts no program or process, reaches no other process
/// and no socket of this machine's programs, and has little memory, time and few descriptors; it
/// holds none but those of standard input, output and error. It ends with a SIGTERM when its parent
/// does. Error (internal): what the kernel refuses.
[[nodiscard]] base::Status enter_sandbox();

}  // namespace starling::io::router
