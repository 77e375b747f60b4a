#include "membership/detector/reconciler.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

using wire::MemberRecord;
using wire::TableEntry;

// A table that is one bucket is told by its entries at once.
void Reconciler::begin(base::LinkId id, DetectorOutbox& out) const {
  if (SIM_BUG(reconcile_never)) return;
  const std::uint8_t bits =
      SIM_RARE(reconcile_by_entries) ? std::uint8_t{0} : bucket_bits(table_.members().size());
  if (bits == 0) return send_entries(id, bits, {0}, out);
  out.push_back(Send{id, wire::Reconcile{.bits = bits, .hashes = table_.bucket_hashes(bits)}});
}

void Reconciler::note_hash(base::LinkId id, Comparison& link, std::uint64_t hash, base::Time now,
                           DetectorOutbox& out) const {
  if (hash == table_.hash()) {
    link.mismatches = 0;
    link.pause = base::Duration{0};
  } else if (++link.mismatches >= (SIM_RARE(reconcile_early) ? 1 : kMismatchBeats) &&
             now >= link.next_at && !SIM_RARE(reconcile_late)) {
    link.mismatches = 0;
    // Tables at their bound may never agree: ever more rarely.
    link.pause = std::clamp(2 * link.pause, kTableEveryMin, kTableEveryMax);
    link.next_at = now + link.pause;
    begin(id, out);
  }
}

void Reconciler::send_entries(base::LinkId id, std::uint8_t bits,
                              const std::vector<std::uint16_t>& buckets,
                              DetectorOutbox& out) const {
  wire::Reconcile message{.bits = bits};
  for (const std::uint16_t number : buckets) {
    auto records = table_.bucket(bits, number);
    const bool full = message.entries.size() + records.size() > wire::kEntriesPerFrame;
    if ((full || SIM_RARE(one_bucket_a_frame)) && !message.entries.empty()) {
      out.push_back(Send{id, std::exchange(message, wire::Reconcile{.bits = bits})});
    }
    // A bucket that large was made so by someone; what is cut off is asked for in vain.
    if (records.size() > wire::kEntriesPerFrame) records.resize(wire::kEntriesPerFrame);
    message.buckets.push_back(number);
    for (const MemberRecord* record : records) {
      message.entries.push_back({record->id.prefix(), version_of(*record)});
    }
  }
  if (!message.buckets.empty()) out.push_back(Send{id, std::move(message)});
}

void Reconciler::take(base::LinkId id, Comparison& link, const wire::Reconcile& message,
                      base::Time now, DetectorOutbox& out) const {
  if (!message.hashes.empty()) {
    const std::vector<std::uint64_t> own = table_.bucket_hashes(message.bits);
    ASSERT(own.size() == message.hashes.size(), "checked where it was decoded");
    std::vector<std::uint16_t> differ;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != message.hashes[i]) differ.push_back(static_cast<std::uint16_t>(i));
    }
    send_entries(id, message.bits, differ, out);
  }
  if (!message.buckets.empty()) settle_entries(id, link, message, now, out);
  Records asked;
  for (const std::uint64_t prefix : message.wanted) {
    if (const MemberRecord* record = table_.find(prefix)) asked.push_back(record);
  }
  send_records(id, link, std::move(asked), now, out);
}

// The other end's entries of some buckets: it gets what it lacks, and is asked for what is newer.
void Reconciler::settle_entries(base::LinkId id, Comparison& link, const wire::Reconcile& message,
                                base::Time now, DetectorOutbox& out) const {
  std::map<std::uint64_t, std::uint64_t> theirs;
  for (const TableEntry& entry : message.entries) theirs[entry.prefix] = entry.version;
  Records newer;
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
  if (!question.wanted.empty() && !SIM_RARE(no_question))
    out.push_back(Send{id, std::move(question)});
  send_records(id, link, std::move(newer), now, out);
}

void Reconciler::send_records(base::LinkId id, Comparison& link, Records records, base::Time now,
                              DetectorOutbox& out) {
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
  for (wire::Gossip& gossip : to_gossip(std::move(copies)))
    out.push_back(Send{id, std::move(gossip)});
}

}  // namespace starling::membership
