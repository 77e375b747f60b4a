#include "wire/progress.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.hpp"
#include "base/bfloat16.hpp"
#include "base/simulated.hpp"

namespace starling::wire {
namespace {

constexpr std::uint8_t kHasReport = 1;
constexpr std::uint32_t kAgeUnitMs = 50;
constexpr std::uint64_t kAgeUnitsMax = 24ULL * 3600 * 1000 / kAgeUnitMs;

void put_bytes(std::vector<std::uint8_t>& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

void put_varint(std::vector<std::uint8_t>& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::uint8_t>(value | 0x80));
  bytes.push_back(static_cast<std::uint8_t>(value));
}

void put_bfloat16(std::vector<std::uint8_t>& bytes, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  put_bytes(bytes, (bits + 0x7fff + (bits >> 16 & 1)) >> 16, 2);
}

/// Reads from the front; past the end it reads zeros and is no longer good.
class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

  std::uint64_t fixed(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= std::uint64_t{next()} << (8 * i);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = next();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    good_ = false;
    return 0;
  }
  float float32() { return std::bit_cast<float>(static_cast<std::uint32_t>(fixed(4))); }
  float bfloat16() { return base::widen(base::BFloat16{static_cast<std::uint16_t>(fixed(2))}); }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) {
      good_ = false;
      return 0;
    }
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  std::span<const std::uint8_t> bytes_;
  bool good_ = true;
};

bool is_amount(float value) { return std::isfinite(value) && value >= 0; }

}  // namespace

std::vector<std::uint8_t> pack_progress(std::span<const Progress> entries) {
  ASSERT(entries.size() <= kProgressPerFrame);
  std::vector<std::uint8_t> bytes;
  for (const Progress& entry : entries) {
    put_bytes(bytes, entry.id_prefix, 8);
    bytes.push_back(entry.report ? kHasReport : 0);
    put_varint(bytes, entry.samples + (BUG(samples_rounded) ? 1000 : 0));
    put_varint(bytes, std::min<std::uint64_t>(entry.age_ms / kAgeUnitMs, kAgeUnitsMax));
    put_bfloat16(bytes, entry.rate);
    if (!entry.report) continue;
    put_bytes(bytes, std::bit_cast<std::uint32_t>(entry.loss), 4);
    put_bytes(bytes, std::bit_cast<std::uint32_t>(entry.accuracy), 4);
    put_bfloat16(bytes, entry.drift);
    put_varint(bytes, entry.links);
  }
  return bytes;
}

base::Result<std::vector<Progress>> unpack_progress(std::span<const std::uint8_t> bytes) {
  std::vector<Progress> entries;
  Cursor cursor(bytes);
  while (!cursor.at_end()) {
    if (entries.size() == kProgressPerFrame) {
      return base::fail(base::ErrorCode::protocol, "a heartbeat has over {} progress entries",
                        kProgressPerFrame);
    }
    Progress entry;
    entry.id_prefix = cursor.fixed(8);
    entry.report = (cursor.fixed(1) & kHasReport) != 0;
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
    if (!cursor.good() || age > kAgeUnitsMax || !is_amount(entry.rate) || !is_amount(entry.drift) ||
        links > 0xffffffff) {
      return base::fail(base::ErrorCode::protocol, "a progress entry is malformed");
    }
    entry.age_ms = static_cast<std::uint32_t>(age) * kAgeUnitMs;
    entry.links = static_cast<std::uint32_t>(links);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace starling::wire
