// Tables compared with the truth: which deaths were noticed, and when; which verdicts "dead" were
// false. For both worlds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/judge/disturbances.hpp"
#include "sim/language/plan.hpp"
#include "sim/network/paths.hpp"

namespace starling::sim {

/// A verdict is false only if its subject and its observer had run and reached each other for this
/// many seconds: decisions made during a fault may arrive a little later.
inline constexpr double kSettledSeconds = 5;
/// A path that loses at least this fraction of its packets reaches nobody.
inline constexpr double kLossOfNoPath = 0.5;

/// A subject is an identity; each peer has one running at a time (twins are not judged). Times are
/// seconds since the start and never decrease.
class Verdicts {
 public:
  /// `plan` outlives this.
  explicit Verdicts(const Plan& plan)
      : held_up_(plan.peers.size()),
        runs_(plan.peers.size()),
        paths_(plan),
        subjects_(plan.peers.size()) {}

  /// The subject has started as this peer.
  void runs(std::uint32_t subject, std::uint32_t peer, double now);
  /// The subject says goodbye.
  void leaves(std::uint32_t subject);
  /// The subject was killed; `observers` hold it alive and should notice.
  void dies(std::uint32_t subject, std::span<const std::uint32_t> observers, double now);
  /// Any event of the plan; `event` outlives this.
  void fault(const PlannedEvent& event, bool begins, double now);
  /// From now on, the observer's table says that the subject is dead, or has left.
  void held_dead(std::uint32_t subject, std::uint32_t observer, double now);
  /// Nothing more is heard.
  void finish(double now);

  /// Seconds, one value for each death and observer. A death that was not noticed before its peer
  /// was back, or before the end, counts with the time available, if that was at least
  /// kSettledSeconds.
  [[nodiscard]] const std::vector<double>& detections() const noexcept { return detections_; }
  /// Subjects that were falsely held dead, each at most once per fault.
  [[nodiscard]] std::uint64_t false_deaths() const noexcept { return false_deaths_; }
  /// By all observers, while there was no cut and had been none for kSettledSeconds: during a cut,
  /// a refutation may not arrive even if there is a path.
  [[nodiscard]] std::uint64_t false_verdicts() const noexcept { return false_verdicts_; }

 private:
  struct Subject {
    std::uint32_t peer = 0;
    std::optional<double> since;              ///< running
    std::optional<std::uint64_t> false_once;  ///< in this fault
  };
  /// Paths on which nothing passes, or passed until `until`.
  struct Cut {
    const PlannedEvent* event;
    std::optional<double> until;
  };

  [[nodiscard]] bool settled(std::uint32_t subject, double now) const;
  [[nodiscard]] bool apart(std::uint32_t a, std::uint32_t b, double since) const;
  [[nodiscard]] bool any_cut(double since) const;
  [[nodiscard]] bool disconnected(std::uint32_t peer) const;
  void forget(std::uint32_t observer);
  void unnoticed(double died, double now);

  Disturbances held_up_;  ///< by faults that keep a peer from judging and being judged
  std::vector<std::optional<std::uint32_t>> runs_;  ///< by peer: the subject that runs, or ran last
  PathTable paths_;                                 ///< undisturbed
  std::vector<Subject> subjects_;
  std::vector<Cut> cuts_;  ///< those over for longer than kSettledSeconds are dropped
  std::uint64_t faults_ = 0;
  /// By subject and observer: when the subject died.
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> pending_;
  std::vector<double> detections_;
  std::uint64_t false_deaths_ = 0, false_verdicts_ = 0;
};

}  // namespace starling::sim
