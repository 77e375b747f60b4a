// What a running peer answers, as text for people.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "base/printable.hpp"
#include "wire/messages.hpp"

namespace starling::peers {

/// What a peer says of itself and of others, whose names and addresses are theirs to choose.
inline std::string shown(const std::string& theirs) {
  return base::printable(theirs, wire::kAddressMax);
}

/// The beginning of a peer's id.
inline std::string brief(const std::string& id) { return shown(id).substr(0, 8); }

inline std::string circuits_text(std::uint64_t circuits) {
  return fmt::format("{} circuit{} for others", circuits, circuits == 1 ? "" : "s");
}

/// Why a reply is passed over that cannot be read.
inline constexpr char kNoReply[] =
    "the reply is not what a peer answers; is it of another version?";

}  // namespace starling::peers
