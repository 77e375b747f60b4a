#include "membership/overlay/candidates.hpp"

#include <algorithm>

#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

bool Candidates::is_there(const wire::MemberRecord& record) const {
  return counts_as_alive(record.state) || table_.judgement(record.id).returned.has_value();
}

bool Candidates::fits(const wire::MemberRecord& record) const {
  if (is_relay() || !record.has_replica) return is_relay() == record.has_replica;
  return hub_.empty() || record.name == hub_ || self().name == hub_;
}

bool Candidates::may_be_neighbour(const wire::MemberRecord& record) const {
  return fits(record) && record.id != table_.self_id() &&
         !standings_.has(Standing::banned, record.id) &&
         !standings_.has(Standing::no_room, record.id);
}

bool Candidates::any() const {
  return std::ranges::any_of(table_.members(), [&](const auto& entry) {
    const wire::MemberRecord& record = entry.second.record;
    return counts_as_alive(record.state) && record.has_replica && may_be_neighbour(record);
  });
}

bool Candidates::lacks_evidence(const base::PeerId& peer, base::Time now) const {
  const auto age = progress_.age(peer.prefix(), now);
  return !age || *age > kEvidence + progress_.horizon();
}

bool Candidates::seems_apart(const base::PeerId& peer, base::Time now) const {
  return counters_move(now) && lacks_evidence(peer, now);
}

std::uint32_t Candidates::links_told(const base::PeerId& peer) const {
  const wire::Progress* told = progress_.find(peer.prefix());
  return told == nullptr ? 0 : told->links;
}

bool Candidates::is_full(const base::PeerId& peer) const {
  return links_told(peer) >= degree_ + kDegreeSlack;
}

}  // namespace starling::membership
