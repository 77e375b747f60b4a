// What must hold in the simulated world at any time, and what is measured of it.
//
// After each event, of the peer that it touched: the exchange's rules and ledger, mirrors equal at
// both ends for equal exchange numbers, bounds of tables and queues, incarnations raised by their
// owner alone. Once a virtual second, of all: finite replicas, views, drift; of some: timers. At
// the end, where the faults have been over for long enough: one connected overlay, one view, steps
// go on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/checks/alarm.hpp"
#include "sim/verdicts.hpp"
#include "sim/world.hpp"

namespace starling::sim {

/// Faults over for so long, the swarm must be whole again.
inline constexpr double kRecoverySeconds = 150;
/// Rare branches drop links all the time: of an overlay then, it is whole now and then.
inline constexpr double kMomentSeconds = 10;

struct Outcome {
  std::string name;
  bool passed = false;
  std::optional<double> value;  ///< nothing: nothing was measured
  double limit = 0;
};

class Checks final : public Observer {
 public:
  /// `world` outlives this.
  explicit Checks(World& world);

  void touched(Node& node) override;
  void noticed(const Node& node, const base::Notice& notice) override;
  void sent(const Node& from, const wire::Message& message) override;
  void dialed(const Node& node, const std::string& address, bool answers) override;
  void stepped(Node& node) override;
  void fault(const PlannedEvent& event, bool begins) override;
  void started(Node& node) override;
  void killed(Node& node) override;
  void finished(Node& node) override;
  void second() override;

  /// After the run.
  void finish();
  /// The first invariant that broke; empty: none.
  [[nodiscard]] const std::string& failure() const noexcept { return alarm_.failure(); }
  [[nodiscard]] double failed_at() const noexcept { return alarm_.raised_at(); }
  [[nodiscard]] std::vector<Outcome> outcomes(std::optional<double> undisturbed_loss) const;
  /// Of averaging over the links that there were kJoinSeconds after the last start.
  [[nodiscard]] std::optional<double> overlay_gap() const noexcept { return gap_; }
  /// Of the links between peers, looked at once a second, the part of which it was known whether
  /// their exchanges add up to nothing; nothing: there was none.
  [[nodiscard]] std::optional<double> ledger_coverage() const noexcept;

 private:
  /// One identity: a peer, or what it was before it lost its disk.
  struct Subject {
    std::uint32_t node = 0;
    bool running = false;
    std::uint64_t incarnation = 0;  ///< the highest that its owner told
    std::uint64_t prefix = 0;       ///< of its id
    std::uint64_t samples = 0;      ///< the most that it counted itself
  };
  /// Whom a node holds alive.
  struct View {
    std::uint64_t version = 0;
    std::vector<bool> alive;  ///< by subject
    std::size_t members = 0;
    double looked_at = -1;  ///< seconds
  };
  /// How far a node has come.
  struct Stage {
    peer::Phase phase = peer::Phase::waiting;
    double since = 0;  ///< seconds
  };

  /// A life of a peer from when its tables were filled.
  struct Quiet {
    std::uint32_t life = 0;
    double since = 0;         ///< seconds
    std::uint64_t bytes = 0;  ///< that it had sent for membership
  };

  /// How far a peer has come, when it was last looked at.
  struct Advance {
    std::uint32_t life = 0;
    std::uint64_t steps = 0;
    double progress = 0;
  };

  /// A peer as it was when the window was opened.
  struct Noted {
    std::uint32_t life = 0;
    std::uint64_t step = 0;
    std::map<base::PeerId, LinkLedger> links;
  };

  void ended(Node& node);
  void note_end(const Node& node);
  [[nodiscard]] bool failures_are_expected() const;
  bool close_gap(Node& node);
  void look_at_stage(Node& node);
  void look_at_table(Node& node);
  void verdict(Node& node, std::uint32_t subject, bool alive);
  void check_mirrors(Node& node, const base::PeerId& peer);
  [[nodiscard]] std::uint32_t subject_of(const base::PeerId& id);
  [[nodiscard]] bool disturbed(std::uint32_t peer) const;
  [[nodiscard]] double convalescent_until(std::uint32_t peer) const;
  [[nodiscard]] bool one_view() const;
  [[nodiscard]] std::size_t faulty_held() const;
  void note_samples(const Node& node);
  void check_balance(const Node& node);
  void check_counters(const Node& node);
  void check_dials(const Node& node);
  [[nodiscard]] bool calm() const;
  [[nodiscard]] static bool is_clear(const Plan& plan);
  void check_verdicts();
  void check_suspicions(const Node& node);
  void check_coverage();
  void check_progress(const Node& node);
  void check_settling(const Node& node, double since);
  void look_at_window();
  void measure();
  void measure_drift();
  void measure_membership();
  void open_window();
  [[nodiscard]] std::optional<double> membership_rate() const;
  void check_exchanges(const Node& node);
  void check_stage(const Node& node);
  void check_end();
  void check_goes_on(const Node& node);
  void check_saves(const Node& node);
  [[nodiscard]] bool ring_is_over() const;
  [[nodiscard]] bool ending() const;
  void check_liveness();
  [[nodiscard]] std::optional<double> value_of(Measure measure,
                                               std::optional<double> undisturbed_loss) const;

  World& world_;
  Alarm alarm_;
  std::vector<Subject> subjects_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_prefix_;
  std::vector<View> views_;
  std::vector<std::uint32_t> own_;  ///< subject of each node
  const bool has_twins_;
  const bool is_clear_;
  double first_fault_ = -1, last_fault_ = 0, last_start_ = 0;  ///< seconds, of the plan

  Verdicts verdicts_;
  Disturbances disturbances_;
  /// By node and subject: when it changed its mind, of the last minute.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> changes_;
  std::uint64_t changes_most_ = 0;
  std::vector<Stage> stages_;  ///< of each node
  double step_gap_ = 0;
  /// Of peers while no fault holds them up: steps, and those that their speeds allow meanwhile.
  std::uint64_t steps_made_ = 0;
  double steps_possible_ = 0;
  std::optional<double> one_view_at_, views_full_at_, drift_back_at_;
  std::optional<double> drift_before_;  ///< how far apart replicas were before the first fault
  std::uint64_t commits_ = 0;
  std::vector<double> left_at_;  ///< of each peer: when it was asked to leave; below 0: never
  std::size_t active_ = 0;       ///< faults that last
  double last_change_ = 0;       ///< when one began or ended, or a peer started
  std::vector<Noted> window_;
  double window_since_ = 0;
  std::map<std::pair<std::uint32_t, std::string>, std::vector<double>> dials_;
  std::map<std::uint32_t, Advance> advances_;         ///< by node
  std::optional<double> gap_;                         ///< of the overlay when all had joined
  std::map<std::uint32_t, Quiet> quiet_;              ///< by node
  std::map<std::uint32_t, double> membership_rates_;  ///< by node: bytes a second, of its last life
  std::uint64_t links_met_ = 0, links_balanced_ = 0;  ///< once a second each
  std::size_t looked_at_ = 0;
  std::uint32_t failed_ = 0;  ///< peers that ended with an error
  double first_done_ = -1, last_end_ = -1;
  double connected_at_ = -1;  ///< with rare branches: last, near the end of the run
};

}  // namespace starling::sim
