// A peer's way through its run: waiting for others, training, settling, finishing, done, and for
// which reason.
#pragma once

#include <optional>
#include <vector>

#include "base/time.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/neighbours.hpp"
#include "peer/saving.hpp"
#include "peer/status.hpp"
#include "peer/training.hpp"
#include "peer/whole.hpp"
#include "reach/core.hpp"

namespace starling::peer {

/// A peer that is done stays at most so long for circuits that it relays.
inline constexpr base::Duration kStayMax = std::chrono::seconds(30);
/// Between two rows of the metrics, beside those with an evaluation.
inline constexpr base::Duration kReportEvery = std::chrono::seconds(2);

class Lifecycle {
 public:
  /// The other parts of the peer; all of them outlive this.
  struct Parts {
    const Config& config;
    const Neighbours& neighbours;
    const reach::Core& reach;
    membership::Core& membership;
    Agreement& agreement;
    Training& training;
    Saving& saving;
    Whole& whole;
  };
  struct Timers {
    std::optional<base::Time> wait_until;   ///< end of the wait for links; none: it is over
    std::optional<base::Time> alone_until;  ///< require_peers: end of the wait for a first peer
    std::optional<base::Time> stay_until;   ///< it is done, and stays as a relay
    std::optional<base::Time> report_at;
  };

  explicit Lifecycle(const Parts& parts);

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] const Timers& timers() const noexcept { return timers_; }
  /// When the limit of steps a second lets the next step go, where nothing else will cause it.
  [[nodiscard]] std::optional<base::Time> step_at() const;
  /// As in Status.
  [[nodiscard]] const std::optional<bool>& settled() const noexcept { return settled_; }
  [[nodiscard]] const std::vector<LeftOut>& left_out() const noexcept { return left_out_; }

  // Events.
  void start(base::Time now);
  void leave(base::Time now, Outbox& out);
  void on(const StepDone& done, base::Time now, Outbox& out);
  void on(const OuterStepDone&, base::Time now, Outbox& out);
  void on(const Saved& saved, base::Time now, Outbox& out);
  void on(const Agreement::Settled& settled, base::Time now, Outbox& out);
  void on(Agreement::Broken& broken, base::Time now, Outbox& out);
  /// Nothing: there was nothing to evaluate with.
  void end_evaluation(const std::optional<Evaluated>& evaluated, base::Time now, Outbox& out);
  /// Others may have come or gone.
  void members_changed(base::Time now, Outbox& out);
  /// The agreement with others has changed: steps may be possible that were not.
  void agreement_changed(base::Time now, Outbox& out);

  // Steps on the way, each taken only if its time has come.
  void start_if_ready(base::Time now, Outbox& out);
  void end_wait(base::Time now, Outbox& out);
  void end_if_alone(base::Time now, Outbox& out);
  /// The end of a peer that is done, and stayed as a relay as long as one was needed.
  void end_stay_if_over(base::Time now, Outbox& out);
  void end_if_over(base::Time now, Outbox& out);
  void next_steps(base::Time now, Outbox& out);
  void report(base::Time now, Outbox& out);

  /// Says goodbye and ends the peer, unless it has ended.
  void end(Finished finished, base::Time now, Outbox& out);

 private:
  void begin_settling(base::Time now, Outbox& out);
  void settle(base::Time now, Outbox& out);
  void begin_finishing(base::Time now, Outbox& out);
  void end_if_finished(base::Time now, Outbox& out);
  /// What the program ends with, of a peer that is done; without a text: all went well.
  [[nodiscard]] base::Error shortcoming() const;
  [[nodiscard]] bool may_step() const;
  /// This peer, which is done, is still needed as a relay.
  [[nodiscard]] bool stays_as_relay(base::Time now, Outbox& out);
  /// Tells the others how far this peer has come.
  void publish(base::Time now);

  Parts parts_;
  Phase phase_;
  bool started_ = false;
  bool leaving_ = false;
  Timers timers_;
  std::optional<bool> settled_;
  std::vector<LeftOut> left_out_;
};

}  // namespace starling::peer
