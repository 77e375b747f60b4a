#include "delta/golomb.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/assert.hpp"
#include "wire/delta_format.hpp"

namespace starling::delta {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using wire::delta_format::golomb_divisor;
using wire::delta_format::golomb_odd;
using wire::delta_format::golomb_shift;
using wire::delta_format::kGolombMax;

constexpr std::uint32_t kPrefixMax = 3;  // bits of a prefix
constexpr std::uint32_t kPrefixMask = (1U << kPrefixMax) - 1;

// A prefix as it lies in the stream, its first bit lowest.
struct Prefix {
  std::uint8_t code = 0;
  std::uint8_t size = 0;
};

// Prefixes of one odd factor: by what they stand for, and what stands for each three bits read.
struct Prefixes {
  std::array<Prefix, 8> of{};
  std::array<std::uint8_t, 8> part{};
  std::array<std::uint8_t, 8> size{};
};

// Truncated binary: the first 2^b - odd parts have b - 1 bits, the others b, where 2^b >= odd.
constexpr Prefixes prefixes_of(std::uint32_t odd) {
  Prefixes prefixes;
  const auto longest = static_cast<std::uint32_t>(std::bit_width(odd - 1));
  const std::uint32_t shorter = (1U << longest) - odd;
  for (std::uint32_t part = 0; part < odd; ++part) {
    const std::uint32_t size = part < shorter ? longest - 1 : longest;
    const std::uint32_t word = part < shorter ? part : part + shorter;
    std::uint32_t code = 0;
    for (std::uint32_t i = 0; i < size; ++i) code |= (word >> (size - 1 - i) & 1) << i;
    prefixes.of[part] = {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size)};
    for (std::uint32_t rest = 0; rest < 1U << (kPrefixMax - size); ++rest) {
      prefixes.part[code | rest << size] = static_cast<std::uint8_t>(part);
      prefixes.size[code | rest << size] = static_cast<std::uint8_t>(size);
    }
  }
  return prefixes;
}

constexpr std::array<Prefixes, 4> kPrefixes = {prefixes_of(1), prefixes_of(3), prefixes_of(5),
                                               prefixes_of(7)};

// Bits of a code from its one bit on, at most.
constexpr std::uint32_t kTailMax = 1 + kPrefixMax + kGolombMax / 4;

// Gaps that decide on the divisor: of more, evenly spread ones.
constexpr std::size_t kGapsLooked = 2048;

std::uint32_t gap_at(std::span<const std::uint32_t> indices, std::size_t j) {
  return j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1;
}

// Bits that the gaps looked at take.
std::uint64_t bits_with(std::span<const std::uint32_t> gaps, std::uint32_t parameter) {
  const std::uint32_t odd = golomb_odd(parameter);
  const std::uint32_t shift = golomb_shift(parameter);
  const auto& prefixes = kPrefixes[odd / 2].of;
  std::uint64_t bits = gaps.size() * (std::uint64_t{1} + shift);
  for (const std::uint32_t gap : gaps) {
    const std::uint32_t high = gap >> shift;
    bits += high / odd + prefixes[high % odd].size;
  }
  return bits;
}

// Bits into memory that has 8 bytes more than they need, lowest first.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  // The low `count` bits of `value`, whose others are zero; count <= 56.
  void put(std::uint64_t value, std::uint32_t count) {
    pending_ |= value << used_;
    used_ += count;
    std::memcpy(to_, &pending_, sizeof pending_);
    to_ += used_ / 8;
    pending_ >>= used_ / 8 * 8;
    used_ %= 8;
  }

  void put_zeros(std::uint32_t count) {
    for (; count > kAtOnce; count -= kAtOnce) put(0, kAtOnce);
    put(0, count);
  }

  // The end of what was written.
  [[nodiscard]] std::byte* end() const { return to_ + (used_ > 0 ? 1 : 0); }

  static constexpr std::uint32_t kAtOnce = 56;

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  std::uint32_t used_ = 0;  // below 8 between calls
};

// One copy for each odd factor: divisions by constants are multiplications.
template <std::uint32_t odd>
std::byte* write_codes(std::span<const std::uint32_t> indices, std::uint32_t shift, std::byte* to) {
  BitWriter writer(to);
  const std::uint32_t mask = (1U << shift) - 1;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    const std::uint32_t high = gap >> shift;
    const std::uint32_t zeros = high / odd;
    const Prefix prefix = kPrefixes[odd / 2].of[high % odd];
    const std::uint32_t low_at = 1U + prefix.size;
    const std::uint64_t tail =
        1U | std::uint64_t{prefix.code} << 1 | std::uint64_t{gap & mask} << low_at;
    const std::uint32_t size = low_at + shift;
    if (zeros + size <= BitWriter::kAtOnce) {
      writer.put(tail << zeros, zeros + size);
    } else {
      writer.put_zeros(zeros);
      writer.put(tail, size);
    }
    next = index + 1;
  }
  return writer.end();
}

