// ASSERT: checks for bugs in this program. On in every build, release included: a peer that has
// lost its invariants must stop before it sends wrong data to others.
#pragma once

namespace starling::base {

/// Prints the failed condition with its place and `text` to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const char* text) noexcept;

}  // namespace starling::base

// The second argument, a plain string, is optional: ASSERT(x) or ASSERT(x, "why it must hold").
#define ASSERT(condition, ...)  \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::starling::base::assertion_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__))
