// What the process that maps a port says, taken with care: it reads what a hostile network says.
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

/// Lines in a minute. It has something to say when a mapping comes, is renewed or goes.
inline constexpr std::size_t kReportsPerMinute = 24;
/// A mapping that is not renewed in its lifetime counts for so much longer: it may be late.
inline constexpr base::Duration kMappingSlack = std::chrono::seconds(10);

/// Of one process after the other. No clock, no descriptor.
class MappingReports {
 public:
  /// What it wrote. Error (protocol): what it must not write; the process is to be ended. Lines
  /// before that count.
  [[nodiscard]] base::Status take(base::ByteView bytes, base::Time now);
  /// Another process speaks from now on; what is mapped stays until that says something else.
  void start_over();
  /// Drops what was not renewed.
  void expire(base::Time now);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;

  /// "ip:port" where others reach this peer, IPv4 first: those in the internet. A router behind
  /// another one tells an address that leads there from nowhere else.
  [[nodiscard]] std::vector<std::string> addresses() const;
  /// The same with those that are none of the internet.
  [[nodiscard]] std::vector<base::IpPort> mapped() const;
  /// How things stand, for people; empty: nothing was heard yet.
  [[nodiscard]] std::string said() const;
  /// What has changed since the last call, for people.
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
