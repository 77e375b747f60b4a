#include "peer/jobs.hpp"

namespace starling::peer {

void note_time(std::span<Outcome> outcomes, base::Duration took) {
  for (Outcome& outcome : outcomes) {
    const base::Duration part = took / outcomes.size();
    if (auto* step = std::get_if<StepDone>(&outcome)) {
      step->took = part;
    } else if (auto* exchange = std::get_if<exchange::Outcome>(&outcome)) {
      if (auto* encoded = std::get_if<exchange::Encoded>(exchange)) encoded->took = part;
      if (auto* committed = std::get_if<exchange::Committed>(exchange)) committed->took = part;
    }
  }
}

}  // namespace starling::peer
