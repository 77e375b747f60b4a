// The log of a run with real peers: the actions of the laboratory, and the reports of the peers. It
// judges nothing; scenarios/README.md describes the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "peer/status.hpp"
#include "sim/language/plan.hpp"

namespace starling::sim {

inline constexpr std::uint64_t kObservationBytesMax = 256 << 20;  ///< size of a log

// Observations. Peers and events are numbers of the plan, and exist.

/// An event of the timeline begins or ends.
struct EventSeen {
  std::uint32_t event = 0;
  bool begins = true;
};
/// A process is started.
struct StartSeen {
  std::uint32_t peer = 0;
  bool disk_full = false;  ///< it will end at once
};
/// A process has ended, and not because an event killed it.
struct EndSeen {
  std::uint32_t peer = 0;
  std::int32_t code = 0;      ///< its exit code; below 0: a signal
  bool cannot_start = false;  ///< it found no room on its disk
};
/// Settings of the run file, as peers report them; the same for all.
struct SettingsSeen {
  std::uint32_t degree = 1;  ///< swarm.degree
  std::uint32_t batch = 1;   ///< train.batch
};
/// A peer's report about itself.
struct StatusSeen {
  std::uint32_t peer = 0;
  peer::Phase phase = peer::Phase::waiting;
  std::uint64_t steps = 0, samples = 0;
  std::optional<double> drift;         ///< nothing: it never had a link
  std::uint32_t links = 0;             ///< with neighbours
  std::uint64_t membership_bytes = 0;  ///< since it was started
};
/// Which peers a peer holds alive, dead or left. Each peer is in at most one list.
struct MembersSeen {
  std::uint32_t peer = 0;
  std::vector<std::uint32_t> alive, dead, left;
};
/// The links that a peer reports.
struct LinksSeen {
  std::uint32_t peer = 0;
  std::vector<std::uint32_t> direct, circuit;
};
/// Nothing more is observed, and all are asked to leave: only ends and summaries follow.
struct OverSeen {};
/// A peer's summary at its end.
struct SummarySeen {
  std::uint32_t peer = 0;
  bool done = false;  ///< it completed its run
  std::optional<double> accuracy, loss;
  std::uint64_t sent_bytes = 0;
  std::string replica;  ///< path of its last checkpoint's model, from the log's folder; empty: none
};

struct Observation {
  double at = 0;  ///< seconds since the start; never decreases
  std::variant<EventSeen, StartSeen, EndSeen, SettingsSeen, StatusSeen, MembersSeen, LinksSeen,
               OverSeen, SummarySeen>
      seen;
};

struct ObservedRun {
  Plan plan;
  std::vector<Observation> observations;  ///< OverSeen among them
};

struct ObservationLog {
  ObservedRun run;
  std::optional<ObservedRun> undisturbed;  ///< the same without its timeline
};

/// Reads and checks a log. Errors (ErrorCode::data) name file and line, the fault and the remedy.
[[nodiscard]] base::Result<ObservationLog> read_observations(const std::string& path);
/// The same for a text; messages name `path`.
[[nodiscard]] base::Result<ObservationLog> parse_observations(std::string_view text,
                                                              const std::string& path);

}  // namespace starling::sim
