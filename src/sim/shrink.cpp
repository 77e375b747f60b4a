#include "sim/shrink.hpp"

#include <algorithm>

namespace starling::sim {

Scenario shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails) {
  for (std::size_t piece = std::max<std::size_t>(1, scenario.timeline.size() / 2); piece > 0;
       piece /= 2) {
    for (std::size_t at = 0; at < scenario.timeline.size();) {
      Scenario smaller = scenario;
      const std::size_t end = std::min(at + piece, smaller.timeline.size());
      smaller.timeline.erase(smaller.timeline.begin() + static_cast<std::ptrdiff_t>(at),
                             smaller.timeline.begin() + static_cast<std::ptrdiff_t>(end));
      if (fails(smaller)) {
        scenario = std::move(smaller);
      } else {
        at += piece;
      }
    }
  }
  if (scenario.sim.buggify) {
    Scenario plain = scenario;
    plain.sim.buggify = false;
    if (fails(plain)) scenario = std::move(plain);
  }
  return scenario;
}

}  // namespace starling::sim
