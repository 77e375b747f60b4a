#include "membership/detector/rumours.hpp"

#include <utility>

#include "base/simulated.hpp"
#include "membership/record.hpp"

namespace starling::membership {

wire::Claim claim_of(const wire::MemberRecord& record, std::uint64_t by, wire::MemberState state,
                     wire::DeathReason reason) {
  return {.subject = record.id.prefix(),
          .by = by,
          .incarnation = record.incarnation,
          .state = state,
          .reason = reason};
}

void Rumours::add(const base::PeerId& member, base::LinkId from) {
  records_.insert_or_assign(member, from);
}

void Rumours::tell(const MemberTable& table, const Watch& watch, DetectorOutbox& out) {
  if (records_.empty() && claims_.empty()) return;
  for (const auto& [id, link] : watch) {
    if (!link.speaks()) continue;
    std::vector<wire::MemberRecord> records;
    for (const auto& [peer, from] : records_) {
      const wire::MemberRecord* record = table.find(peer);
      if (from != id && record != nullptr) records.push_back(*record);
    }
    std::vector<wire::Gossip> messages = to_gossip(std::move(records));
    for (const QueuedClaim& queued : claims_) {
      if (queued.from == id) continue;
      if (messages.empty() || messages.back().claims.size() >= wire::kClaimsPerGossip) {
        messages.emplace_back();
      }
      messages.back().claims.push_back(queued.claim);
    }
    for (wire::Gossip& gossip : messages) out.push_back(Send{id, std::move(gossip)});
  }
  records_.clear();
  if (!SIM_BUG(claims_kept)) claims_.clear();
}

void Rumours::add_bounds(base::Bounds& out) const {
  out.add("rumours of records", records_.size(), 0);
  out.add("rumours of claims", claims_.size(), 0);
}

}  // namespace starling::membership
