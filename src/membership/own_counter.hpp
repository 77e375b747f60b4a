// This peer's own sample counter: what it has trained, in this life and in former ones, how fast it
// does, and whether it stands still.
#pragma once

#include <cstdint>

#include "base/time.hpp"

namespace starling::membership {

class OwnCounter {
 public:
  /// A former life has trained so many samples: its checkpoint says so, or others whom it told. The
  /// counter is at least that. Whether it rises by this; before set() it is not known yet.
  bool recall(std::uint64_t samples);

  /// `samples` by this life's count, which never falls. Whether the others must be told at once: it
  /// begins or ends training, its rate is known for the first time, or this is the first call.
  bool set(std::uint64_t samples, bool trains, base::Time now);

  /// True once when it trains and has made no step for long: it evaluates, saves, or waits for its
  /// disk.
  [[nodiscard]] bool has_stalled(base::Time now);

  [[nodiscard]] bool trains() const noexcept { return trains_; }
  /// With what former lives trained and this life's count does not have.
  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  /// That part of samples().
  [[nodiscard]] std::uint64_t recalled() const noexcept { return recalled_; }
  /// Samples a second; 0 while it does not train or is stalled.
  [[nodiscard]] double rate() const noexcept { return trains_ && !stalled_ ? rate_ : 0; }
  /// The highest of this life.
  [[nodiscard]] double highest_rate() const noexcept { return highest_rate_; }

 private:
  void measure(base::Time now);

  bool is_set_ = false;
  bool trains_ = false;
  bool stalled_ = false;
  std::uint64_t samples_ = 0;
  std::uint64_t least_ = 0;     ///< samples of former lives, before set() (lower bound)
  std::uint64_t recalled_ = 0;  ///< samples to add to set()'s count
  base::Time stepped_at_{};     ///< time of the last increase by training
  base::Duration step_{};       ///< longest time between two increases of late
  double rate_ = 0;             ///< samples a second while it trains; 0: not measured yet
  double highest_rate_ = 0;
  base::Time rate_since_{};         ///< start of the rate window
  std::uint64_t rate_samples_ = 0;  ///< samples at rate_since_
};

}  // namespace starling::membership
