// The exchange settings of a run file.
#pragma once

#include <cstdint>

#include "base/enum_names.hpp"
#include "base/time.hpp"
#include "delta/mirror_type.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

enum class Mode {
  tracked,    ///< tracked link averaging, src/exchange/README.md
  choco,      ///< CHOCO-SGD (Koloskova, Stich, Jaggi, arXiv:1902.00340) on the same links
  dense,      ///< whole replicas are averaged: tracked with the values of send_all()
  allreduce,  ///< a ring all-reduce of gradients at every step
  local,      ///< a ring all-reduce of what local steps moved the replicas by
  none,       ///< each peer for itself
};

inline constexpr base::EnumNames<Mode, 6> kModeNames{{
    {"tracked", Mode::tracked},
    {"choco", Mode::choco},
    {"dense", Mode::dense},
    {"allreduce", Mode::allreduce},
    {"local", Mode::local},
    {"none", Mode::none},
}};

/// Whether links exchange deltas, each on its own.
[[nodiscard]] constexpr bool uses_links(Mode mode) noexcept {
  return mode == Mode::tracked || mode == Mode::choco || mode == Mode::dense;
}

/// Whether a fixed set of peers reduces in a ring.
[[nodiscard]] constexpr bool uses_ring(Mode mode) noexcept {
  return mode == Mode::allreduce || mode == Mode::local;
}

/// How much each peer's replica counts in averages.
enum class WeightRule {
  automatic,  ///< speed where peers train on the same kind of samples, else equal
  speed,      ///< by samples a second
  equal,
};

inline constexpr base::EnumNames<WeightRule, 3> kWeightRuleNames{{
    {"auto", WeightRule::automatic},
    {"speed", WeightRule::speed},
    {"equal", WeightRule::equal},
}};

using delta::MirrorType;

struct Config {
  Mode mode = Mode::tracked;
  std::uint32_t every = 2;    ///< own steps between two exchanges of a link, or of a local round
  double density = 0.003;     ///< fraction of the elements that a delta carries
  int bits = 4;               ///< bits a value: 1, 2, 3, 4 or 8
  std::uint32_t block = 128;  ///< values that share a scale, at least kBlockMin
  double lambda = 0.5;        ///< tracked: part held back of what deltas left out, 0 to 1
  double momentum = 0;        ///< tracked: part of a link's momentum that an exchange leaves
  double momentum_gain = 1;   ///< tracked: how far momentum carries on what was sent, in all
  MirrorType mirror = MirrorType::float32;
  WeightRule weight = WeightRule::automatic;
  bool guard = true;              ///< tracked: exchanges are clipped, and neighbours audited
  double gamma = 0.2;             ///< choco: consensus step size, 0 to 1
  double outer_lr = 0.7;          ///< local: learning rate of ring::OuterStep, which ends a round
  double outer_momentum = 0.9;    ///< local: momentum of that step
  double finish_fraction = 0.05;  ///< part of the run that has finish_factor
  double finish_factor = 1.0;     ///< density multiplier at the end
  double settle_density = 0.1;    ///< density after the last local step
  double settle_drift = 0.01;     ///< drift below which a link has settled
  base::Duration settle_timeout = std::chrono::seconds(30);
  base::Duration grace = std::chrono::seconds(30);  ///< how long a broken link keeps its mirrors
  std::uint32_t hash_every = 64;     ///< exchanges between two frames with their mirror's hash
  std::uint32_t buffers_every = 20;  ///< exchanges between two frames with the buffers
  double upload_limit = 0;  ///< Mbit/s of deltas over all links; changes densities; 0: no limit
  double cpu_share = 0;     ///< part of a step's computing time that exchanges may take; 0: any

  friend bool operator==(const Config&, const Config&) = default;
};

/// Whether links have a momentum: a vector each. One that is 0 as a float32 is none.
[[nodiscard]] inline bool has_momentum(const Config& config) noexcept {
  return config.mode == Mode::tracked && static_cast<float>(config.momentum) > 0;
}

/// Whether exchanges are clipped, and neighbours audited.
[[nodiscard]] inline bool clips(const Config& config) noexcept {
  return config.guard && config.mode == Mode::tracked;
}

/// Makes of `config` what Mode::dense always is.
inline void send_all(Config& config) {
  config.density = config.finish_factor = config.settle_density = 1;
  config.bits = 8;
  config.lambda = 0;
}

/// Bits a value after the last local step; Mode::dense stays with its own.
inline constexpr int kSettleBits = 1;
/// A peer that is behind by more than this part of the run adopts another's replica.
inline constexpr double kStale = 0.25;

/// Exchanges between two that carry the buffers, in settling: buffers agree after fewer of them
/// than replicas do.
inline constexpr std::uint32_t kSettleBuffersEvery = 4;
/// Least Config::block: bounds the bytes of a delta.
inline constexpr std::uint32_t kBlockMin = 16;
/// Open links of one peer, at most: bounds w and memory.
inline constexpr std::size_t kLinksMax = wire::kDeltaDegreeMax;
/// Broken links of one peer that keep their mirrors, at most.
inline constexpr std::size_t kGraceLinksMax = 8;

}  // namespace starling::exchange
