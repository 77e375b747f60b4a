#include "membership/member_table.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "membership/limits.hpp"

namespace starling::membership {
namespace {

using wire::MemberRecord;
using wire::MemberState;

// The lowest id of a prefix.
base::PeerId lowest(std::uint64_t prefix) {
  base::PeerId id;
  for (std::size_t i = 0; i < 8; ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(prefix >> (56 - 8 * i));
  }
  return id;
}

std::uint64_t hash_of(const std::vector<std::string>& addresses) {
  std::uint64_t hash = addresses.size();
  for (const std::string& address : addresses) {
    hash = base::xxh3(std::string_view(address), hash);
  }
  return hash;
}

}  // namespace

MemberTable::MemberTable(MemberRecord self) : self_id_(self.id) {
  count(self);
  members_.emplace(self_id_, Member{std::move(self)});
}

bool MemberTable::apply(const MemberRecord& record) {
  const auto found = members_.find(record.id);
  if (found == members_.end()) {
    if (members_.size() >= kMembersMax && !make_room()) return false;
    members_.emplace(record.id, Member{record});
    if (counts_as_alive(record.state)) ++alive_version_;
  } else {
    MemberRecord& known = found->second.record;
    if (version_of(record) <= version_of(known)) return false;
    discount(known);
    const bool was_alive = counts_as_alive(known.state);
    const bool is_alive = counts_as_alive(record.state);
    if (was_alive != is_alive || (is_alive && known.speed != record.speed)) ++alive_version_;
    known = record;
  }
  count(record);
  return true;
}

void MemberTable::mark_suspect(const base::PeerId& id) {
  MemberRecord& record = members_.at(id).record;
  ASSERT(counts_as_alive(record.state));
  record.state = MemberState::suspect;
}

void MemberTable::count(const MemberRecord& record) {
  hash_ += fingerprint(record.id, version_of(record));
  only_dial_ += record.reach == wire::Reachability::dials_only ? 1 : 0;
  if (record.state == MemberState::dead) dead_.insert(record.id);
  if (!counts_as_alive(record.state)) return;
  ++alive_;
  if (!record.has_replica) relays_.insert(record.id);
  ++alive_at_[hash_of(record.addresses)];
}

void MemberTable::discount(const MemberRecord& record) {
  hash_ -= fingerprint(record.id, version_of(record));
  only_dial_ -= record.reach == wire::Reachability::dials_only ? 1 : 0;
  if (record.state == MemberState::dead) dead_.erase(record.id);
  if (!counts_as_alive(record.state)) return;
  --alive_;
  relays_.erase(record.id);
  const auto at = alive_at_.find(hash_of(record.addresses));
  if (--at->second == 0) alive_at_.erase(at);
}

bool MemberTable::make_room() {
  const auto gone = std::ranges::find_if(members_, [&](const auto& entry) {
    return entry.first != self_id_ && !counts_as_alive(entry.second.record.state);
  });
  if (gone == members_.end()) return false;
  discount(gone->second.record);
  judge(gone->first, [](Judgement& judgement) { judgement = {}; });
  members_.erase(gone);
  return true;
}

bool MemberTable::anyone_alive_at(const std::vector<std::string>& addresses) const {
  return alive_at_.contains(hash_of(addresses));
}

const MemberRecord* MemberTable::find(const base::PeerId& id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second.record;
}

const MemberRecord* MemberTable::find(std::uint64_t prefix) const {
  const auto found = members_.lower_bound(lowest(prefix));
  if (found == members_.end() || found->first.prefix() != prefix) return nullptr;
  return &found->second.record;
}

const MemberRecord& MemberTable::self() const {
  const MemberRecord* self = find(self_id_);
  ASSERT(self != nullptr, "a peer's own record is never evicted");
  return *self;
}

std::vector<std::uint64_t> MemberTable::bucket_hashes(std::uint8_t bits) const {
  std::vector<std::uint64_t> hashes(std::size_t{1} << bits);
  for (const auto& [id, member] : members_) {
    hashes[bucket_of(id.prefix(), bits)] += fingerprint(id, version_of(member.record));
  }
  return hashes;
}

std::vector<const MemberRecord*> MemberTable::bucket(std::uint8_t bits,
                                                     std::uint16_t number) const {
  std::vector<const MemberRecord*> records;
  const std::uint64_t first = bits == 0 ? 0 : std::uint64_t{number} << (64 - bits);
  for (auto at = members_.lower_bound(lowest(first)); at != members_.end(); ++at) {
    if (bucket_of(at->first.prefix(), bits) != number) break;
    records.push_back(&at->second.record);
  }
  return records;
}

std::uint8_t bucket_bits(std::size_t records) noexcept {
  std::uint8_t bits = 0;
  while (bits < wire::kBucketBitsMax && records > kBucketRecords << bits) ++bits;
  return bits;
}

std::uint16_t bucket_of(std::uint64_t prefix, std::uint8_t bits) noexcept {
  return bits == 0 ? 0 : static_cast<std::uint16_t>(prefix >> (64 - bits));
}

}  // namespace starling::membership
