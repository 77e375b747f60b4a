// The replies of a running peer, as text for people.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "base/printable.hpp"
#include "wire/messages.hpp"

namespace starling::peers {

/// Text that a peer says about itself and others, whose names and addresses are theirs to choose.
inline std::string shown(const std::string& theirs) {
  return base::printable(theirs, wire::kAddressMax);
}

/// The beginning of a peer's id.
inline std::string brief(const std::string& id) { return shown(id).substr(0, 8); }

inline std::string circuits_text(std::uint64_t circuits) {
  return fmt::format("{} circuit{} for others", circuits, circuits == 1 ? "" : "s");
}

/// The reason for ignoring an unreadable reply.
inline constexpr char kNoReply[] =
    "the reply is not what a peer answers; is it of another version?";

}  // namespace starling::peers