// At least 57 bits from bit `position`; zeros stand beyond the end.
std::uint64_t peek(base::ByteView bytes, std::size_t position) noexcept {
  const std::size_t at = position / 8;
  std::uint64_t word = 0;
  if (at + sizeof word <= bytes.size()) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
  } else if (at < bytes.size()) {
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  }
  return word >> (position % 8);
}

constexpr std::uint32_t kPeekBits = 57;
static_assert(kTailMax <= BitWriter::kAtOnce && kTailMax <= kPeekBits);

}  // namespace

std::uint32_t golomb_parameter(std::span<const std::uint32_t> indices, std::size_t n) {
  if (indices.empty()) return 0;
  std::array<std::uint32_t, kGapsLooked> room;
  const std::size_t looked = std::min(kGapsLooked, indices.size());
  for (std::size_t i = 0; i < looked; ++i) room[i] = gap_at(indices, i * indices.size() / looked);
  const std::span<const std::uint32_t> gaps(room.data(), looked);
  // The best divisor for geometric gaps is about ln 2 / density. Crowded indices (one layer moves,
  // others rest) want a smaller one.
  const double density = static_cast<double>(indices.size()) / static_cast<double>(n);
  const double largest = std::max(1.5 * std::log(2.0) / density, 1.0);
  std::uint32_t best = 0;
  std::uint64_t best_bits = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t parameter = 0; parameter <= kGolombMax; ++parameter) {
    const double divisor = golomb_divisor(parameter);
    if (divisor > largest || divisor * 8 < largest) continue;
    const std::uint64_t bits = bits_with(gaps, parameter);
    if (bits < best_bits) {
      best = parameter;
      best_bits = bits;
    }
  }
  return best;
}

void golomb_encode(std::span<const std::uint32_t> indices, std::uint32_t parameter,
                   base::Buffer& out) {
  if (indices.empty()) return;
  ASSERT(parameter <= kGolombMax);
  const std::uint32_t shift = golomb_shift(parameter);
  // Quotients add up to no more than that of the last index; put() writes eight bytes at a time.
  const std::size_t bits = indices.size() * std::size_t{1 + kPrefixMax + shift} +
                           indices.back() / golomb_divisor(parameter);
  const std::size_t begin = out.size();
  out.resize(begin + bits / 8 + 1 + sizeof(std::uint64_t));
  std::byte* const to = out.data() + begin;
  constexpr std::array kWrite = {write_codes<1>, write_codes<3>, write_codes<5>, write_codes<7>};
  std::byte* const end = kWrite[golomb_odd(parameter) / 2](indices, shift, to);
  out.resize(static_cast<std::size_t>(end - out.data()));
}

bool golomb_decode(base::ByteView bytes, std::uint32_t parameter, std::size_t n,
                   std::span<std::uint32_t> out) {
  if (parameter > kGolombMax) return false;
  const std::uint32_t shift = golomb_shift(parameter);
  const Prefixes& prefixes = kPrefixes[golomb_odd(parameter) / 2];
  const std::uint64_t divisor = golomb_divisor(parameter);
  const std::size_t end = bytes.size() * 8;
  const std::uint64_t mask = (std::uint64_t{1} << shift) - 1;
  std::size_t position = 0;
  std::uint64_t next = 0;
  for (std::uint32_t& index : out) {
    std::uint64_t word = peek(bytes, position);
    std::uint64_t quotient = 0;
    while (word == 0) {  // rare: a gap of more than 56 divisors
      quotient += kPeekBits - 1;
      position += kPeekBits - 1;
      if (position >= end || quotient >= n) return false;
      word = peek(bytes, position);
    }
    const auto run = static_cast<std::uint32_t>(std::countr_zero(word));
    quotient += run;
    position += run + 1;
    std::uint64_t rest = run + kTailMax <= kPeekBits ? word >> run >> 1 : peek(bytes, position);
    const std::uint64_t prefix = rest & kPrefixMask;
    const std::uint32_t size = prefixes.size[prefix];
    const std::uint64_t high = std::uint64_t{prefixes.part[prefix]} << shift;
    position += size + shift;
    const std::uint64_t place = next + quotient * divisor + high + (rest >> size & mask);
    if (place >= n) return false;
    index = static_cast<std::uint32_t>(place);
    next = place + 1;
  }
  // Codes may not read past the end; what is left must be zero bits of the last byte.
  return position <= end && end - position < 8 && peek(bytes, position) == 0;
}

}  // namespace starling::delta
