// A peer's knowledge of all peers, itself included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "membership/detector/flaps.hpp"
#include "membership/detector/suspicion.hpp"
#include "membership/record.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// This peer's conclusions about a member. They go with the record.
struct Judgement {
  std::optional<Suspicion> suspicion{};          ///< while it is suspect
  wire::DeathReason lost{};                      ///< why it is not alive; none where nobody told
  Flaps flaps{};                                 ///< its deaths of late
  std::optional<wire::MemberRecord> returned{};  ///< a return that is not believed yet

  /// When the suspicion ends, or the return is believed.
  [[nodiscard]] std::optional<base::Time> due() const {
    if (suspicion) return suspicion->ends();
    return returned ? std::optional(flaps.ends()) : std::nullopt;
  }
};

struct Member {
  wire::MemberRecord record;
  Judgement judgement{};
};

/// Members by PeerId, at most kMembersMax; the one of this peer is never evicted. It believes what
/// it is given: signatures are checked before.
class MemberTable {
 public:
  explicit MemberTable(wire::MemberRecord self);

  /// Stores the record if it is newer than the one that is held (version_of); false if it is not,
  /// or if the table is full of members that are alive. In a full table a dead or left one goes
  /// first, the lowest id of them.
  bool apply(const wire::MemberRecord& record);
  /// An alive member becomes suspect, at the same version.
  void mark_suspect(const base::PeerId& id);
  /// Changes what is concluded of a member that there is: `change` takes a Judgement&.
  template <class Change>
  void judge(const base::PeerId& id, const Change& change) {
    Judgement& judgement = members_.at(id).judgement;
    lost_ -= judgement.lost == wire::DeathReason::none ? 0 : 1;
    change(judgement);
    lost_ += judgement.lost == wire::DeathReason::none ? 0 : 1;
    if (judgement.due()) {
      waiting_.insert(id);
    } else {
      waiting_.erase(id);
    }
  }

  [[nodiscard]] const wire::MemberRecord* find(const base::PeerId& id) const;
  /// The first record of the prefix, as PeerId::prefix() gives it.
  [[nodiscard]] const wire::MemberRecord* find(std::uint64_t prefix) const;
  [[nodiscard]] const wire::MemberRecord& self() const;
  [[nodiscard]] const base::PeerId& self_id() const noexcept { return self_id_; }
  /// Of a member that there is.
  [[nodiscard]] const Judgement& judgement(const base::PeerId& id) const {
    return members_.at(id).judgement;
  }
  [[nodiscard]] const std::map<base::PeerId, Member>& members() const noexcept { return members_; }
  /// Members whose judgement is due at a time.
  [[nodiscard]] const std::set<base::PeerId>& waiting() const noexcept { return waiting_; }
  /// Members of which it is told why they are not alive.
  [[nodiscard]] std::size_t lost() const noexcept { return lost_; }
  /// Members that are dead: left ones are not among them.
  [[nodiscard]] const std::set<base::PeerId>& dead() const noexcept { return dead_; }
  /// Members that count as alive and have no replica.
  [[nodiscard]] const std::set<base::PeerId>& relays() const noexcept { return relays_; }
  /// Whether a member that counts as alive has just these addresses.
  [[nodiscard]] bool anyone_alive_at(const std::vector<std::string>& addresses) const;
  /// Different addresses of those that are.
  [[nodiscard]] std::size_t places() const noexcept { return alive_at_.size(); }
  /// Members that count as alive, self included.
  [[nodiscard]] std::size_t alive_count() const noexcept { return alive_; }
  /// Whether a member, be it alive or not, has said that it cannot be dialed.
  [[nodiscard]] bool anyone_only_dials() const noexcept { return only_dial_ > 0; }

  /// Changes by one whenever the set of members that count as alive, or a speed of theirs, does.
  [[nodiscard]] std::uint64_t alive_version() const noexcept { return alive_version_; }

  /// Sum of the fingerprints of all records: equal tables have equal hashes, in whatever order
  /// they were filled.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  /// The same of each of 2^bits buckets, by the first bits of the id.
  [[nodiscard]] std::vector<std::uint64_t> bucket_hashes(std::uint8_t bits) const;
  /// The records in a bucket, in order.
  [[nodiscard]] std::vector<const wire::MemberRecord*> bucket(std::uint8_t bits,
                                                              std::uint16_t number) const;

 private:
  bool make_room();
  void count(const wire::MemberRecord& record);
  void discount(const wire::MemberRecord& record);

  base::PeerId self_id_;
  std::map<base::PeerId, Member> members_;
  std::set<base::PeerId> waiting_;
  std::size_t lost_ = 0;
  std::set<base::PeerId> dead_;
  std::set<base::PeerId> relays_;
  std::size_t only_dial_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> alive_at_;  ///< members, by hash of addresses
  std::size_t alive_ = 0;
  std::uint64_t alive_version_ = 0;
  std::uint64_t hash_ = 0;
};

/// How many bits to cut a table of this size by: about kBucketRecords a bucket.
[[nodiscard]] std::uint8_t bucket_bits(std::size_t records) noexcept;
/// The bucket of an id, by its prefix.
[[nodiscard]] std::uint16_t bucket_of(std::uint64_t prefix, std::uint8_t bits) noexcept;

}  // namespace starling::membership
