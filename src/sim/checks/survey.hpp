// The world as it is right now, seen from outside: which peers run, and how the overlay links them.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/world.hpp"

namespace starling::sim {

/// Number of honest peers that run, without twins.
[[nodiscard]] std::size_t count_running(const World& world);
/// Whether it runs and has a replica; the functions below consider only such peers.
[[nodiscard]] bool trains(const Node& node);
/// Whether it is also honest, and the only one under its key.
[[nodiscard]] bool counts(const Node& node);
/// Whether any honest one does; hostile ones need not end.
[[nodiscard]] bool any_up(const World& world);
/// Whether links connect any two honest peers that run, over others if needed; false if none runs.
[[nodiscard]] bool connected(const World& world);
/// Whether the overlay is a star whose center does not run: then it cannot become whole again.
[[nodiscard]] bool lacks_hub(const World& world);
/// Whether each honest peer that runs exchanges with another.
[[nodiscard]] bool all_linked(const World& world);
/// Whether each honest peer has as many neighbours as it wants, if there are enough honest peers.
[[nodiscard]] bool views_full(const World& world);
/// The spectral gap of averaging over links that both ends, honest peers, hold; nothing if no peer
/// runs.
[[nodiscard]] std::optional<double> overlay_gap(const World& world);
/// Whether the node waits for all peers of its ring, possibly for ever.
[[nodiscard]] bool waits_for_ring(const World& world, const Node& node);

}  // namespace starling::sim
