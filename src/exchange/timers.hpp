// Everything that can be due in an exchange. Each part shows its timers in one place: deadlines and
// limits are both taken from there.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/time.hpp"

namespace starling::exchange {

/// Called with each timer: its name, when it is due (nothing: it does not run), and the longest
/// time that it may run from now on.
using TimerVisitor =
    std::function<void(std::string_view name, std::optional<base::Time> at, base::Duration limit)>;

}  // namespace starling::exchange
