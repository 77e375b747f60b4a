#include "membership/member_table.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "membership/limits.hpp"

namespace starling::membership {
namespace {

using wire::MemberRecord;

// Little-endian, strings with their length: two records never have the same bytes.
void put(std::string& bytes, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void put(std::string& bytes, const std::string& text) {
  put(bytes, text.size());
  bytes += text;
}

std::uint64_t hash_of(const MemberRecord& record) {
  std::string bytes;
  for (const std::uint8_t byte : record.id.bytes) bytes.push_back(static_cast<char>(byte));
  put(bytes, record.name);
  put(bytes, record.addresses.size());
  for (const std::string& address : record.addresses) put(bytes, address);
  put(bytes, record.incarnation);
  // Suspicion is left out: it ends within seconds, by itself and at each peer for itself.
  put(bytes, counts_as_alive(record.state) ? 0 : static_cast<std::uint64_t>(record.state));
  put(bytes, std::bit_cast<std::uint32_t>(record.weight));
  return base::xxh3(bytes);
}

std::size_t size_of(const MemberRecord& record) {
  std::size_t size = 96 + record.name.size();  // id, fixed fields and table overhead
  for (const std::string& address : record.addresses) size += 16 + address.size();
  return size;
}

}  // namespace

MemberTable::MemberTable(MemberRecord self) : self_id_(self.id) {
  hash_ = hash_of(self);
  records_.emplace(self.id, std::move(self));
}

bool MemberTable::is_newer(const MemberRecord& record) const {
  const MemberRecord* known = find(record.id);
  if (known == nullptr || record.incarnation > known->incarnation) return true;
  return record.incarnation == known->incarnation && record.state > known->state;
}

bool MemberTable::apply(const MemberRecord& record) {
  if (!is_newer(record)) return false;
  auto found = records_.find(record.id);
  if (found == records_.end()) {
    if (records_.size() >= kMembersMax && !make_room()) return false;
    found = records_.emplace(record.id, record).first;
    if (counts_as_alive(record.state)) ++alive_version_;
  } else {
    MemberRecord& known = found->second;
    hash_ -= hash_of(known);
    const bool was_alive = counts_as_alive(known.state);
    const bool is_alive = counts_as_alive(record.state);
    if (was_alive != is_alive || (is_alive && known.weight != record.weight)) ++alive_version_;
    known = record;
  }
  hash_ += hash_of(record);
  return true;
}

bool MemberTable::make_room() {
  const auto gone = std::find_if(records_.begin(), records_.end(), [&](const auto& entry) {
    return entry.first != self_id_ && !counts_as_alive(entry.second.state);
  });
  if (gone == records_.end()) return false;
  hash_ -= hash_of(gone->second);
  records_.erase(gone);
  return true;
}

const MemberRecord* MemberTable::find(const base::PeerId& id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

const MemberRecord& MemberTable::self() const {
  const MemberRecord* self = find(self_id_);
  ASSERT(self != nullptr, "a peer's own record is never evicted");
  return *self;
}

std::vector<wire::Gossip> to_gossip(std::vector<MemberRecord> records) {
  std::vector<wire::Gossip> messages;
  std::size_t bytes = 0;
  for (MemberRecord& record : records) {
    const std::size_t size = size_of(record);
    if (messages.empty() || messages.back().members.size() >= wire::kMembersPerGossip ||
        bytes + size > kGossipBytesMax) {
      messages.emplace_back();
      bytes = 0;
    }
    bytes += size;
    messages.back().members.push_back(std::move(record));
  }
  return messages;
}

}  // namespace starling::membership
