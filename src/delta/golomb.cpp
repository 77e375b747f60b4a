#include "delta/golomb.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/assert.hpp"
#include "delta/coding.hpp"
#include "delta/format.hpp"

namespace starling::delta {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using format::golomb_divisor;
using format::golomb_odd;
using format::golomb_shift;
using format::kGolombMax;

constexpr std::uint32_t kPrefixMask = (1U << kGolombPrefixMax) - 1;

// Prefixes of one odd factor: by their value, and the value by the next three bits.
struct Prefixes {
  std::array<GolombPrefix, 8> of{};
  std::array<GolombPart, 8> part{};
};

constexpr Prefixes prefixes_of(std::uint32_t odd) {
  Prefixes prefixes;
  for (std::uint32_t part = 0; part < odd; ++part) prefixes.of[part] = prefix_of(odd, part);
  for (std::uint32_t bits = 0; bits <= kPrefixMask; ++bits) {
    prefixes.part[bits] = part_of(odd, bits);
  }
  return prefixes;
}

constexpr std::array<Prefixes, 4> kPrefixes = {prefixes_of(1), prefixes_of(3), prefixes_of(5),
                                               prefixes_of(7)};

// Bits of a code from its one bit on, at most.
constexpr std::uint32_t kTailMax = 1 + kGolombPrefixMax + kGolombMax / 4;

// Bits that the sampled gaps take with a divisor of kOdd << shift; since the factor is a constant,
// each gap saves a division.
template <std::uint32_t kOdd>
std::uint64_t bits_with(std::span<const std::uint32_t> gaps, std::uint32_t shift) {
  constexpr std::uint32_t kLongest = longest_prefix(kOdd);
  constexpr std::uint32_t kShorter = shorter_prefixes(kOdd);
  std::uint64_t bits = gaps.size() * (std::uint64_t{1} + shift + kLongest);
  for (const std::uint32_t gap : gaps) {
    const std::uint32_t high = gap >> shift;
    bits += high / kOdd;
    bits -= high % kOdd < kShorter ? 1 : 0;
  }
  return bits;
}

// Writes bits, lowest first, into memory with 8 bytes more than they need.
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

  // The number of bits written from `begin` on.
  [[nodiscard]] std::uint64_t bits_since(const std::byte* begin) const {
    return static_cast<std::uint64_t>(to_ - begin) * 8 + used_;
  }
  // The end of the written bytes.
  [[nodiscard]] std::byte* end() const { return to_ + (used_ > 0 ? 1 : 0); }

  static constexpr std::uint32_t kAtOnce = 56;

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  std::uint32_t used_ = 0;  // below 8 between calls
};

std::uint32_t load_start(const std::byte* starts, std::size_t run) {
  std::uint32_t start;
  std::memcpy(&start, starts + run * sizeof start, sizeof start);
  return start;
}

