// What a running peer prints, though nobody may take it.
#pragma once

#include <cstdio>
#include <string_view>

namespace starling::report {

/// Prints to a stream, unless it would have to wait: for a terminal that is paused (Ctrl-S) or
/// whose connection stalls, and for a full pipe. The text is lost then. Any thread.
void print_at_once(std::FILE* stream, std::string_view text);

}  // namespace starling::report
