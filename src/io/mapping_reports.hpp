// The reports of the process that maps a port, which are not trusted: that process reads bytes from
// a hostile network.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/router/line.hpp"

namespace starling::io {

/// Lines in a minute. There is one when a mapping comes, is renewed or goes.
inline constexpr std::size_t kReportsPerMinute = 24;
/// A mapping that is not renewed in its lifetime counts for this much longer: the renewal may be
/// late.
inline constexpr base::Duration kMappingSlack = std::chrono::seconds(10);

/// The reports of one process after another. No clock, no descriptor.
class MappingReports {
 public:
  /// Takes the process's output. Error (protocol): forbidden output; the process must be ended.
  /// Lines before that count.
  [[nodiscard]] base::Status take(base::ByteView bytes, base::Time now);
  /// Another process reports from now on; the mappings stay until it reports others.
  void start_over();
  /// Drops mappings that were not renewed.
  void expire(base::Time now);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// "ip:port" at which others reach this peer, IPv4 first: only internet addresses. A router
  /// behind another one reports an address that is useless elsewhere.
  [[nodiscard]] std::vector<std::string> addresses() const;
  /// The same, including those that are not internet addresses.
  [[nodiscard]] std::vector<base::IpPort> mapped() const;
  /// The current state, for people; empty: no report yet.
  [[nodiscard]] std::string said() const;
  /// The changes since the last call, for people.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  /// Of one family.
  struct State {
    std::optional<router::Mapping> mapping;
    base::Time until{};
    std::string said;  ///< the last note
  };

  void take_line(const router::Line& line, base::Time now);
  void note(State& state, std::string text);

  std::string unread_;  ///< the beginning of a line
  base::Time minute_{};
  std::size_t in_minute_ = 0;
  State v4_;
  State v6_;
  std::vector<std::string> notes_;
};

}  // namespace starling::io
