// How well an overlay mixes what its peers hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace starling::sim {

/// Which two of `peers`, numbered from 0, have a link. Each pair once, never a peer with itself.
using Edge = std::pair<std::uint32_t, std::uint32_t>;

/// 1 - |second largest eigenvalue| of the matrix by which one exchange on every link multiplies the
/// replicas. It has w_ij = 1 / (1 + max(L_i, L_j)) if i and j have a link, where L_i is the number
/// of links of i, and rows that add up to 1 (Metropolis weights; Boyd et al., "Fastest mixing
/// Markov chain on a graph", SIAM Review 46, 2004). 1: all agree after one exchange; 0: the overlay
/// is split. By power iteration: slightly too large if it has not converged.
[[nodiscard]] double spectral_gap(std::size_t peers, std::span<const Edge> edges);

}  // namespace starling::sim
