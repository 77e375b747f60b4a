// Members that die again and again: one on a bad line refutes each verdict, and the next comes
// soon. The first return is believed at once, later ones only after a pause that doubles, so that
// shards do not move with every turn. Where a large part dies at once the line between is cut, and
// those that return are as good as before.
//
// In a swarm of kLargeSwarm and more, where a verdict costs many and one member is missed by few,
// whoever refutes a death is held back the first time, too, and once it is back the next verdict
// waits as long: at most one change a minute. A restarted process comes with a new life.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// The deaths of one member within kFlapMemory.
class Flaps {
 public:
  /// This peer came to the verdict that the member of `record` is dead. `large`: so is the swarm.
  void died(const wire::MemberRecord& record, bool large, base::Time now);
  /// The last death does not count: the line was cut.
  void discount() noexcept { cut_ = true; }
  [[nodiscard]] bool has_died_within(base::Duration time, base::Time now) const noexcept {
    return last_death_ != base::Time{} && now - last_death_ <= time;
  }

  /// Whether its return, by this record, is not to be believed yet.
  [[nodiscard]] bool holds_back(const wire::MemberRecord& record, base::Time now) const;
  /// When it is.
  [[nodiscard]] base::Time ends() const;
  /// Its return was believed.
  void returned(const wire::MemberRecord& record, base::Time now);
  /// Until then this member is not declared dead again.
  [[nodiscard]] base::Time immune_until() const noexcept { return immune_until_; }

 private:
  [[nodiscard]] bool same_life(const wire::MemberRecord& record) const;

  int deaths_ = 0;
  base::Time last_death_{};
  std::uint64_t incarnation_ = 0;  ///< incarnation that died last
  base::Time immune_until_{};
  bool cut_ = false;    ///< whether the last death does not count
  bool large_ = false;  ///< whether the swarm was large at the last death
};

}  // namespace starling::membership
