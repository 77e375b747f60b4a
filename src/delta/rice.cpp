#include "delta/rice.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/assert.hpp"
#include "wire/delta_format.hpp"

namespace starling::delta {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using wire::delta_format::kRiceMax;

// Golomb's rule for geometric gaps: the power of two next to ln 2 / density.
std::uint32_t rice_of_density(double density) {
  const double gap = std::log(2.0) / std::max(density, 1e-12);
  const double rice = std::floor(std::log2(std::max(gap, 1.0)) + 0.5);
  return static_cast<std::uint32_t>(std::clamp(rice, 0.0, static_cast<double>(kRiceMax)));
}

std::uint64_t bits_with(std::span<const std::uint32_t> indices, std::uint32_t rice) {
  std::uint64_t bits = indices.size() * (std::uint64_t{1} + rice) + (indices[0] >> rice);
  for (std::size_t j = 1; j < indices.size(); ++j) {
    bits += (indices[j] - indices[j - 1] - 1) >> rice;
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

}  // namespace

std::uint32_t rice_parameter(std::span<const std::uint32_t> indices, std::size_t n) {
  if (indices.empty()) return 0;
  const std::uint32_t guess =
      rice_of_density(static_cast<double>(indices.size()) / static_cast<double>(n));
  std::uint32_t best = guess;
  std::uint64_t best_bits = bits_with(indices, guess);
  // Crowded indices (one layer moves, others rest) want a smaller parameter than random ones.
  const std::uint32_t low = guess > 2 ? guess - 2 : 0;
  for (std::uint32_t rice = low; rice <= std::min(guess + 1, kRiceMax); ++rice) {
    const std::uint64_t bits = bits_with(indices, rice);
    if (bits < best_bits) {
      best = rice;
      best_bits = bits;
    }
  }
  return best;
}

void rice_encode(std::span<const std::uint32_t> indices, std::uint32_t rice, base::Buffer& out) {
  if (indices.empty()) return;
  ASSERT(rice <= kRiceMax);
  const std::size_t begin = out.size();
  // finish() ends within the last byte, put() writes four bytes at a time.
  out.resize(begin + static_cast<std::size_t>(bits_with(indices, rice) / 8) + 8);
  BitWriter writer(out.data() + begin);
  const std::uint64_t mask = (std::uint64_t{1} << rice) - 1;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    const std::uint32_t zeros = gap >> rice;
    const std::uint64_t tail = ((gap & mask) << 1) | 1;
    if (zeros + 1 + rice <= 32) {
      writer.put(tail << zeros, zeros + 1 + rice);
    } else {
      writer.put_zeros(zeros);
      writer.put(tail, 1 + rice);
    }
    next = index + 1;
  }
  out.resize(static_cast<std::size_t>(writer.finish() - out.data()));
}

bool rice_decode(base::ByteView bytes, std::uint32_t rice, std::size_t n,
                 std::span<std::uint32_t> out) {
  if (rice > kRiceMax) return false;
  const std::size_t end = bytes.size() * 8;
  const std::uint64_t mask = (std::uint64_t{1} << rice) - 1;
  std::size_t position = 0;
  std::uint64_t next = 0;
  for (std::uint32_t& index : out) {
    std::uint64_t word = peek(bytes, position);
    std::uint64_t zeros = 0;
    while (word == 0) {  // rare: a gap of more than 56 << rice
      zeros += kPeekBits - 1;
      position += kPeekBits - 1;
      if (position >= end) return false;
      word = peek(bytes, position);
    }
    const auto run = static_cast<std::uint32_t>(std::countr_zero(word));
    zeros += run;
    position += run + 1;
    const std::uint64_t rest =
        run + 1 + rice <= kPeekBits ? word >> run >> 1 : peek(bytes, position);
    position += rice;
    const std::uint64_t place = next + (zeros << rice) + (rest & mask);
    if (place >= n) return false;
    index = static_cast<std::uint32_t>(place);
    next = place + 1;
  }
  // Codes may not read past the end; what is left must be zero bits of the last byte.
  return position <= end && end - position < 8 && peek(bytes, position) == 0;
}

}  // namespace starling::delta
