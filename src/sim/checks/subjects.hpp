// Identities, numbered in the order in which they were first heard of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/world.hpp"

namespace starling::sim {

/// One identity: a peer, or the same peer before it lost its disk.
struct Subject {
  std::uint32_t node = 0;
  bool running = false;
  std::uint64_t prefix = 0;  ///< of its id
};

class Subjects {
 public:
  explicit Subjects(std::size_t nodes) : own_(nodes) {}

  void started(const Node& node);
  void ended(const Node& node);

  /// The number of an identity; a new one if nothing was heard of it before.
  [[nodiscard]] std::uint32_t number_of(const base::PeerId& id);
  /// The identity under which the node runs, or ran last.
  [[nodiscard]] std::uint32_t own(const Node& node) const { return own_[node.number]; }
  [[nodiscard]] const Subject& operator[](std::uint32_t number) const { return all_[number]; }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  std::vector<Subject> all_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_prefix_;
  std::vector<std::uint32_t> own_;  ///< of each node
};

}  // namespace starling::sim
