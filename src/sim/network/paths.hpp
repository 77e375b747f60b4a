// The network between the peers: which paths are cut or bad right now, and what happens to a
// packet.
#pragma once

#include <cmath>
#include <cstdint>
#include <list>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

[[nodiscard]] inline base::Duration milliseconds(double ms) {
  return base::from_seconds(ms / 1000);
}

/// Uniform from 0 on, with a standard deviation of one; its mean is the root of 3.
[[nodiscard]] inline double jitter(base::Rng& rng) { return rng.uniform() * std::sqrt(12.0); }

/// The conditions of one path, all resolved.
struct PathState {
  double latency_ms = 0.2;
  double jitter_ms = 0;
  double rate_mbit = 0;  ///< 0: not limited
  double loss = 0;
  double reorder = 0;
  double corrupt = 0;
  bool cut = false;
};

/// Faults are named by the number that add() returned.
class PathTable {
 public:
  /// `plan` outlives this.
  explicit PathTable(const Plan& plan);

  [[nodiscard]] PathState state(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] bool cut(std::uint32_t from, std::uint32_t to) const;
  /// Rate of the line that all paths of the peer share, in Mbit/s; 0: not limited.
  [[nodiscard]] double line_rate(std::uint32_t peer) const { return lines_[region_[peer]]; }
  /// A partition or a degradation begins; the event outlives this.
  std::uint64_t add(const PlannedEvent& event);
  void remove(std::uint64_t fault);
  [[nodiscard]] bool calm() const noexcept { return faults_ == 0; }

 private:
  /// One fault, as it affects the packets of one sender.
  struct Fault {
    std::uint64_t number = 0;
    const std::vector<bool>* to = nullptr;
    const PlannedEvent* event = nullptr;
  };
  struct Set {
    std::uint64_t number = 0;
    std::vector<bool> peers;
  };

  std::size_t peers_;
  std::vector<std::uint32_t> region_;            ///< of each peer
  std::vector<std::vector<PathState>> regions_;  ///< between two regions
  std::vector<double> lines_;                    ///< by region
  std::vector<std::vector<Fault>> faults_of_;    ///< by sender, oldest first
  std::list<Set> sets_;
  std::uint64_t next_ = 1;
  std::size_t faults_ = 0;
};

}  // namespace starling::sim
