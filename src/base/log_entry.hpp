// A message of a part of a peer to people, for the log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace starling::base {

enum class Severity : std::uint8_t { info, warning };

struct LogEntry {
  Severity severity = Severity::info;
  std::string text;
  bool accuses = false;  ///< as made by accusation()
};

/// Says that another peer did something that an honest one never does.
[[nodiscard]] inline LogEntry accusation(std::string text) {
  return {Severity::warning, std::move(text), true};
}

}  // namespace starling::base
