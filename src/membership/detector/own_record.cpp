#include "membership/detector/own_record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

using base::Severity;
using wire::MemberRecord;

void OwnRecord::change(const SpeedMeasured& event) {
  MemberRecord record = table_.self();
  if (record.speed == event.speed && record.weight == event.weight) return;
  record.speed = event.speed;
  record.weight = event.weight;
  announce_change(std::move(record));
}

void OwnRecord::change(const Moved& event) {
  ASSERT(!event.addresses.empty() && event.addresses.size() <= wire::kAddressesMax);
  MemberRecord record = table_.self();
  if (record.addresses == event.addresses && record.reach == event.reach) return;
  record.addresses = event.addresses;
  record.reach = event.reach;
  announce_change(std::move(record));
}

void OwnRecord::announce_change(MemberRecord own) {
  if (left_ || own.incarnation + 1 >= kCounterMax) return;
  ++own.incarnation;
  static_cast<void>(announce(std::move(own)));
}

bool OwnRecord::announce(MemberRecord own) {
  sign(own, signer_);
  if (!table_.apply(own)) return false;
  rumours_.add(own.id, base::LinkId{});
  return true;
}

void OwnRecord::leave() {
  left_ = true;
  MemberRecord record = table_.self();
  record.incarnation = std::max(record.incarnation, conflict_.open()) + 1;
  record.state = wire::MemberState::left;
  if (!SIM_BUG(leave_unsigned)) sign(record, signer_);
  static_cast<void>(table_.apply(record));
  rumours_.add(record.id, base::LinkId{});
}

// Only its owner raises an incarnation, so whatever else others hold of this peer is overruled.
bool OwnRecord::raise_above(std::uint64_t incarnation, base::Time now) {
  if (left_) return false;
  if (conflict_.open() != 0 && incarnation >= conflict_.open()) {
    conflict_.overruled(rng_, now);
  }
  if (SIM_BUG(refute_never)) return false;
  MemberRecord raised = table_.self();
  raised.incarnation = std::min(incarnation + (SIM_RARE(refute_twice) ? 2 : 1), kCounterMax - 1);
  return announce(std::move(raised));
}

void OwnRecord::refute(std::uint64_t incarnation, std::string_view taken_for, base::Time now,
                       DetectorOutbox& out) {
  if (!raise_above(incarnation, now)) return;
  out.push_back(base::LogEntry{Severity::info,
                               fmt::format("refuted: this peer was taken for {}", taken_for)});
}

void OwnRecord::met(const MemberRecord& record, base::Time now, DetectorOutbox& out) {
  if (left_) return;
  if (record.state != wire::MemberState::alive) {
    return refute(record.incarnation, wire::to_string(record.state), now, out);
  }
  if (conflict_.note_other(record.incarnation, now)) {
    const auto& at = record.addresses;
    out.push_back(base::LogEntry{
        Severity::warning,
        fmt::format("another process has this peer's key (key.pem in its folder) and is at {}: "
                    "stop one of the two, or start one in a folder of its own",
                    at.empty() ? "an address it does not tell" : at.front())});
  }
  overrule_if_due(now, out);
}

void OwnRecord::overrule_if_due(base::Time now, DetectorOutbox& out) {
  const auto due = conflict_.due();
  if (!due || *due > now || !raise_above(conflict_.open(), now)) return;
  out.push_back(
      base::LogEntry{Severity::info, "overruled a newer record of this peer that it did not make"});
}

}  // namespace starling::membership
