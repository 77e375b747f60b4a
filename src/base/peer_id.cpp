#include "base/peer_id.hpp"

#include "base/hash.hpp"

namespace starling::base {

std::string PeerId::hex() const { return to_hex(bytes); }

std::string PeerId::brief() const { return hex().substr(0, 8); }

Result<PeerId> PeerId::parse(std::string_view hex) {
  PeerId id;
  if (hex.size() != id.bytes.size() * 2) {
    return fail(ErrorCode::usage, "'{}' is not a peer id: it needs 64 hexadecimal digits", hex);
  }
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return fail(ErrorCode::usage, "'{}' is not a peer id: digit {} is not hexadecimal", hex,
                  2 * i + (high < 0 ? 1 : 2));
    }
    id.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return id;
}

}  // namespace starling::base
