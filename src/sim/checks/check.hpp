// What a check is: something that must hold in the simulated world, or is measured of it. Each is
// one .cpp of this folder, which hands it over by its function in kChecks (checks.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/subjects.hpp"
#include "sim/judge/outcome.hpp"

namespace starling::sim {

class Stages;
class Tables;

/// What checks say at the end.
struct Findings {
  Measured measured;
  /// Of the links between peers, looked at once a second, the part of which it was known whether
  /// their exchanges add up to nothing; nothing: there was none.
  std::optional<double> ledger_coverage;
};

/// What all checks share; it outlives them.
struct Scene {
  const World& world;
  Alarm& alarm;
  Subjects& subjects;  ///< of what happens to a node they hear first
  const Calm& calm;    ///< hears of it next
  Findings& findings;
  // Checks that others ask.
  Stages& stages;
  Tables& tables;
};

/// Looking changes nothing. What is not overridden is of no concern to it.
class Check {
 public:
  Check() = default;
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  virtual ~Check() = default;

  virtual void started(const Node&) {}
  virtual void ended(const Node&) {}     ///< in whichever way; before the two that follow
  virtual void killed(const Node&) {}    ///< without a word
  virtual void finished(const Node&) {}  ///< by itself
  virtual void fault(const PlannedEvent&, bool /*begins*/) {}
  virtual void sent(const Node& /*from*/, const wire::Message&) {}
  virtual void dialed(const Node&, const peer::Dial&, bool /*answers*/) {}
  virtual void relays(const Node& /*relay*/) {}
  virtual void stepped(const Node&, std::uint32_t /*samples*/) {}
  virtual void touched(Node&) {}        ///< after each event at a process
  virtual void second() {}              ///< once a second
  virtual void look_at(const Node&) {}  ///< after it, at each process that is up
  virtual void inspect(const Node&) {}  ///< after it, in turn: what takes longer
  virtual void second_ends() {}         ///< after all of these
  /// The run is over: what was measured goes to the findings.
  virtual void finish() {}
};

using MakeCheck = std::unique_ptr<Check>(const Scene& scene);
MakeCheck make_advances, make_calm_minutes, make_counters, make_dials, make_exchanges,
    make_incarnations, make_membership_cost, make_pairs, make_reaches, make_recovery, make_results,
    make_soundness;

}  // namespace starling::sim
