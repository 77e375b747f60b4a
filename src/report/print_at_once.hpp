// The output of a running peer, which must not wait for a reader.
#pragma once

#include <cstdio>
#include <string_view>

namespace starling::report {

/// Prints to a stream, unless it would have to wait: for a terminal that is paused (Ctrl-S) or
/// whose connection stalls, or for a full pipe. Then the text is lost. Any thread.
void print_at_once(std::FILE* stream, std::string_view text);

}  // namespace starling::report
