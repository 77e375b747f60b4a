// What a part of a peer has to tell people, for the log.
#pragma once

#include <cstdint>
#include <string>

namespace starling::base {

enum class Severity : std::uint8_t { info, warning };

struct Notice {
  Severity severity = Severity::info;
  std::string text;
  bool accuses = false;  ///< another peer, of what no honest one does
};

}  // namespace starling::base
