// How well an overlay mixes what its peers hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace starling::sim {

/// Of `peers` that are numbered from 0, which two have a link. Each pair once, never with itself.
using Edge = std::pair<std::uint32_t, std::uint32_t>;

/// 1 - |second largest eigenvalue| of the matrix by which one exchange on every link multiplies
/// the replicas: it has w_ij = 1 / (1 + max(L_i, L_j)) where i and j have a link, L_i being the
/// links of i, and rows that add up to 1 (Metropolis weights; Boyd et al., "Fastest mixing Markov
/// chain on a graph", SIAM Review 46, 2004). 1: all agree after one exchange; 0: the overlay is
/// split. By power iteration: slightly too large where it has not come to rest.
[[nodiscard]] double spectral_gap(std::size_t peers, std::span<const Edge> edges);

}  // namespace starling::sim
