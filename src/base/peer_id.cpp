#include "base/peer_id.hpp"

#include "base/hash.hpp"

namespace starling::base {

std::string PeerId::hex() const { return to_hex(bytes); }

std::string PeerId::brief() const { return hex().substr(0, 8); }

}  // namespace starling::base
