#include "wire/progress.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "wire/frame.hpp"
#include "wire/packed.hpp"

namespace starling::wire {
namespace {

constexpr std::uint8_t kHasReport = 1;
constexpr std::uint32_t kAgeUnitMs = 50;
constexpr std::uint64_t kAgeUnitsMax = 24ULL * 3600 * 1000 / kAgeUnitMs;
/// Bytes of the largest entry.
constexpr std::size_t kEntryMax = 8 + 1 + 10 + 5 + 2 + 8 + 2 + 5;
// A heartbeat must fit, however large its numbers are; the rest of it is far smaller than half.
static_assert(kProgressPerFrame * kEntryMax <= kMetadataMax / 2);

}  // namespace

std::vector<std::uint8_t> pack_progress(std::span<const Progress> entries) {
  ASSERT(entries.size() <= kProgressPerFrame);
  std::vector<std::uint8_t> bytes;
  for (const Progress& entry : entries) {
    put_bytes(bytes, entry.id_prefix, 8);
    bytes.push_back(entry.report ? kHasReport : 0);
    put_varint(bytes, entry.samples + (SIM_BUG(samples_rounded) ? 1000 : 0));
    put_varint(bytes, std::min<std::uint64_t>(entry.age_ms / kAgeUnitMs, kAgeUnitsMax));
    put_bfloat16(bytes, entry.rate);
    if (!entry.report) continue;
    put_float32(bytes, entry.loss);
    put_float32(bytes, entry.accuracy);
    put_bfloat16(bytes, entry.drift);
    put_varint(bytes, entry.links);
  }
  ASSERT(bytes.size() <= entries.size() * kEntryMax);
  return bytes;
}

base::Result<std::vector<Progress>> unpack_progress(std::span<const std::uint8_t> bytes) {
  std::vector<Progress> entries;
  PackedCursor cursor(bytes);
  while (!cursor.at_end()) {
    if (entries.size() == kProgressPerFrame) {
      return base::fail(base::ErrorCode::protocol, "a heartbeat has over {} progress entries",
                        kProgressPerFrame);
    }
    Progress entry;
    entry.id_prefix = cursor.fixed(8);
    const std::uint64_t parts = cursor.fixed(1);
    entry.report = parts == kHasReport;
    entry.samples = cursor.varint();
    const std::uint64_t age = cursor.varint();
    entry.rate = cursor.bfloat16();
    std::uint64_t links = 0;
    if (entry.report) {
      entry.loss = cursor.float32();
      entry.accuracy = cursor.float32();
      entry.drift = cursor.bfloat16();
      links = cursor.varint();
    }
    // An unknown part could not be told from the next entry.
    if (!cursor.good() || parts > kHasReport || age > kAgeUnitsMax || !is_amount(entry.rate) ||
        !is_amount(entry.drift) || links > 0xffffffff) {
      return base::fail(base::ErrorCode::protocol, "a progress entry is malformed");
    }
    entry.age_ms = static_cast<std::uint32_t>(age) * kAgeUnitMs;
    entry.links = static_cast<std::uint32_t>(links);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace starling::wire
