// Members that die again and again: one on a bad line refutes each verdict, and the next comes
// soon. The first return is believed at once, later ones only after a pause that doubles, so that
// shards do not move with every turn. Where a large part dies at once the line between is cut, and
// those that return are as good as before.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

class Flaps {
 public:
  /// This peer came to the verdict that it is dead; `alive` members, self included, are left. With
  /// half as many deaths within kCutMemory none of those counts.
  void died(const base::PeerId& peer, std::size_t alive, base::Time now);
  /// Whether its return is not believed yet. The record is kept until it is.
  bool holds_back(const wire::MemberRecord& record, base::Time now);
  /// The newest records of those that are to be believed now.
  [[nodiscard]] std::vector<wire::MemberRecord> take_due(base::Time now);
  [[nodiscard]] std::optional<base::Time> next_due() const;

 private:
  struct Flap {
    int deaths = 0;
    base::Time last_death{};
    bool cut = false;  ///< the last death does not count
    std::optional<wire::MemberRecord> waiting;

    [[nodiscard]] base::Time ends() const;
  };

  std::map<base::PeerId, Flap> flaps_;  ///< at most kMembersMax, for kFlapMemory
};

}  // namespace starling::membership
