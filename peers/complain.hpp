// How a command that failed ends.
#pragma once

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "base/result.hpp"

namespace starling::peers {

/// Prints "starling COMMAND: what is wrong" to stderr, behind what stdout has; returns the exit
/// code.
inline int complain(std::string_view command, const base::Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "starling {}: {}\n", command, error.text);
  return base::exit_code(error.code);
}

}  // namespace starling::peers
