// Current faults, counted for each peer that they hold up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace starling::sim {

/// Peers are those of the plan, whether they have started or not. Times are seconds since the
/// start.
class Disturbances {
 public:
  explicit Disturbances(std::size_t peers) : peers_(peers) {}

  void begin(std::uint32_t peer) { ++peers_[peer].faults; }
  void end(std::uint32_t peer, double now) {
    if (--peers_[peer].faults == 0) peers_[peer].since = now;
  }
  [[nodiscard]] bool any(std::uint32_t peer) const { return peers_[peer].faults > 0; }
  /// When the last one ended; 0: there was none.
  [[nodiscard]] double over_since(std::uint32_t peer) const { return peers_[peer].since; }

 private:
  struct Peer {
    std::uint32_t faults = 0;
    double since = 0;
  };
  std::vector<Peer> peers_;
};

}  // namespace starling::sim
