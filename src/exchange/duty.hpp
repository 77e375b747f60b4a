// What a peer owes a neighbour while replicas settle along a tree (exchange/tree.hpp), and what an
// exchange between the two does.
#pragma once

#include <cstdint>

#include "wire/messages.hpp"

namespace starling::exchange {

/// How a peer stands to a neighbour in the tree now.
enum class Duty : std::uint8_t {
  none,
  tell_up,    ///< the neighbour is the parent, and is told what is gathered here
  gather,     ///< the neighbour is a child, whose part is taken
  tell_down,  ///< the neighbour is a child, and is told the mean
};

/// The effect of an exchange at this end, by the turns of its two deltas.
enum class Effect : std::uint8_t {
  averages,  ///< both ends move by their weights
  tells,     ///< the other end takes in what is gathered here
  gathers,   ///< this end takes in what is gathered there
  takes,     ///< this end takes the other's replica
  spreads,   ///< the other end takes this one's
  holds,     ///< neither moves, on the way to one of these
  crosses,   ///< neither moves: only one end is in the tree yet
};

[[nodiscard]] constexpr Effect effect_of(wire::Turn own, wire::Turn their) noexcept {
  using wire::Turn;
  if (own == Turn::average && their == Turn::average) return Effect::averages;
  if (own == Turn::average || their == Turn::average) return Effect::crosses;
  if (own == Turn::up && their == Turn::gather) return Effect::tells;
  if (own == Turn::gather && their == Turn::up) return Effect::gathers;
  if (own == Turn::hold && their == Turn::down) return Effect::takes;
  if (own == Turn::down && their == Turn::hold) return Effect::spreads;
  return Effect::holds;
}

}  // namespace starling::exchange
