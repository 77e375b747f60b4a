// Settings of one peer's exchange, and the state that it starts from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/strong.hpp"
#include "exchange/config.hpp"

namespace starling::exchange {

struct Options {
  Config config;
  std::size_t elements = 0;          ///< elements of the replica
  std::size_t buffers = 0;           ///< values of its buffers
  std::uint64_t samples_target = 1;  ///< samples of the whole run
  bool weighs_by_speed = true;  ///< weights are samples a second; else all peers weigh the same
  // The state that the peer starts from.
  bool has_state = false;  ///< it has a checkpoint; else the initial parameters
  base::StepNumber step{};
  std::int8_t weight = 0;  ///< as wire::Delta::weight
  std::uint64_t samples = 0;
  double progress = 0.0;  ///< the swarm's progress, as the checkpoint knows it
};

/// Payload bytes of a keyframe or a delta of a replica of `elements`, at most; buffers come on top.
/// Where all elements are carried, each takes at most a byte for its value, a quarter of one for
/// its part of a scale (kBlockMin) and less for its index. Where fewer are, indices are longer, but
/// all together they take less.
[[nodiscard]] constexpr std::size_t payload_bytes_max(std::size_t elements) noexcept {
  return 64 + 2 * elements;
}

}  // namespace starling::exchange
