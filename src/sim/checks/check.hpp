// A check: something that must hold in the simulated world, or is measured there. Each check is one
// .cpp of this folder, which exports a function that is listed in kChecks (checks.cpp).
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

/// The results of the checks at the end.
struct Findings {
  Measured measured;
  /// The fraction of the links between peers, looked at once a second, for which it was known
  /// whether their exchanges add up to nothing; nothing: there was no link.
  std::optional<double> ledger_coverage;
};

/// Data that all checks share; it outlives them.
struct Scene {
  const World& world;
  Alarm& alarm;
  Subjects& subjects;  ///< hears first of any event at a node
  const Calm& calm;    ///< hears of it next
  Findings& findings;
  // Checks that other checks ask.
  Stages& stages;
  Tables& tables;
};

/// Checks look without changing anything. A check overrides only the functions that it needs.
class Check {
 public:
  Check() = default;
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  virtual ~Check() = default;

  virtual void started(const Node&) {}
  virtual void ended(const Node&) {}     ///< in any way; before the next two
  virtual void killed(const Node&) {}    ///< by a fault, without a goodbye
  virtual void finished(const Node&) {}  ///< by itself
  virtual void fault(const PlannedEvent&, bool /*begins*/) {}
  virtual void sent(const Node& /*from*/, const wire::Message&) {}
  virtual void dialed(const Node&, const peer::Dial&, bool /*answers*/) {}
  virtual void relays(const Node& /*relay*/) {}
  virtual void stepped(const Node&, std::uint32_t /*samples*/) {}
  virtual void touched(Node&) {}        ///< after each event at a process
  virtual void second() {}              ///< once a second
  virtual void look_at(const Node&) {}  ///< after second(), at each process that is up
  virtual void inspect(const Node&) {}  ///< after that, in turn: slower checks
  virtual void second_ends() {}         ///< after all of these
  /// The run is over: add the measurements to the findings.
  virtual void finish() {}
};

using MakeCheck = std::unique_ptr<Check>(const Scene& scene);
MakeCheck make_advances, make_calm_minutes, make_counters, make_dials, make_exchanges,
    make_incarnations, make_membership_cost, make_pairs, make_reaches, make_recovery, make_results,
    make_soundness;

}  // namespace starling::sim
