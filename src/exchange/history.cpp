#include "exchange/history.hpp"

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "exchange/decision.hpp"

namespace starling::exchange {

History::History(const Options& options)
    : has_state_(options.has_state),
      samples_target_(options.samples_target),
      samples_at_start_(options.samples),
      progress_at_start_(options.progress),
      steps_(options.step),
      samples_(options.samples),
      progress_(options.progress) {
  ASSERT(options.samples_target > 0);
}

void History::on(const Progressed& event, std::size_t open_links) {
  ASSERT(event.samples >= samples_);
  steps_ = event.step;
  samples_ = event.samples;
  progress_ = event.progress;
  // One that sees the start of the run from inside has its part in it; the known progress of one
  // that comes late jumps over this range.
  if ((progress_ > kFreshProgress && progress_ <= kHistoryProgress && open_links > 0) ||
      SIM_RARE(never_adopts)) {
    mixed_ = true;
  }
}

bool History::may_adopt() const {
  if (mixed_) return false;
  // Began anew, and has made no more than a beginning of the run by itself.
  if (!has_state_ && own_progress() <= kFreshProgress) return true;
  // The part of the run that others have done since this replica took part in it.
  return known_progress() - progress_at_start_ - own_progress() > kStale;
}

bool History::is_fresh_restart() const {
  return has_state_ && !mixed_ && samples_ == samples_at_start_;
}

double History::own_progress() const {
  return static_cast<double>(samples_ - samples_at_start_) / static_cast<double>(samples_target_);
}

}  // namespace starling::exchange