// One copy for each odd factor: divisions by constants are multiplications.
template <std::uint32_t odd>
std::byte* write_codes(std::span<const std::uint32_t> indices, std::uint32_t shift,
                       std::byte* starts, std::byte* codes) {
  BitWriter writer(codes);
  const std::uint32_t mask = (1U << shift) - 1;
  std::uint32_t next = 0;
  const auto write_run = [&](std::span<const std::uint32_t> run) {
    for (const std::uint32_t index : run) {
      const std::uint32_t gap = index - next;
      const std::uint32_t high = gap >> shift;
      const std::uint32_t zeros = high / odd;
      const GolombPrefix prefix = kPrefixes[odd / 2].of[high % odd];
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
  };
  write_run(indices.first(std::min(kCodesPerRun, indices.size())));
  for (std::size_t at = kCodesPerRun; at < indices.size(); at += kCodesPerRun) {
    // It fits: with this divisor, codes take less than two bits per element of the replica.
    const auto start = static_cast<std::uint32_t>(writer.bits_since(codes));
    std::memcpy(starts, &start, sizeof start);
    starts += sizeof start;
    write_run(indices.subspan(at, std::min(kCodesPerRun, indices.size() - at)));
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

std::uint32_t golomb_parameter(std::span<const std::uint32_t> gaps, std::size_t count,
                               std::size_t n) {
  if (count == 0) return 0;
  // The best divisor for geometric gaps is about ln 2 / density. Crowded indices (one layer moves,
  // others rest) need a smaller one.
  const double density = static_cast<double>(count) / static_cast<double>(n);
  const double largest = std::max(1.5 * std::log(2.0) / density, 1.0);
  std::uint32_t best = 0;
  std::uint64_t best_bits = std::numeric_limits<std::uint64_t>::max();
  constexpr std::array kBits = {bits_with<1>, bits_with<3>, bits_with<5>, bits_with<7>};
  for (std::uint32_t parameter = 0; parameter <= kGolombMax; ++parameter) {
    const double divisor = golomb_divisor(parameter);
    if (divisor > largest || divisor * 8 < largest) continue;
    const std::uint64_t bits = kBits[golomb_odd(parameter) / 2](gaps, golomb_shift(parameter));
    if (bits < best_bits) {
      best = parameter;
      best_bits = bits;
    }
  }
  return best;
}

void golomb_encode(std::span<const std::uint32_t> indices, const Coding& coding, base::Bytes& out) {
  if (indices.empty()) return;
  ASSERT(coding.odd % 2 == 1 && coding.odd <= 7 && coding.shift <= kGolombMax / 4);
  // Quotients add up to no more than that of the last index; put() writes eight bytes at a time.
  const std::size_t bits = indices.size() * std::size_t{1 + kGolombPrefixMax + coding.shift} +
                           indices.back() / (coding.odd << coding.shift);
  const std::size_t begin = out.size();
  const std::size_t starts = starts_bytes(indices.size());
  out.resize(begin + starts + bits / 8 + 1 + sizeof(std::uint64_t));
  std::byte* const to = out.data() + begin;
  constexpr std::array kWrite = {write_codes<1>, write_codes<3>, write_codes<5>, write_codes<7>};
  std::byte* const end = kWrite[coding.odd / 2](indices, coding.shift, to, to + starts);
  out.resize(static_cast<std::size_t>(end - out.data()));
}

bool starts_are_sound(base::ByteView starts, std::size_t bytes) noexcept {
  std::uint64_t least = 0;
  for (std::size_t run = 0; run < starts.size() / sizeof(std::uint32_t); ++run) {
    // A code has one bit or more.
    least += kCodesPerRun;
    if (load_start(starts.data(), run) < least) return false;
    least = load_start(starts.data(), run);
  }
  return least <= std::uint64_t{bytes} * 8;
}

bool golomb_decode(base::ByteView starts, base::ByteView codes, const Coding& coding, std::size_t n,
                   std::span<std::uint32_t> out) {
  const std::uint32_t shift = coding.shift;
  const Prefixes& prefixes = kPrefixes[coding.odd / 2];
  const std::uint64_t divisor = std::uint64_t{coding.odd} << shift;
  const std::size_t end = codes.size() * 8;
  const std::uint64_t mask = (std::uint64_t{1} << shift) - 1;
  std::size_t position = 0;
  std::uint64_t next = 0;
  const auto read_run = [&](std::span<std::uint32_t> run) {
    for (std::uint32_t& index : run) {
      std::uint64_t word = peek(codes, position);
      std::uint64_t quotient = 0;
      while (word == 0) {  // rare: a gap of more than 56 divisors
        quotient += kPeekBits - 1;
        position += kPeekBits - 1;
        if (position >= end || quotient >= n) return false;
        word = peek(codes, position);
      }
      const auto zeros = static_cast<std::uint32_t>(std::countr_zero(word));
      quotient += zeros;
      position += zeros + 1;
      const std::uint64_t rest =
          zeros + kTailMax <= kPeekBits ? word >> zeros >> 1 : peek(codes, position);
      const GolombPart part = prefixes.part[rest & kPrefixMask];
      const std::uint64_t high = std::uint64_t{part.part} << shift;
      position += part.size + shift;
      const std::uint64_t place = next + quotient * divisor + high + (rest >> part.size & mask);
      if (place >= n) return false;
      index = static_cast<std::uint32_t>(place);
      next = place + 1;
    }
    return true;
  };
  if (!read_run(out.first(std::min(kCodesPerRun, out.size())))) return false;
  for (std::size_t at = kCodesPerRun; at < out.size(); at += kCodesPerRun) {
    if (position != load_start(starts.data(), at / kCodesPerRun - 1)) return false;
    if (!read_run(out.subspan(at, std::min(kCodesPerRun, out.size() - at)))) return false;
  }
  // Codes may not read past the end; the rest must be zero bits of the last byte.
  return position <= end && end - position < 8 && peek(codes, position) == 0;
}

}  // namespace starling::delta
