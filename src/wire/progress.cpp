#include "wire/progress.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "wire/frame.hpp"
#include "wire/packed.hpp"

namespace starling::wire {
namespace {

constexpr std::uint8_t kHasReport = 1;
constexpr std::uint8_t kHasVoucher = 2;
constexpr std::uint32_t kAgeUnitMs = 50;
constexpr std::uint64_t kAgeUnitsMax = 24ULL * 3600 * 1000 / kAgeUnitMs;
/// Bytes of the largest entry without a voucher, and of a voucher.
constexpr std::size_t kEntryMax = 8 + 1 + 10 + 5 + 2 + 8 + 2 + 5;
constexpr std::size_t kVoucherMax = 10 + sizeof(PublicKey) + sizeof(Signature);
// A heartbeat must fit, however large its numbers are; the rest of it is far smaller than half.
static_assert(kProgressPerFrame * kEntryMax + kVouchersPerFrame * kVoucherMax <= kMetadataMax / 2);

std::size_t vouchers_in(std::span<const Progress> entries) {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries, [](const Progress& entry) { return entry.voucher.has_value(); }));
}

void put_voucher(std::vector<std::uint8_t>& bytes, const Voucher& voucher) {
  put_varint(bytes, voucher.limit);
  bytes.insert(bytes.end(), voucher.by.begin(), voucher.by.end());
  bytes.insert(bytes.end(), voucher.signature.begin(), voucher.signature.end());
}

Voucher voucher_at(PackedCursor& cursor) {
  Voucher voucher{.limit = cursor.varint()};
  for (std::uint8_t& byte : voucher.by) byte = static_cast<std::uint8_t>(cursor.fixed(1));
  for (std::uint8_t& byte : voucher.signature) byte = static_cast<std::uint8_t>(cursor.fixed(1));
  return voucher;
}

}  // namespace

std::vector<std::uint8_t> pack_progress(std::span<const Progress> entries) {
  ASSERT(entries.size() <= kProgressPerFrame && vouchers_in(entries) <= kVouchersPerFrame);
  std::vector<std::uint8_t> bytes;
  for (const Progress& entry : entries) {
    put_bytes(bytes, entry.id_prefix, 8);
    bytes.push_back(static_cast<std::uint8_t>((entry.report ? kHasReport : 0) |
                                              (entry.voucher ? kHasVoucher : 0)));
    put_varint(bytes, entry.samples + (SIM_BUG(samples_rounded) ? 1000 : 0));
    put_varint(bytes, std::min<std::uint64_t>(entry.age_ms / kAgeUnitMs, kAgeUnitsMax));
    put_bfloat16(bytes, entry.rate);
    if (entry.report) {
      put_float32(bytes, entry.loss);
      put_float32(bytes, entry.accuracy);
      put_bfloat16(bytes, entry.drift);
      put_varint(bytes, entry.links);
    }
    if (entry.voucher) put_voucher(bytes, *entry.voucher);
  }
  ASSERT(bytes.size() <= entries.size() * kEntryMax + vouchers_in(entries) * kVoucherMax);
  return bytes;
}

base::Result<std::vector<Progress>> unpack_progress(std::span<const std::uint8_t> bytes) {
  std::vector<Progress> entries;
  std::size_t vouchers = 0;
  PackedCursor cursor(bytes);
  while (!cursor.at_end()) {
    if (entries.size() == kProgressPerFrame) {
      return base::fail(base::ErrorCode::protocol, "a heartbeat has over {} progress entries",
                        kProgressPerFrame);
    }
    Progress entry;
    entry.id_prefix = cursor.fixed(8);
    const std::uint64_t parts = cursor.fixed(1);
    entry.report = (parts & kHasReport) != 0;
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
    if ((parts & kHasVoucher) != 0) {
      entry.voucher = voucher_at(cursor);
      if (++vouchers > kVouchersPerFrame) {
        return base::fail(base::ErrorCode::protocol, "a heartbeat has over {} vouchers",
                          kVouchersPerFrame);
      }
    }
    // An unknown part could not be told from the next entry.
    if (!cursor.good() || parts > (kHasReport | kHasVoucher) || age > kAgeUnitsMax ||
        !is_amount(entry.rate) || !is_amount(entry.drift) || links > 0xffffffff) {
      return base::fail(base::ErrorCode::protocol, "a progress entry is malformed");
    }
    entry.age_ms = static_cast<std::uint32_t>(age) * kAgeUnitMs;
    entry.links = static_cast<std::uint32_t>(links);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace starling::wire
