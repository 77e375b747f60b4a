// The world as it is right now, seen from outside: who runs, and how the overlay links them.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/world.hpp"

namespace starling::sim {

/// Peers that run, twins aside.
[[nodiscard]] std::size_t count_running(const World& world);
/// Whether it runs and has a replica; what follows is about these alone.
[[nodiscard]] bool trains(const World& world, const Node& node);
[[nodiscard]] bool any_up(const World& world);
/// Whether there is a way over links between any two that run; false where nobody does.
[[nodiscard]] bool connected(const World& world);
/// Whether the overlay is a star whose middle does not run: it is not made to become whole again.
[[nodiscard]] bool lacks_hub(const World& world);
/// Whether each peer that runs exchanges with another.
[[nodiscard]] bool all_linked(const World& world);
/// Whether each has the neighbours that it wants, as far as there are so many.
[[nodiscard]] bool views_full(const World& world);
/// The spectral gap of averaging over links that both ends hold; nothing where nobody runs.
[[nodiscard]] std::optional<double> overlay_gap(const World& world);
/// Whether it waits for all of its ring, which may be for ever.
[[nodiscard]] bool waits_for_ring(const World& world, const Node& node);

}  // namespace starling::sim
