// What a part of a peer has to tell people, for the log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace starling::base {

enum class Severity : std::uint8_t { info, warning };

struct Notice {
  Severity severity = Severity::info;
  std::string text;
  bool accuses = false;  ///< as accusation() has it
};

/// Says that another peer did what no honest one does.
[[nodiscard]] inline Notice accusation(std::string text) {
  return {Severity::warning, std::move(text), true};
}

}  // namespace starling::base
