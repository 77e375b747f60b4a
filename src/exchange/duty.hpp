// What a peer owes a neighbour while replicas settle along a tree (exchange/tree.hpp).
#pragma once

#include <cstdint>

namespace starling::exchange {

/// How a peer stands to a neighbour in the tree now.
enum class Duty : std::uint8_t {
  none,
  tell_up,    ///< the neighbour is the parent, and is told what is gathered here
  gather,     ///< the neighbour is a child, whose part is taken
  tell_down,  ///< the neighbour is a child, and is told the mean
};

}  // namespace starling::exchange
