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
using wire::delta_format::is_golomb;
using wire::delta_format::kGolombMax;

// How a divisor of 1 or 3 times a power of two splits a gap: into a quotient, a third (0 with a
// power of two, else 0 to 2), and low bits.
struct Split {
  explicit Split(std::uint32_t parameter)
      : thirds(parameter % 2 == 1), shift(parameter / 2 - (thirds ? 1 : 0)) {}

  bool thirds;
  std::uint32_t shift;
};

// The best divisor for geometric gaps is about ln 2 / density; the parameter next to it.
std::uint32_t parameter_of_density(double density) {
  const double gap = std::log(2.0) / std::max(density, 1e-12);
  const double parameter = std::floor(2.0 * std::log2(std::max(gap, 1.0)) + 0.5);
  return static_cast<std::uint32_t>(std::clamp(parameter, 0.0, static_cast<double>(kGolombMax)));
}

std::uint64_t bits_with(std::span<const std::uint32_t> indices, std::uint32_t parameter) {
  const Split split(parameter);
  std::uint64_t bits = indices.size() * (std::uint64_t{1} + split.shift);
  std::uint32_t next = 0;
  if (split.thirds) {
    for (const std::uint32_t index : indices) {
      const std::uint32_t gap = (index - next) >> split.shift;
      bits += gap / 3 + (gap % 3 == 0 ? 1 : 2);
      next = index + 1;
    }
  } else {
    for (const std::uint32_t index : indices) {
      bits += (index - next) >> split.shift;
      next = index + 1;
    }
  }
  return bits;
}

// Bits into memory that is large enough, lowest first.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  // The low `count` bits of `value`, whose others are zero; count <= 32.
  void put(std::uint64_t value, std::uint32_t count) {
    pending_ |= value << used_;
    used_ += count;
    if (used_ >= 32) {
      const auto word = static_cast<std::uint32_t>(pending_);
      std::memcpy(to_, &word, sizeof word);
      to_ += sizeof word;
      pending_ >>= 32;
      used_ -= 32;
    }
  }

  void put_zeros(std::uint32_t count) {
    for (; count > 32; count -= 32) put(0, 32);
    put(0, count);
  }

  // Writes what is pending and returns the end.
  std::byte* finish() {
    for (std::uint32_t done = 0; done < used_; done += 8) {
      *to_++ = static_cast<std::byte>(pending_ >> done);
    }
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  std::uint32_t used_ = 0;  // below 32 between calls
};

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

// Thirds 0, 1 and 2, the first bit lowest.
constexpr std::array<std::uint64_t, 3> kThirdCode = {0b0, 0b01, 0b11};
constexpr std::array<std::uint32_t, 3> kThirdSize = {1, 2, 2};
/// Bits of a code from its first one on, at most: the one, a third, the low bits.
constexpr std::uint32_t kTailMax = 1 + kGolombMax / 2 + 1;

}  // namespace

std::uint32_t golomb_parameter(std::span<const std::uint32_t> indices, std::size_t n) {
  if (indices.empty()) return 0;
  const std::uint32_t guess =
      parameter_of_density(static_cast<double>(indices.size()) / static_cast<double>(n));
  // Crowded indices (one layer moves, others rest) want a smaller divisor than random ones.
  const std::uint32_t low = guess > 4 ? guess - 4 : 0;
  std::uint32_t best = 0;
  std::uint64_t best_bits = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t parameter = low; parameter <= std::min(guess + 1, kGolombMax); ++parameter) {
    if (!is_golomb(parameter)) continue;
    const std::uint64_t bits = bits_with(indices, parameter);
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
  ASSERT(is_golomb(parameter));
  const Split split(parameter);
  const std::size_t begin = out.size();
  // finish() ends within the last byte, put() writes four bytes at a time.
  out.resize(begin + static_cast<std::size_t>(bits_with(indices, parameter) / 8) + 8);
  BitWriter writer(out.data() + begin);
  const std::uint64_t mask = (std::uint64_t{1} << split.shift) - 1;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    const std::uint32_t high = gap >> split.shift;
    const std::uint32_t zeros = split.thirds ? high / 3 : high;
    std::uint64_t tail = 1;
    std::uint32_t size = 1;
    if (split.thirds) {
      const std::uint32_t third = high - 3 * zeros;
      tail |= kThirdCode[third] << 1;
      size += kThirdSize[third];
    }
    tail |= (gap & mask) << size;
    size += split.shift;
    if (zeros + size <= 32) {
      writer.put(tail << zeros, zeros + size);
    } else {
      writer.put_zeros(zeros);
      writer.put(tail, size);
    }
    next = index + 1;
  }
  out.resize(static_cast<std::size_t>(writer.finish() - out.data()));
}

bool golomb_decode(base::ByteView bytes, std::uint32_t parameter, std::size_t n,
                   std::span<std::uint32_t> out) {
  if (!is_golomb(parameter)) return false;
  const Split split(parameter);
  const std::uint64_t divisor = golomb_divisor(parameter);
  const std::size_t end = bytes.size() * 8;
  const std::uint64_t mask = (std::uint64_t{1} << split.shift) - 1;
  std::size_t position = 0;
  std::uint64_t next = 0;
  for (std::uint32_t& index : out) {
    std::uint64_t word = peek(bytes, position);
    std::uint64_t quotient = 0;
    while (word == 0) {  // rare: a gap of more than 56 divisors
      quotient += kPeekBits - 1;
      position += kPeekBits - 1;
      if (position >= end) return false;
      word = peek(bytes, position);
    }
    const auto run = static_cast<std::uint32_t>(std::countr_zero(word));
    quotient += run;
    position += run + 1;
    std::uint64_t rest = run + kTailMax <= kPeekBits ? word >> run >> 1 : peek(bytes, position);
    std::uint64_t remainder = 0;
    if (split.thirds) {
      const std::uint64_t third = (rest & 1) + (rest & rest >> 1 & 1);
      const std::uint32_t size = third == 0 ? 1 : 2;
      remainder = third << split.shift;
      rest >>= size;
      position += size;
    }
    position += split.shift;
    const std::uint64_t place = next + quotient * divisor + remainder + (rest & mask);
    if (place >= n) return false;
    index = static_cast<std::uint32_t>(place);
    next = place + 1;
  }
  // Codes may not read past the end; what is left must be zero bits of the last byte.
  return position <= end && end - position < 8 && peek(bytes, position) == 0;
}

}  // namespace starling::delta
