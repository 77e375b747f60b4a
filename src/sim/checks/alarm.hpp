// The first invariant that breaks: it ends the run and is the run's failure.
#pragma once

#include <string>
#include <utility>

#include <fmt/core.h>

#include "sim/world.hpp"

namespace starling::sim {

class Alarm {
 public:
  /// `world` outlives this.
  explicit Alarm(World& world) : world_(world) {}

  /// Stops the world. After the first call it does nothing.
  template <class... Args>
  void raise(fmt::format_string<Args...> text, Args&&... args) {
    if (!failure_.empty()) return;
    failure_ = fmt::format(text, std::forward<Args>(args)...);
    raised_at_ = world_.seconds();
    world_.trace().line("FAILED: " + failure_);
    world_.stop();
  }
  /// The invariant that broke; empty: none did.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  [[nodiscard]] double raised_at() const noexcept { return raised_at_; }

 private:
  World& world_;
  std::string failure_;
  double raised_at_ = 0;
};

}  // namespace starling::sim
