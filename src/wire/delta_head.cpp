#include "wire/delta_head.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "base/assert.hpp"
#include "wire/fields.hpp"
#include "wire/packed.hpp"

namespace starling::wire {
namespace {

constexpr std::uint8_t kSettled = 1;
constexpr std::uint8_t kHash = 2;
constexpr std::uint8_t kBuffers = 4;
constexpr std::uint8_t kBandwidth = 8;
constexpr std::uint8_t kWeight = 16;
constexpr std::uint8_t kTurn = 32;
constexpr std::uint8_t kRadius = 64;
constexpr std::uint8_t kBelieved = 128;

constexpr std::size_t kPadding = 7;  // frames pad metadata to 8 bytes

std::uint8_t contents_of(const Delta& delta) {
  const auto bit = [](bool is_there, std::uint8_t which) { return is_there ? which : 0; };
  return static_cast<std::uint8_t>(
      bit(delta.settled, kSettled) | bit(delta.mirror_hash.has_value(), kHash) |
      bit(!delta.buffers.empty(), kBuffers) | bit(delta.bandwidth != 0, kBandwidth) |
      bit(delta.weight != 0, kWeight) | bit(delta.turn != Turn::average, kTurn) |
      bit(delta.radius.has_value(), kRadius) | bit(delta.believed != kWeightMax, kBelieved));
}

constexpr bool has_gathered(Turn turn) { return turn == Turn::up; }

base::Result<DeltaHead> refuse(std::string text) {
  return base::fail(base::ErrorCode::protocol, "a delta's {}", text);
}

}  // namespace

std::vector<std::uint8_t> pack_head(const Delta& delta) {
  ASSERT(delta.degree <= 0xff);
  std::vector<std::uint8_t> bytes;
  bytes.push_back(contents_of(delta));
  put_varint(bytes, delta.exchange.value);
  put_varint(bytes, delta.samples);
  bytes.push_back(static_cast<std::uint8_t>(delta.degree));
  if (delta.weight != 0) bytes.push_back(static_cast<std::uint8_t>(delta.weight));
  if (delta.believed != kWeightMax) bytes.push_back(static_cast<std::uint8_t>(delta.believed));
  if (delta.mirror_hash) put_bytes(bytes, *delta.mirror_hash, 8);
  if (!delta.buffers.empty()) put_varint(bytes, delta.buffers.size());
  if (delta.bandwidth != 0) put_bfloat16(bytes, delta.bandwidth);
  if (delta.radius) put_bfloat16(bytes, *delta.radius);
  if (delta.turn != Turn::average) bytes.push_back(static_cast<std::uint8_t>(delta.turn));
  if (has_gathered(delta.turn)) put_bytes(bytes, std::bit_cast<std::uint32_t>(delta.gathered), 4);
  return bytes;
}

base::Result<DeltaHead> unpack_head(std::span<const std::uint8_t> bytes) {
  PackedCursor cursor(bytes);
  DeltaHead head;
  Delta& delta = head.delta;
  const auto contents = static_cast<std::uint8_t>(cursor.fixed(1));
  delta.settled = (contents & kSettled) != 0;
  delta.exchange = {cursor.varint()};
  delta.samples = cursor.varint();
  delta.degree = static_cast<std::uint16_t>(cursor.fixed(1));
  if ((contents & kWeight) != 0) delta.weight = static_cast<std::int8_t>(cursor.fixed(1));
  if ((contents & kBelieved) != 0) delta.believed = static_cast<std::int8_t>(cursor.fixed(1));
  if ((contents & kHash) != 0) delta.mirror_hash = cursor.fixed(8);
  if ((contents & kBuffers) != 0) head.buffer_bytes = cursor.varint();
  if ((contents & kBandwidth) != 0) delta.bandwidth = cursor.bfloat16();
  if ((contents & kRadius) != 0) delta.radius = cursor.bfloat16();
  if ((contents & kTurn) != 0) delta.turn = static_cast<Turn>(cursor.fixed(1));
  if (has_gathered(delta.turn)) {
    delta.gathered = std::bit_cast<float>(static_cast<std::uint32_t>(cursor.fixed(4)));
  }
  const auto rest = cursor.rest();
  const bool ends = rest.size() <= kPadding &&
                    std::ranges::all_of(rest, [](std::uint8_t byte) { return byte == 0; });
  if (!cursor.good() || !ends) return refuse("head is cut short or followed by more");
  if (delta.degree < 1 || delta.degree > kDeltaDegreeMax) {
    return refuse(fmt::format("degree is not in 1 to {}", kDeltaDegreeMax));
  }
  for (const std::int8_t weight : {delta.weight, delta.believed}) {
    if (weight < kNoWeight || weight > kWeightMax) {
      return refuse(fmt::format("weight is not in {} to {}", kNoWeight, kWeightMax));
    }
  }
  if (!is_known(delta.turn)) return refuse("turn is of a kind that is not allowed here");
  if (!(delta.gathered >= 0 && delta.gathered <= kSettleWeightMax)) {
    return refuse("gathered weight is out of bounds");
  }
  if (!is_amount(delta.bandwidth)) {
    return refuse("bandwidth is not a number of bytes a second");
  }
  if (delta.radius && !is_amount(*delta.radius)) return refuse("radius is not a distance");
  return head;
}

}  // namespace starling::wire
