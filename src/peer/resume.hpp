// Where a peer that was started again goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sample_counter.hpp"
#include "base/strong.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

/// The start of a peer: nothing, or the state that a former life of it left.
struct Resume {
  base::StepNumber step;
  std::uint64_t samples = 0;             ///< of this peer
  double progress = 0;                   ///< of the swarm, as the checkpoint knows it
  std::int8_t weight = wire::kNoWeight;  ///< of this peer in averages, by its speed
  /// Of all peers, as the checkpoint knows them.
  std::vector<base::SampleCounter> counters;
  /// The last that it was told to remember: dialed and waited for like configured ones, but whoever
  /// answers there now may be of another run.
  std::vector<std::string> addresses;
};

}  // namespace starling::peer
