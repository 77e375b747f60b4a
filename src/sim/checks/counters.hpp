// Counters of samples: nobody knows of more than their owner has counted.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/subjects.hpp"

namespace starling::sim {

class Counters {
 public:
  /// All outlive this.
  Counters(const Subjects& subjects, const Calm& calm, Alarm& alarm)
      : subjects_(subjects), calm_(calm), alarm_(alarm) {}

  /// Takes what the peer has trained, by its own word.
  void note(const Node& node);
  void check(const Node& node);

 private:
  const Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  std::vector<std::uint64_t> samples_;  ///< by subject: the most that it counted itself
};

}  // namespace starling::sim
