// What commands say on stderr, and how one that failed ends.
#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/result.hpp"

namespace starling::peers {

/// Prints to stderr, if that can be written: a command's work does not depend on it.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stderr);
}

/// Prints "starling COMMAND: what is wrong" to stderr, behind what stdout has; returns the exit
/// code.
inline int complain(std::string_view command, const base::Error& error) {
  std::fflush(stdout);
  say("starling {}: {}\n", command, error.text);
  return base::exit_code(error.code);
}

}  // namespace starling::peers
