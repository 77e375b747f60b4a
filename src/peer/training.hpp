// A peer's training: the steps that it hands to its worker, on which data, at which learning rate
// and pace, and how far it and the swarm have come.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bound.hpp"
#include "base/time.hpp"
#include "data/sharding.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/assignment.hpp"
#include "peer/config.hpp"
#include "peer/evaluations.hpp"
#include "peer/events.hpp"
#include "peer/resume.hpp"
#include "peer/speed_meter.hpp"
#include "peer/step_pace.hpp"
#include "peer/weight_meter.hpp"

namespace starling::peer {

/// How far a peer has come.
struct Standing {
  base::StepNumber step;            ///< own steps, those of former lives included
  std::uint64_t samples = 0;        ///< own, likewise
  std::uint64_t swarm_samples = 0;  ///< as far as this peer knows
  double progress = 0;              ///< of the swarm, 0 to 1; never falls
  float learning_rate = 0;          ///< of the steps handed out last
  std::optional<double> loss;       ///< of the last batches of this life, smoothed
  std::optional<base::Time> since;  ///< when the first step was handed out
  std::optional<base::Time> first_step;
  std::optional<base::Time> last_step;  ///< both: when it was done
};

class Training {
 public:
  /// All of them outlive this, except `resume`.
  Training(const Config& config, const data::Shards& shards, const membership::Core& membership,
           Agreement& agreement, const Resume& resume);

  void begin(base::Time now) noexcept { so_far_.since = now; }
  /// Members or their speeds are others: the assignment of the next step is decided anew.
  void members_changed() noexcept { members_changed_ = true; }
  /// Counts what is known of the swarm's samples.
  void update_progress(base::Time now);
  /// The run has reached its target, so that a restart does not train on, either.
  void end_run() noexcept { so_far_.progress = 1.0; }
  [[nodiscard]] bool is_over() const noexcept { return so_far_.progress >= 1.0; }
  /// Asks for steps until kStepsAhead are under way, or one where all go in step.
  void hand_out_steps(base::Time now, Outbox& out);
  /// Counts a step.
  void count(const StepDone& done, base::Time now);
  /// The speed and the weight of this peer, where others are to hear of them.
  [[nodiscard]] std::optional<membership::SpeedMeasured> take_news(base::Time now);
  /// How much this peer counts in averages: an exponent, or wire::kNoWeight.
  [[nodiscard]] std::int8_t weight() const;
  /// The same by its speed alone, where that is measured.
  [[nodiscard]] std::optional<std::int8_t> measured_weight() const;
  void evaluate_if_due(Outbox& out);

  /// Steps without an outcome.
  [[nodiscard]] std::uint32_t under_way() const noexcept { return under_way_; }
  /// When the limit of steps a second lets the next one go; nothing: it does not keep it back.
  [[nodiscard]] std::optional<base::Time> next_step_at() const noexcept { return pace_.next(); }
  [[nodiscard]] const Standing& so_far() const noexcept { return so_far_; }
  /// As the exchange takes it, after a step that took so long.
  [[nodiscard]] exchange::Progressed progressed(base::Duration took = {}) const;
  [[nodiscard]] const Assignment& assignment() const noexcept { return assignment_; }
  [[nodiscard]] Evaluations& evaluations() noexcept { return evaluations_; }
  [[nodiscard]] const Evaluations& evaluations() const noexcept { return evaluations_; }
  void add_bounds(base::Bounds& out) const;

 private:
  void assign_shards(Outbox& out);
  void warn_of_rate(Outbox& out);

  const Config& config_;
  const data::Shards& shards_;
  const membership::Core& membership_;
  Agreement& agreement_;
  Evaluations evaluations_;
  Standing so_far_;
  Assignment assignment_;        ///< of the next steps
  bool members_changed_ = true;  ///< assignment_ is to be decided anew
  SpeedMeter speed_;
  WeightMeter weight_;
  bool warned_of_rate_ = false;
  double rate_factor_ = 1;  ///< of the learning rate, by the batch
  StepPace pace_;
  std::uint32_t under_way_ = 0;
};

}  // namespace starling::peer
