// The addresses at which others may be: those that a person gave and those of a former life, what
// became of them, and what the next life is to know.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/time.hpp"

namespace starling::peer {

/// Changes of others' addresses are told at most so often; a heartbeat is about as frequent.
inline constexpr base::Duration kRememberEvery = std::chrono::seconds(1);

class KnownAddresses {
 public:
  /// `given`: by a person, in the run file or when the peer was started. `remembered`: what the
  /// last Remember of a former life said.
  KnownAddresses(std::vector<std::string> given, std::vector<std::string> remembered);

  /// Where to look for others: what was given, then of what is remembered as much as
  /// membership::kJoinMax leaves room for; each once.
  [[nodiscard]] std::vector<std::string> all() const;
  [[nodiscard]] bool was_given(const std::string& address) const;

  /// A dial of it failed. True where a person gave it and this is the first time.
  [[nodiscard]] bool note_failure(const std::string& address);
  /// The peer that answers there has another secret. True where this is so at all that a person
  /// gave, this one among them.
  [[nodiscard]] bool note_turned_away(const std::string& address);

  /// Whether members may be elsewhere than when this was true the last time, which the hash of
  /// their table tells; at most once in kRememberEvery.
  [[nodiscard]] bool may_have_moved(std::uint64_t table_hash, base::Time now);
  /// Members are at `others`: what is to be remembered; nothing: what was to be anyway.
  [[nodiscard]] std::optional<std::vector<std::string>> remember(std::vector<std::string> others);

  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  std::vector<std::string> given_;
  std::vector<std::string> former_;    ///< of a former life, and not given
  std::vector<std::string> told_;      ///< to be remembered
  std::set<std::string> failed_;       ///< given ones that failed once
  std::set<std::string> turned_away_;  ///< given ones at which the secret is another
  std::uint64_t table_hash_ = 0;
  base::Time look_after_{};  ///< earliest time to look at the table again
};

}  // namespace starling::peer
