// How much a peer counts in averages, by how fast it trains (exchange/weight.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.hpp"
#include "membership/member_table.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

/// Speed is measured from one step to the next at first, then over spans that grow to this.
inline constexpr base::Duration kWeightSpanMax = std::chrono::seconds(2);
/// A weight changes once log2 of the speed is further from its exponent than this; so two exponents
/// suit a speed at most.
inline constexpr double kWeightBand = 0.75;
/// A step that comes later than this many of the usual intervals has waited for something else than
/// computing, such as a suspended machine: once, that says nothing about the speed.
inline constexpr double kWeightPause = 8;

/// Weighs by speed: p is about the samples a second, as a power of two. Of two exponents that suit,
/// the one of most members is taken, so that equal peers weigh the same.
class WeightMeter {
 public:
  /// `last`: of a former life; wire::kNoWeight: there is none.
  explicit WeightMeter(std::int8_t last) noexcept
      : weight_(std::clamp(last, wire::kNoWeight, wire::kWeightMax)) {}

  /// After a step that counts for so many samples.
  void on_step(double samples, const membership::MemberTable& members, base::Time now);
  /// What follows until the next step is no training: it does not count.
  void interrupt() noexcept { begun_.reset(); }

  /// Exponent; wire::kNoWeight: nothing is measured yet.
  [[nodiscard]] std::int8_t value() const noexcept { return weight_; }

 private:
  void begin(base::Time now) noexcept;

  std::int8_t weight_;
  std::optional<base::Time> begun_{};  ///< when the step before the first measured one was done
  base::Time last_{};                  ///< when the last step was done
  double samples_ = 0;                 ///< since begun_
  std::uint32_t steps_ = 0;            ///< likewise
  double interval_ = 0;                ///< seconds between two steps, as measured last; 0: never
  base::Duration span_{};              ///< of the next measurement
};

}  // namespace starling::peer
