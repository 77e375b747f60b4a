// How far the run is, and how much of it is in a peer's replica: so whether the peer would rather
// take over another's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exchange/events.hpp"
#include "exchange/options.hpp"

namespace starling::exchange {

/// A peer with open links whose progress rises from kFreshProgress to this has been in the run from
/// its start: its replica counts as mixed with others'.
inline constexpr double kHistoryProgress = 0.1;

class History {
 public:
  explicit History(const Options& options);

  // Events.
  void on(const Progressed& event, std::size_t open_links);
  /// A neighbour's LinkOpen says how far the swarm is.
  void hear(double progress) noexcept { heard_ = std::max(heard_, progress); }
  /// Others mix with this replica from here on, or it was taken over from one of them.
  void mix() noexcept { mixed_ = true; }
  void on_link_open() noexcept { had_link_ = true; }

  // State.
  /// Own steps, those of earlier starts included.
  [[nodiscard]] base::StepNumber steps() const noexcept { return steps_; }
  /// Own samples, those of earlier starts included.
  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  /// The swarm's progress, as this peer's own steps know it.
  [[nodiscard]] double progress() const noexcept { return progress_; }
  /// The same, by what neighbours have sent, too.
  [[nodiscard]] double known_progress() const noexcept { return std::max(progress_, heard_); }
  /// The replica is not given up any more.
  [[nodiscard]] bool is_mixed() const noexcept { return mixed_; }
  /// This peer would take over a neighbour's replica rather than mix its own in.
  [[nodiscard]] bool may_adopt() const;
  /// Its checkpoint may be too old, and nothing has come of this start yet.
  [[nodiscard]] bool is_fresh_restart() const;
  /// Little of the run is in this replica: it was to take over another's, and no link was ever
  /// open.
  [[nodiscard]] bool never_joined() const { return !had_link_ && may_adopt(); }

 private:
  /// Own samples of this start, as part of the run's.
  [[nodiscard]] double own_progress() const;

  bool has_state_;
  std::uint64_t samples_target_;
  std::uint64_t samples_at_start_;
  double progress_at_start_;
  base::StepNumber steps_;
  std::uint64_t samples_;
  double progress_;
  double heard_ = 0;  // the largest progress that a neighbour has sent
  bool mixed_ = false;
  bool had_link_ = false;  // one was open
};

}  // namespace starling::exchange
