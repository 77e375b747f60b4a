// Whether any two peers that run are linked, and how their links go.
#pragma once

#include <optional>

#include "sim/world.hpp"

namespace starling::sim {

class Pairs {
 public:
  /// `world` outlives this; `last_start`: seconds.
  Pairs(const World& world, double last_start);

  /// Once a second.
  void measure();

  // Since the last start, in seconds; nothing: it has not come to that.
  [[nodiscard]] std::optional<double> linked_within() const noexcept { return linked_; }
  [[nodiscard]] std::optional<double> paths_within() const noexcept { return paths_; }

 private:
  [[nodiscard]] bool all_linked() const;
  [[nodiscard]] bool paths_as_expected() const;

  const World& world_;
  const double last_start_;
  std::optional<double> linked_, paths_;
};

}  // namespace starling::sim
