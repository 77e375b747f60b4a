// One run with real peers, followed through its observations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/judge/meters.hpp"
#include "sim/judge/observations.hpp"
#include "sim/judge/outcome.hpp"
#include "sim/judge/verdicts.hpp"

namespace starling::sim {

class RealRun {
 public:
  /// Follows it to its end. `run` outlives this.
  explicit RealRun(const ObservedRun& run);

  /// All measurements except the distance of replicas and comparisons with other runs.
  [[nodiscard]] Measured measured() const;
  /// The replicas (SummarySeen::replica) of the peers that ended their run and left one.
  [[nodiscard]] const std::vector<std::string>& replicas() const noexcept { return replicas_; }
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  enum class State : std::uint8_t { absent, running, stopped, dead, ended };
  enum class Held : std::uint8_t { unknown, alive, dead, left };
  /// A member table, as last heard.
  struct View {
    double heard_at = 0;
    std::vector<Held> held;  ///< by peer
  };
  struct Step {
    double at = 0;
    std::uint64_t steps = 0, samples = 0;
  };
  struct Peer {
    State state = State::absent;
    bool leaving = false;  ///< it was asked to leave
    double started = 0;
    std::set<std::uint32_t> stops;  ///< events that make this process stand still
    std::optional<View> view;
    std::uint32_t links = 0;
    std::optional<std::map<std::uint32_t, LinkPath>> paths;  ///< its links, once it reported them
    std::optional<Step> last_step;    ///< in training, if nothing has ended its steps since
    std::vector<double> ends_itself;  ///< when it should have ended after its run
  };

  void take(const EventSeen& seen);
  void take(const StartSeen& seen);
  void take(const EndSeen& seen);
  void take(const SettingsSeen& seen) { settings_ = seen; }
  void take(const StatusSeen& seen);
  void take(const MembersSeen& seen);
  void take(const LinksSeen& seen);
  void take(const OverSeen& seen);
  void take(const SummarySeen& seen);

  void strike(std::uint32_t peer, const EventSeen& seen, Kind kind);
  void stop(std::uint32_t peer, const EventSeen& seen);
  void dies(std::uint32_t peer);
  void held_gone(std::uint32_t observer, std::uint32_t subject, Held held);
  void step(Peer& peer, const StatusSeen& seen);
  void end_gap(std::uint32_t peer);
  void compare_views();
  void count_links();
  [[nodiscard]] std::optional<double> drift_back_within() const;
  [[nodiscard]] std::optional<LinkPath> path(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] bool is_hostile(std::uint32_t peer) const;
  [[nodiscard]] bool runs(std::uint32_t peer) const;
  /// Honest peers that run and have a replica.
  [[nodiscard]] std::vector<std::uint32_t> trainers() const;

  const Plan& plan_;
  const FaultTimes times_;
  double now_ = 0;
  bool over_ = false;
  bool ending_ = false;  ///< peers begin to end their run: changes of who runs are not faults
  std::vector<Peer> peers_;
  std::vector<bool> held_up_;  ///< by peer: no steps are expected of it
  SettingsSeen settings_;
  Verdicts verdicts_;
  MindChanges changes_;
  MembershipRates rates_;
  Pace pace_;
  PairTimes pairs_;
  std::optional<double> all_answer_at_;  ///< when all peers had reported their links
  std::optional<double> agree_since_, one_view_at_, views_full_at_;
  std::vector<std::pair<double, double>> drifts_;  ///< when, and how much, of all in training
  std::optional<double> first_done_, last_done_;   ///< when peers had ended their run
  std::uint32_t failed_ = 0;                       ///< lives that ended with an error
  std::vector<Result> results_;
  std::vector<std::string> replicas_;
  std::vector<std::string> notes_;
};

}  // namespace starling::sim
