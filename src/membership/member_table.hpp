// What a peer knows of all peers, itself included.
// Precedence of records: SWIM, Das, Gupta, Motivala, DSN 2002, section 4.2.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/peer_id.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// Suspect members are taken for alive until their suspicion ends.
[[nodiscard]] constexpr bool counts_as_alive(wire::MemberState state) noexcept {
  return state == wire::MemberState::alive || state == wire::MemberState::suspect;
}

/// Records by PeerId, at most kMembersMax; the one of this peer is never evicted.
class MemberTable {
 public:
  explicit MemberTable(wire::MemberRecord self);

  /// Whether `record` wins over the one that is held: higher incarnation, then worse state (alive,
  /// suspect, dead, left).
  [[nodiscard]] bool is_newer(const wire::MemberRecord& record) const;

  /// Stores the record if it is newer; false if it is not, or if the table is full of members that
  /// are alive. In a full table a dead or left one goes first, the lowest id of them.
  bool apply(const wire::MemberRecord& record);

  [[nodiscard]] const wire::MemberRecord* find(const base::PeerId& id) const;
  [[nodiscard]] const wire::MemberRecord& self() const;
  [[nodiscard]] const std::map<base::PeerId, wire::MemberRecord>& records() const noexcept {
    return records_;
  }

  /// Changes by one whenever the set of members that count as alive, or a weight of theirs, does.
  [[nodiscard]] std::uint64_t alive_version() const noexcept { return alive_version_; }

  /// Sum of the XXH3 of every record: equal tables have equal hashes, in whatever order they
  /// were filled.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  bool make_room();

  base::PeerId self_id_;
  std::map<base::PeerId, wire::MemberRecord> records_;
  std::uint64_t alive_version_ = 0;
  std::uint64_t hash_ = 0;
};

/// The records in gossip messages that fit into frames.
[[nodiscard]] std::vector<wire::Gossip> to_gossip(std::vector<wire::MemberRecord> records);

}  // namespace starling::membership
