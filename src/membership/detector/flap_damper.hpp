// Members that die again and again: one on a bad line refutes each verdict, and the next comes
// soon. The first return is believed at once, later ones only after a pause that doubles, so that
// shards do not move with every turn. Where a large part dies at once the line between is cut, and
// those that return are as good as before.
//
// In a swarm of kLargeSwarm and more, where a verdict costs many and one member is missed by few,
// whoever refutes a death is held back the first time, too, and once it is back the next verdict
// waits as long: at most one change a minute. A restarted process comes with a new life.
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

class FlapDamper {
 public:
  /// This peer came to the verdict that the member of `record` is dead; `alive` members, self
  /// included, are left. With half as many deaths within kCutMemory none of those counts.
  void died(const wire::MemberRecord& record, std::size_t alive, base::Time now);
  /// Keeps the record, and says so, where its return is not to be believed yet.
  bool hold_back(const wire::MemberRecord& record, base::Time now);
  /// Whether its return is known here, and not believed yet.
  [[nodiscard]] bool waits(const base::PeerId& peer) const { return waiting_.contains(peer); }
  /// Its return was believed.
  void returned(const wire::MemberRecord& record, base::Time now);
  /// It is gone, as of `record`: a return before that is not waited for any more.
  void gone(const wire::MemberRecord& record);
  /// Until then this member is not declared dead again.
  [[nodiscard]] base::Time immune_until(const base::PeerId& peer) const;
  /// The newest records of those that are to be believed now.
  [[nodiscard]] std::vector<wire::MemberRecord> take_due(base::Time now);
  [[nodiscard]] std::optional<base::Time> next_due() const;
  [[nodiscard]] std::size_t size() const noexcept { return flaps_.size(); }

 private:
  struct Flap {
    int deaths = 0;
    base::Time last_death{};
    std::uint64_t incarnation = 0;  ///< incarnation that died last
    base::Time immune_until{};
    bool cut = false;    ///< whether the last death does not count
    bool large = false;  ///< whether the swarm was large at the last death

    [[nodiscard]] base::Time ends() const;
    [[nodiscard]] bool same_life(const wire::MemberRecord& record) const;
  };

  std::map<base::PeerId, Flap> flaps_;  ///< at most kMembersMax deaths, for kFlapMemory
  std::map<base::PeerId, wire::MemberRecord> waiting_;  ///< returns not believed yet
};

}  // namespace starling::membership
