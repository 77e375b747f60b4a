// What peers send for membership once their tables are filled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/world.hpp"

namespace starling::sim {

class MembershipCost {
 public:
  /// `world` outlives this. `last_start`: in seconds, of the plan.
  MembershipCost(const World& world, double last_start) : world_(world), last_start_(last_start) {}

  /// Once a second.
  void measure();
  /// The most that a peer sent, in bytes a second; nothing: none ran for long enough.
  [[nodiscard]] std::optional<double> most() const;

 private:
  /// A life of a peer from when its tables were filled.
  struct Quiet {
    std::uint32_t life = 0;
    double since = 0;         ///< seconds
    std::uint64_t bytes = 0;  ///< that it had sent for membership
  };

  const World& world_;
  const double last_start_;
  std::map<std::uint32_t, Quiet> quiet_;   ///< by node
  std::map<std::uint32_t, double> rates_;  ///< by node: of its last life that was long enough
};

}  // namespace starling::sim
