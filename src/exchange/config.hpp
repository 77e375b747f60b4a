// What a run file says of the exchange.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "compute/replica_memory.hpp"

namespace starling::exchange {

enum class Mode {
  tracked,    ///< tracked link averaging, src/exchange/README.md
  choco,      ///< CHOCO-SGD (Koloskova, Stich, Jaggi, arXiv:1902.00340) on the same links
  dense,      ///< whole replicas are averaged: what tracked is under send_all()
  push_sum,   ///< stochastic gradient push (Assran et al., arXiv:1811.10792) on the same links
  allreduce,  ///< a ring all-reduce of gradients at every step
  local,      ///< one of what local steps moved the replicas by, every so many steps
  none,       ///< each peer for itself
};

/// Whether links exchange deltas, each on its own.
[[nodiscard]] constexpr bool uses_links(Mode mode) noexcept {
  return mode == Mode::tracked || mode == Mode::choco || mode == Mode::dense ||
         mode == Mode::push_sum;
}

/// Whether a fixed set of peers reduces in a ring.
[[nodiscard]] constexpr bool uses_ring(Mode mode) noexcept {
  return mode == Mode::allreduce || mode == Mode::local;
}

using compute::MirrorType;

struct Config {
  Mode mode = Mode::tracked;
  std::uint32_t every = 2;    ///< own steps between two exchanges of a link; local: of a round
  double density = 0.003;     ///< fraction of the elements that a delta carries
  int bits = 4;               ///< a value: 1, 2, 3, 4 or 8
  std::uint32_t block = 128;  ///< values that share a scale
  double lambda = 0.5;        ///< tracked: part of what deltas left out held back, 0 to 1
  MirrorType mirror = MirrorType::float32;
  double gamma = 0.2;             ///< choco: consensus step size, 0 to 1
  double outer_lr = 0.7;          ///< local: of the step that ends a round, train::OuterStep
  double outer_momentum = 0.9;    ///< local: the same
  double start_fraction = 0.1;    ///< of the run's samples, with start_factor
  double start_factor = 1.0;      ///< density multiplier at the start
  double finish_fraction = 0.05;  ///< of the run's samples, with finish_factor
  double finish_factor = 1.0;     ///< density multiplier at the end
  double settle_density = 0.1;    ///< density after the last local step
  int settle_bits = 1;            ///< a value, then
  double settle_drift = 0.01;     ///< settled when the drift on every link is below
  base::Duration settle_timeout = std::chrono::seconds(30);
  base::Duration grace = std::chrono::seconds(30);  ///< how long a broken link keeps its mirrors
  double stale = 0.25;               ///< of the run's samples: a peer that is further behind adopts
  std::uint32_t hash_every = 64;     ///< every so many exchanges a frame carries its mirror's hash
  std::uint32_t buffers_every = 20;  ///< every so many exchanges a frame carries the buffers
  /// Drift at which a link has the density that is given; above and below it follows the drift. 0:
  /// it does not.
  double critical_drift = 0;
  double upload_limit = 0;  ///< Mbit/s of deltas, over all links; 0: none. Changes densities, too
  double cpu_share = 0;     ///< of a step's computing time that exchanges may take; 0: any

  friend bool operator==(const Config&, const Config&) = default;
};

/// What Mode::dense and Mode::push_sum are, whatever else was said.
inline void send_all(Config& config) {
  config.density = config.start_factor = config.finish_factor = config.settle_density = 1;
  config.bits = config.settle_bits = 8;
  config.lambda = config.critical_drift = 0;
}

/// Exchanges between two that carry the buffers, in settling: buffers need fewer than replicas do.
inline constexpr std::uint32_t kSettleBuffersEvery = 4;
/// push_sum: most weight that one push may carry; all peers together have as much as they are.
inline constexpr float kPushMax = 65536;
inline constexpr std::size_t kLinksMax = 64;      ///< of one peer: bounds w and memory
inline constexpr std::size_t kGraceLinksMax = 8;  ///< broken links that keep their mirrors

}  // namespace starling::exchange
