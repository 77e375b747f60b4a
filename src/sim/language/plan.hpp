// A scenario resolved: who each peer is, and every single thing that happens at which time to whom.
// The same scenario and seed give the same plan; simulator and real harness both follow it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/language/scenario.hpp"

namespace starling::sim {

struct PlannedPeer {
  std::uint32_t number = 0;
  std::string name;  ///< "peer-<number>"
  std::string region;
  double speed = 1;
  bool relay = false;              ///< it has no replica
  std::optional<NatSettings> nat;  ///< nothing: no entry is of it
  std::uint32_t router = 0;        ///< peers with the same number share what they are behind
};

/// Whether what it sends passes a router or a firewall of its own.
[[nodiscard]] bool is_behind_router(const PlannedPeer& peer);

/// All paths from one of `from` to one of `to`, in this direction; both rising, a peer may be in
/// both (its path to itself does not exist).
struct Paths {
  std::vector<std::uint32_t> from, to;
};

/// One thing that happens at `at` (seconds since the start). What has an end ends at `until`.
struct PlannedEvent {
  double at = 0;
  std::optional<double> until;       ///< stop, partition, degrade, throttle, disk_full, twin, skew
  Kind kind = Kind::kill;            ///< never heal
  std::vector<std::uint32_t> peers;  ///< rising; of partition and degrade: those concerned
  std::vector<std::uint32_t> via;    ///< join: peers whose addresses it gets
  std::vector<Paths> paths;  ///< partition, router_restart: nothing passes; degrade: these change
  Conditions conditions;     ///< degrade
  double speed = 1;          ///< throttle
  double rate = 1;           ///< skew
  Disk disk = Disk::kept;    ///< restart
  Address address = Address::kept;  ///< restart, router_restart
  int line = 0;                     ///< of the timeline's entry; 0: the peers of the start
};

struct Plan {
  Scenario scenario;
  std::uint64_t seed = 0;
  std::vector<PlannedPeer> peers;    ///< by number
  std::vector<PlannedEvent> events;  ///< in order of time
};

[[nodiscard]] bool has_event(const Plan& plan, Kind kind);
/// Whether nothing passes on the event's paths while it lasts.
[[nodiscard]] constexpr bool cuts_paths(Kind kind) noexcept {
  return kind == Kind::partition || kind == Kind::router_restart;
}

/// When faults begin and end, in seconds; joins are none.
struct FaultTimes {
  double first = -1;      ///< below 0: there is none
  double last = 0;        ///< all are over and all have started. What has no end ends with the plan
  double last_start = 0;  ///< joins and restarts
};
[[nodiscard]] FaultTimes fault_times(const Plan& plan);

/// Resolves with the scenario's seed, or with another. Errors (ErrorCode::run_file): a peer that
/// there is not, too many peers or events.
[[nodiscard]] base::Result<Plan> make_plan(Scenario scenario,
                                           std::optional<std::uint64_t> seed = std::nullopt);

/// The plan as JSON; the format stands in scenarios/LANGUAGE.md.
[[nodiscard]] std::string to_json(const Plan& plan);

}  // namespace starling::sim
