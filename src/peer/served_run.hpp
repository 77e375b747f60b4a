// The run that a peer names in its Hellos. A peer without a replica, which is there so that others
// reach each other, takes over theirs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "peer/config.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

/// A relay whose links have all gone stays at its run for so long.
inline constexpr base::Duration kRelayAlone = std::chrono::minutes(1);

class ServedRun {
 public:
  /// `relays`: this peer has no replica. If then `config.run` is zero, it serves the run of the
  /// first peer that says hello.
  ServedRun(const Config& config, bool relays);

  [[nodiscard]] bool relays() const noexcept { return relays_; }
  /// A Hello can be said: only a relay may not know yet.
  [[nodiscard]] bool is_known() const noexcept { return is_known_; }
  [[nodiscard]] const wire::RunId& id() const noexcept { return run_; }
  /// Between two heartbeats of its peers.
  [[nodiscard]] base::Duration heartbeat() const noexcept { return heartbeat_; }
  /// A Hello of this run, by `self`.
  [[nodiscard]] wire::Hello hello(wire::MemberRecord self) const;
  [[nodiscard]] bool is_of(const wire::Hello& hello) const noexcept;
  /// Not known yet: takes over the run of `hello`, and its heartbeats. False: a person has named
  /// another one.
  [[nodiscard]] bool find(const wire::Hello& hello);

  /// As it is given to invited machines; empty: it is not.
  [[nodiscard]] const std::string& run_file() const noexcept { return run_file_; }
  void set_run_file(std::string text) { run_file_ = std::move(text); }

  /// A link of a relay came or went; `linked`: at least one is ready.
  void note_links(bool linked, base::Time now);
  /// Time at which a relay without links ends.
  [[nodiscard]] std::optional<base::Time> alone_until() const noexcept { return alone_until_; }

 private:
  wire::RunId run_;
  std::uint64_t parameters_hash_;
  base::Duration heartbeat_;
  std::string run_file_;
  bool relays_;
  bool is_known_;
  std::optional<base::Time> alone_until_;
};

}  // namespace starling::peer
