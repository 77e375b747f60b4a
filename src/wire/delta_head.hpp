// The metadata of a delta's frame, packed: deltas may be sent at every step, and a small one is
// little larger than its metadata.
//   1 byte   which of the following are present: kSettled, kHash, ...
//   varint   exchange
//   varint   samples
//   1 byte   degree
//   1 byte   weight, where it is not 0
//   1 byte   believed, where it is not kWeightMax
//   8 bytes  mirror_hash
//   varint   bytes of buffers at the end of the payload
//   2 bytes  bandwidth, bfloat16
//   2 bytes  radius, bfloat16
//   1 byte   turn, where it is not `average`
//   4 bytes  gathered, float32, where the turn is `up`
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "wire/messages.hpp"

namespace starling::wire {

/// All of `delta` except its payload and its buffers; the size of the buffers is included.
[[nodiscard]] std::vector<std::uint8_t> pack_head(const Delta& delta);

struct DeltaHead {
  Delta delta;  ///< without payload and buffers
  std::uint64_t buffer_bytes = 0;
};

/// `bytes` may be followed by up to 7 zeros. Error (protocol): cut short, followed by something
/// else, or a number out of bounds.
[[nodiscard]] base::Result<DeltaHead> unpack_head(std::span<const std::uint8_t> bytes);

}  // namespace starling::wire
