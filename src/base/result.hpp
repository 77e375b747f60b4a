// Errors of the environment and of input: values, never exceptions.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <tl/expected.hpp>

namespace starling::base {

/// The kind of an error; decides the exit code of a program that stops because of it.
enum class ErrorCode {
  internal,     ///< a bug, or a library that broke its promise (exit 1)
  usage,        ///< the command line (exit 2)
  run_file,     ///< the run file or its values (exit 3)
  secret,       ///< the two ends of a link do not have the same secret (exit 3)
  data,         ///< a data set, checkpoint or other file is missing or damaged (exit 3)
  unreachable,  ///< no peer answers (exit 4, only where a peer was required)
  diverged,     ///< training produced a value that is not finite (exit 5)
  device,       ///< the compute device (exit 6)
  no_room,      ///< the device's memory is full; its contents are sound (exit 6)
  unsettled,    ///< the run is over, and this peer has agreed with nobody (exit 7)
  network,      ///< sockets, addresses, TLS (exit 1)
  protocol,     ///< bytes from a peer that break the protocol; never ends a program
  judged_bad,   ///< a peer's replica, on this peer's data; never ends a program
};

/// An error, with a text for the user: what is wrong, where, and what to do.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string text;

  /// The same error with "context: " in front of its text.
  [[nodiscard]] Error in(std::string_view context) const {
    return {code, fmt::format("{}: {}", context, text)};
  }
};

template <class T>
using Result = tl::expected<T, Error>;

/// Result without a value.
using Status = Result<void>;

/// Makes the failing half of a Result: `return fail(ErrorCode::data, "{}: is empty", path);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Passes on another result's error.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

/// The exit code of `starling` for an error (0 done, 1 internal, 2 usage, 3 run file or
/// data, 4 no peer reachable, 5 diverged, 6 device, 7 unsettled).
[[nodiscard]] int exit_code(ErrorCode code) noexcept;

}  // namespace starling::base
