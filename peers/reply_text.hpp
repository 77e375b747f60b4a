// What a running peer answers, as text for people.
#pragma once

#include <string>

#include "base/printable.hpp"
#include "wire/messages.hpp"

namespace starling::peers {

/// What a peer says of itself and of others, whose names and addresses are theirs to choose.
inline std::string shown(const std::string& theirs) {
  return base::printable(theirs, wire::kAddressMax);
}

/// The beginning of a peer's id.
inline std::string brief(const std::string& id) { return shown(id).substr(0, 8); }

/// Why a reply is passed over that cannot be read.
inline constexpr char kNoReply[] =
    "the reply is not what a peer answers; is it of another version?";

}  // namespace starling::peers
