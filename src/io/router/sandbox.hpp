// The rights that the process that talks to routers gives up for good: it reads bytes from a
// hostile network.
#pragma once

#include "base/result.hpp"

namespace starling::io::router {

/// From now on, this process can open no file, start no program or process, and reach no other
/// process and no socket of this machine's programs. It has little memory, little time and few
/// descriptors, and holds only those of standard input, output and error. It gets a SIGTERM when
/// its parent ends. Error (internal): names the kernel's refusal.
[[nodiscard]] base::Status enter_sandbox();

}  // namespace starling::io::router
