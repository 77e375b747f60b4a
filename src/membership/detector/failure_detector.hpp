// When silence on a link means something: the mean of the other end's heartbeat intervals plus
// some deviations, within bounds. In the spirit of the phi-accrual detector (Hayashibara et al.,
// SRDS 2004), with the estimator of TCP's retransmission timer (Jacobson, SIGCOMM 1988), which
// needs no window of samples.
#pragma once

#include "base/time.hpp"

namespace starling::membership {

class FailureDetector {
 public:
  /// `heartbeat`: the interval to expect until some were observed.
  FailureDetector(base::Duration heartbeat, base::Time now);

  /// Any frame arrived.
  void heard(base::Time now) noexcept;
  /// Part of a frame arrived (counts as heard), which holds up the heartbeats behind it.
  void part(base::Time now) noexcept;
  /// A heartbeat arrived (counts as heard). False: it was held up, or came in the crowd of those
  /// that were, and when it came says nothing.
  bool heartbeat(base::Time now) noexcept;
  /// This peer itself stood still: what came before says nothing.
  void restart(base::Time now) noexcept;

  /// Silence longer than this is suspicious: within kSilentBeatsMin heartbeats and kSilenceMax.
  [[nodiscard]] base::Duration timeout() const noexcept;
  /// When the present silence becomes suspicious.
  [[nodiscard]] base::Time deadline() const noexcept { return last_heard_ + timeout(); }
  [[nodiscard]] base::Time last_heard() const noexcept { return last_heard_; }

 private:
  base::Duration expected_;
  base::Duration mean_;
  base::Duration deviation_;
  base::Time last_heard_;
  base::Time last_beat_;
  bool held_up_ = false;      ///< heartbeats were, since the last one
  bool catching_up_ = false;  ///< the last one was held up
};

}  // namespace starling::membership
