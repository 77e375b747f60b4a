// That someone accuses a member, and when it becomes a verdict. The more of its link partners
// accuse a member, the sooner it ends: Lifeguard's dynamic suspicion timeout (Dadgar, Phillips,
// Currey, DSN 2018, section IV.B). When all of them do, it is left only the time to refute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

class Suspicion {
 public:
  /// `not_before`: no verdict until then.
  Suspicion(base::Time now, base::Time not_before) : since_(now), not_before_(not_before) {}

  /// `by` accuses the member, which has `partners` links at most. `beat`: the unit of the timeouts,
  /// longer where this peer trusts itself less. Whether this accuser is new.
  bool accuse(std::uint64_t by, wire::DeathReason reason, std::size_t partners, base::Duration beat,
              base::Time now);
  /// Another peer came to the verdict: what is left is a beat to refute, and no less than with the
  /// most accusers. Whether that is sooner than it was.
  bool shorten_for_verdict(base::Duration beat, base::Time now);
  /// It ends this much later.
  void extend(base::Duration pause);

  [[nodiscard]] bool accused_by(std::uint64_t by) const;
  [[nodiscard]] std::uint64_t first_accuser() const { return accusers_.front(); }
  [[nodiscard]] base::Time ends() const noexcept { return ends_; }
  [[nodiscard]] wire::DeathReason reason() const noexcept { return reason_; }

 private:
  base::Time since_;
  base::Time not_before_;
  base::Time ends_ = base::Time::max();
  wire::DeathReason reason_ = wire::DeathReason::none;
  std::vector<std::uint64_t> accusers_;  ///< at most kAccusersMax
};

}  // namespace starling::membership
