// The log of a run with real peers: what the laboratory did, and what the peers said of themselves.
// It judges nothing; the format stands in scenarios/README.md.
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

inline constexpr std::uint64_t kObservationBytesMax = 256 << 20;  ///< of a log

// What is observed. Peers and events are numbers of the plan, and exist.

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
/// It has ended, without having been killed by an event.
struct EndSeen {
  std::uint32_t peer = 0;
  std::int32_t code = 0;      ///< its exit code; below 0: of a signal
  bool cannot_start = false;  ///< it found no room on its disk
};
/// What peers say of their run file, the same for all.
struct SettingsSeen {
  std::uint32_t degree = 1;  ///< swarm.degree
  std::uint32_t batch = 1;   ///< train.batch
};
/// What a peer says of itself.
struct StatusSeen {
  std::uint32_t peer = 0;
  peer::Phase phase = peer::Phase::waiting;
  std::uint64_t steps = 0, samples = 0;
  std::optional<double> drift;         ///< nothing: it never had a link
  std::uint32_t links = 0;             ///< with neighbours
  std::uint64_t membership_bytes = 0;  ///< sent since it was started
};
/// Whom a peer holds for what. Each peer stands in one list at most.
struct MembersSeen {
  std::uint32_t peer = 0;
  std::vector<std::uint32_t> alive, dead, left;
};
/// With whom a peer says that it is linked.
struct LinksSeen {
  std::uint32_t peer = 0;
  std::vector<std::uint32_t> direct, circuit;
};
/// No more is heard, and all are asked to leave: only ends and summaries follow.
struct OverSeen {};
/// What a peer left at its end.
struct SummarySeen {
  std::uint32_t peer = 0;
  bool done = false;  ///< it ended its run
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

/// Reads and checks a log. Errors (ErrorCode::data) name file and line, what is wrong and what to
/// do.
[[nodiscard]] base::Result<ObservationLog> read_observations(const std::string& path);
/// The same for a text; `path` stands in messages.
[[nodiscard]] base::Result<ObservationLog> parse_observations(std::string_view text,
                                                              const std::string& path);

}  // namespace starling::sim
