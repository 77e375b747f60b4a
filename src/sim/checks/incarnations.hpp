// Incarnations are raised by their owner alone.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/checks/subjects.hpp"
#include "wire/messages.hpp"

namespace starling::sim {

class Incarnations {
 public:
  /// Both outlive this.
  Incarnations(Subjects& subjects, Alarm& alarm) : subjects_(subjects), alarm_(alarm) {}

  void started(const Node& node);
  void sent(const Node& from, const wire::Message& message);

 private:
  void check(const Node& from, const wire::MemberRecord& record);
  [[nodiscard]] std::uint64_t& told_by(std::uint32_t subject);

  Subjects& subjects_;
  Alarm& alarm_;
  std::vector<std::uint64_t> told_;  ///< by subject: the highest that it told of itself
};

}  // namespace starling::sim
