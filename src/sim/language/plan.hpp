// A resolved scenario: the identity of each peer, and every single event with its time and its
// peers. The same scenario and seed give the same plan; simulator and real harness both follow it.
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
  bool relay = false;                       ///< it has no replica
  std::optional<NatSettings> nat;           ///< nothing: no entry names it
  std::uint32_t router = 0;                 ///< peers with the same number share a router
  std::optional<hostile::Attack> attack{};  ///< nothing: it is honest
};

/// Whether the peer's packets pass a router or a firewall of its own.
[[nodiscard]] bool is_behind_router(const PlannedPeer& peer);

/// All paths from one of `from` to one of `to`, in this direction. Both lists rise; a peer may be
/// in both (it has no path to itself).
struct Paths {
  std::vector<std::uint32_t> from, to;
};

/// One event at `at` (seconds since the start). An event with an end ends at `until`.
struct PlannedEvent {
  double at = 0;
  std::optional<double> until;       ///< stop, partition, degrade, throttle, disk_full, twin, skew
  Kind kind = Kind::kill;            ///< never heal
  std::vector<std::uint32_t> peers;  ///< rising; partition and degrade: the peers concerned
  std::vector<std::uint32_t> via;    ///< join: peers whose addresses the new peer gets
  std::vector<Paths> paths;  ///< partition, router_restart: nothing passes; degrade: these change
  Conditions conditions;     ///< degrade
  double speed = 1;          ///< throttle
  double rate = 1;           ///< skew
  Disk disk = Disk::kept;    ///< restart
  Address address = Address::kept;  ///< restart, router_restart
  int line = 0;                     ///< of the timeline's entry; 0: the peers that start first
};

struct Plan {
  Scenario scenario;
  std::uint64_t seed = 0;
  std::vector<PlannedPeer> peers;    ///< by number
  std::vector<PlannedEvent> events;  ///< in order of time
};

[[nodiscard]] bool has_hostiles(const Plan& plan);
[[nodiscard]] bool has_event(const Plan& plan, Kind kind);
/// Whether nothing passes on the event's paths while it lasts.
[[nodiscard]] constexpr bool cuts_paths(Kind kind) noexcept {
  return kind == Kind::partition || kind == Kind::router_restart;
}

/// When faults begin and end, in seconds; joins are not faults.
struct FaultTimes {
  double first = -1;      ///< below 0: there is none
  double last = 0;        ///< all are over and all have started; without an end: the plan's
  double last_start = 0;  ///< joins and restarts
};
[[nodiscard]] FaultTimes fault_times(const Plan& plan);

/// Resolves with the scenario's seed, or with another one. Errors (ErrorCode::run_file): a peer
/// that does not exist, too many peers or events.
[[nodiscard]] base::Result<Plan> make_plan(Scenario scenario,
                                           std::optional<std::uint64_t> seed = std::nullopt);

/// The plan as JSON; scenarios/LANGUAGE.md describes the format.
[[nodiscard]] std::string to_json(const Plan& plan);

}  // namespace starling::sim
