// Messages of commands on stderr, and the end of a command that failed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/result.hpp"
#include "report/format.hpp"

namespace starling::peers {

/// Prints to stderr, if possible: a command's work does not depend on it.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stderr);
}

/// data::LongRead of commands: says on stderr that this takes a while.
inline void tell_of_long_read(const std::string& path, std::uint64_t bytes) {
  say("reading {} ({}) through, which takes a while\n", path, report::format_bytes(bytes));
}

/// Prints "starling COMMAND: what is wrong" to stderr, after the contents of stdout; returns the
/// exit code.
inline int complain(std::string_view command, const base::Error& error) {
  std::fflush(stdout);
  say("starling {}: {}\n", command, error.text);
  return base::exit_code(error.code);
}

}  // namespace starling::peers
