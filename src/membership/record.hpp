// The content of a member record: its signed bytes, how new it is, and how it goes into messages.
// Precedence of records: SWIM, Das, Gupta, Motivala, DSN 2002, section 4.2.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "membership/signer.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// Suspect members are taken for alive until their suspicion ends.
[[nodiscard]] constexpr bool counts_as_alive(wire::MemberState state) noexcept {
  return state == wire::MemberState::alive || state == wire::MemberState::suspect;
}

/// The part that a record's owner signs: all except what others say of it (suspect, dead). Two
/// records that differ in it never have the same bytes.
[[nodiscard]] base::Bytes signed_bytes(const wire::MemberRecord& record);

/// Makes the record its owner's: key and signature are filled in.
void sign(wire::MemberRecord& record, Signer& signer);
[[nodiscard]] bool is_genuine(const wire::MemberRecord& record, Signer& signer);

/// Orders records of one peer, all peers alike: higher incarnation, then worse state (alive, dead,
/// left; suspicion ends by itself and at each peer for itself, so it counts as alive), then some
/// bits of the signature, in case two processes run with one key. Incarnations below kCounterMax.
[[nodiscard]] std::uint64_t version_of(const wire::MemberRecord& record) noexcept;

/// A record's part in a table's hash.
[[nodiscard]] std::uint64_t fingerprint(const base::PeerId& id, std::uint64_t version) noexcept;

/// The records in gossip messages that fit into frames.
[[nodiscard]] std::vector<wire::Gossip> to_gossip(std::vector<wire::MemberRecord> records);

}  // namespace starling::membership
