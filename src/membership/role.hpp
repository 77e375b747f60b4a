// Why a link is open, as membership sees it.
#pragma once

#include <cstdint>

namespace starling::membership {

enum class Role : std::uint8_t {
  contact,    ///< no neighbours: closed after kContactLife, unless one end asks for that
  requested,  ///< this end asked to be neighbours
  neighbour,
};

}  // namespace starling::membership
