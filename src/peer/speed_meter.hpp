// How fast a peer trains, by which shards are dealt out.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace starling::peer {

/// The speed is measured over so long, first and later; what it changes by less than the factor is
/// not told, since each change moves shards of others.
inline constexpr base::Duration kSpeedFirst = std::chrono::seconds(10);
inline constexpr base::Duration kSpeedAgain = std::chrono::seconds(60);
inline constexpr double kSpeedChangeMin = 1.5;

class SpeedMeter {
 public:
  /// After each step, with which this peer has trained `samples`. `told`: samples a second, as the
  /// others have heard; 0: they have not. What they are to hear now, > 0; nothing: no change.
  [[nodiscard]] std::optional<float> measure(std::uint64_t samples, float told, base::Time now);

 private:
  std::optional<base::Time> since_;  ///< begin of what is measured
  std::uint64_t samples_ = 0;        ///< at that time
};

}  // namespace starling::peer
