// Numbers packed into few bytes, for metadata that is sent often: progress entries, heads of
// deltas. Little-endian; a varint has 7 bits a byte, least first, the top bit set on all but the
// last.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bfloat16.hpp"

namespace starling::wire {

inline void put_bytes(std::vector<std::uint8_t>& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

inline void put_varint(std::vector<std::uint8_t>& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::uint8_t>(value | 0x80));
  bytes.push_back(static_cast<std::uint8_t>(value));
}

inline void put_float32(std::vector<std::uint8_t>& bytes, float value) {
  put_bytes(bytes, std::bit_cast<std::uint32_t>(value), 4);
}

inline void put_bfloat16(std::vector<std::uint8_t>& bytes, float value) {
  put_bytes(bytes, base::narrow_to_even(value).bits, 2);
}

/// Whether a received number can be an amount: finite and not negative.
inline bool is_amount(float value) { return std::isfinite(value) && value >= 0; }

/// Reads from the front; past the end it reads zeros and is no longer good.
class PackedCursor {
 public:
  explicit PackedCursor(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }
  [[nodiscard]] std::span<const std::uint8_t> rest() const { return bytes_; }

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

}  // namespace starling::wire
