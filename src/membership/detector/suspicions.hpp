// Members that someone accuses, and when that becomes a verdict. The more of its link partners
// accuse a member, the sooner it ends: Lifeguard's dynamic suspicion timeout (Dadgar, Phillips,
// Currey, DSN 2018, section IV.B). When all of them do, it is left only the time to refute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

class Suspicions {
 public:
  struct Verdict {
    base::PeerId peer;
    wire::DeathReason reason = wire::DeathReason::none;
  };
  struct Accusation {
    base::PeerId peer;
    std::uint64_t by = 0;
    wire::DeathReason reason = wire::DeathReason::none;
  };

  /// `by` accuses `peer`, which has `partners` links at most. `beat`: the unit of the timeouts,
  /// longer where this peer trusts itself less. `not_before`: no verdict until then. Whether this
  /// accuser is new.
  bool accuse(const base::PeerId& peer, std::uint64_t by, wire::DeathReason reason,
              std::size_t partners, base::Duration beat, base::Time now,
              base::Time not_before = {});
  /// Another peer came to the verdict on it: what is left is a beat to refute, and no less than
  /// with the most accusers. Whether that is sooner than it was.
  bool shorten_for_verdict(const base::PeerId& peer, base::Duration beat, base::Time now);
  /// It refuted, left or is dead.
  void drop(const base::PeerId& peer) { open_.erase(peer); }
  void clear() { open_.clear(); }
  /// Whether `by` is among the accusers.
  [[nodiscard]] bool accused_by(const base::PeerId& peer, std::uint64_t by) const;
  /// Those that are open, each by its first accuser, at most so many: in order of id, as on a ring,
  /// from `peer` on.
  [[nodiscard]] std::vector<Accusation> open_from(const base::PeerId& peer, std::size_t most) const;
  /// All end this much later.
  void extend(base::Duration pause);

  /// Those that ended, in order of id; they are dropped.
  [[nodiscard]] std::vector<Verdict> take_ended(base::Time now);
  [[nodiscard]] std::optional<base::Time> next_end() const;
  [[nodiscard]] std::optional<base::Time> last_end() const;
  [[nodiscard]] std::size_t size() const noexcept { return open_.size(); }

 private:
  struct Suspicion {
    base::Time since;
    base::Time not_before;
    base::Time ends;
    wire::DeathReason reason = wire::DeathReason::none;
    std::vector<std::uint64_t> accusers;  ///< at most kAccusersMax
  };

  std::map<base::PeerId, Suspicion> open_;  ///< members of the table, so no more than it holds
};

}  // namespace starling::membership
