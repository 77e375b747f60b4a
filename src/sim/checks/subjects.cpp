#include "sim/checks/subjects.hpp"

namespace starling::sim {

std::uint32_t Subjects::number_of(const base::PeerId& id) {
  const auto [at, is_new] =
      by_prefix_.try_emplace(id.prefix(), static_cast<std::uint32_t>(all_.size()));
  if (is_new) all_.push_back({.prefix = id.prefix()});
  return at->second;
}

void Subjects::started(const Node& node) {
  if (node.number >= own_.size()) own_.resize(node.number + 1);
  const std::uint32_t number = number_of(node.id);
  own_[node.number] = number;
  if (!node.is_twin()) all_[number].node = node.number;
  all_[number].running = true;
}

void Subjects::ended(const Node& node) {
  if (!node.is_twin()) all_[own(node)].running = false;
}

}  // namespace starling::sim
