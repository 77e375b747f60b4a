#include "base/peer_id.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace starling::base {

std::string PeerId::hex() const { return to_hex(bytes); }

std::string PeerId::brief() const { return hex().substr(0, 8); }

Result<PeerId> PeerId::parse(std::string_view hex) {
  PeerId id;
  if (hex.size() != id.bytes.size() * 2) {
    return fail(ErrorCode::usage, "'{}' is not a peer id: it needs 64 hexadecimal digits", hex);
  }
  if (from_hex(hex, id.bytes)) return id;
  const auto wrong = std::ranges::find_if(hex, [](char c) { return hex_digit(c) < 0; });
  return fail(ErrorCode::usage, "'{}' is not a peer id: digit {} is not hexadecimal", hex,
              wrong - hex.begin() + 1);
}

}  // namespace starling::base
