// Packs progress entries into a heartbeat: a large swarm sends more of these than of anything else.
// An entry, little-endian:
//   8 bytes  prefix of the peer's id
//   1 byte   bit 0: a report follows; bit 1: a voucher follows
//   varint   samples
//   varint   age in units of 50 ms
//   2 bytes  rate, bfloat16
//   report   loss, accuracy as float32, drift as bfloat16, links as varint
//   voucher  limit as varint, key, signature
// Varints: wire/packed.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "wire/messages.hpp"

namespace starling::wire {

/// At most kProgressPerFrame entries, of which at most kVouchersPerFrame have a voucher.
[[nodiscard]] std::vector<std::uint8_t> pack_progress(std::span<const Progress> entries);

/// Error (protocol): cut short, more entries or vouchers than may be, a rate or drift that is not a
/// number of 0 or above, or an age over a day. Signatures are not looked at.
[[nodiscard]] base::Result<std::vector<Progress>> unpack_progress(
    std::span<const std::uint8_t> bytes);

}  // namespace starling::wire
