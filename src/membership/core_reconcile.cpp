// Core: what two ends do to make their member tables equal (anti-entropy). The hash of a table is
// in each heartbeat; where it differs for a while, the hashes of its buckets are sent, answered by
// the entries of those that differ, and those by the records that one end lacks.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/core.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

using wire::MemberRecord;
using wire::TableEntry;

// A table that is one bucket is told by its entries at once.
void Core::reconcile(base::LinkId id, Outbox& out) const {
  if (SIM_BUG(reconcile_never)) return;
  const std::uint8_t bits =
      SIM_RARE(reconcile_by_entries) ? std::uint8_t{0} : bucket_bits(table_.records().size());
  if (bits == 0) return send_entries(id, bits, {0}, out);
  send(id, wire::Reconcile{.bits = bits, .hashes = table_.bucket_hashes(bits)}, out);
}

void Core::send_entries(base::LinkId id, std::uint8_t bits,
                        const std::vector<std::uint16_t>& buckets, Outbox& out) const {
  wire::Reconcile message{.bits = bits};
  for (const std::uint16_t number : buckets) {
    auto records = table_.bucket(bits, number);
    const bool full = message.entries.size() + records.size() > wire::kEntriesPerFrame;
    if ((full || SIM_RARE(one_bucket_a_frame)) && !message.entries.empty()) {
      send(id, std::exchange(message, wire::Reconcile{.bits = bits}), out);
    }
    // A bucket that large was made so by someone; what is cut off is asked for in vain.
    if (records.size() > wire::kEntriesPerFrame) records.resize(wire::kEntriesPerFrame);
    message.buckets.push_back(number);
    for (const MemberRecord* record : records) {
      message.entries.push_back({record->id.prefix(), version_of(*record)});
    }
  }
  if (!message.buckets.empty()) send(id, std::move(message), out);
}

void Core::on_message(base::LinkId id, const wire::Reconcile& message, base::Time now,
                      Outbox& out) {
  if (!message.hashes.empty()) {
    const std::vector<std::uint64_t> own = table_.bucket_hashes(message.bits);
    ASSERT(own.size() == message.hashes.size(), "checked where it was decoded");
    std::vector<std::uint16_t> differ;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != message.hashes[i]) differ.push_back(static_cast<std::uint16_t>(i));
    }
    send_entries(id, message.bits, differ, out);
  }
  if (!message.buckets.empty()) settle_entries(id, message, now, out);
  std::vector<const MemberRecord*> asked;
  for (const std::uint64_t prefix : message.wanted) {
    if (const MemberRecord* record = table_.find(prefix)) asked.push_back(record);
  }
  send_records(id, std::move(asked), now, out);
}

// The other end's entries of some buckets: it gets what it lacks, and is asked for what is newer.
void Core::settle_entries(base::LinkId id, const wire::Reconcile& message, base::Time now,
                          Outbox& out) {
  std::map<std::uint64_t, std::uint64_t> theirs;
  for (const TableEntry& entry : message.entries) theirs[entry.prefix] = entry.version;
  std::vector<const MemberRecord*> newer;
  for (const std::uint16_t number : message.buckets) {
    for (const MemberRecord* record : table_.bucket(message.bits, number)) {
      const auto entry = theirs.find(record->id.prefix());
      if (entry == theirs.end() || entry->second < version_of(*record)) newer.push_back(record);
    }
  }
  wire::Reconcile question{.bits = message.bits};
  for (const auto& [prefix, version] : theirs) {
    const MemberRecord* own = table_.find(prefix);
    if (own == nullptr || version_of(*own) < version) question.wanted.push_back(prefix);
  }
  if (!question.wanted.empty() && !SIM_RARE(no_question)) send(id, std::move(question), out);
  send_records(id, std::move(newer), now, out);
}

void Core::send_records(base::LinkId id, std::vector<const MemberRecord*> records, base::Time now,
                        Outbox& out) {
  Link& link = links_.at(id);
  if (now - link.asked_since >= kTableEveryMin) {
    link.asked_since = now;
    link.asked = 0;
  }
  records.resize(std::min(records.size(), kRecordsAsked - std::min(link.asked, kRecordsAsked)));
  if (SIM_RARE(few_records)) records.resize(records.size() / 2);
  link.asked += records.size();
  std::vector<MemberRecord> copies;
  copies.reserve(records.size());
  for (const MemberRecord* record : records) copies.push_back(*record);
  for (wire::Gossip& gossip : to_gossip(std::move(copies))) send(id, std::move(gossip), out);
}

}  // namespace starling::membership
