// Another process that runs with this peer's key: a copied folder, or one machine's image on two.
// Each process finds the other's newer record of itself. Overruled at once, each record would be
// answered by the next, as fast as they travel, and all members would verify and pass on every one.
// So the first is overruled at once, for it may be of a former life, and further ones ever later.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/bound.hpp"
#include "base/jitter.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

class KeyConflict {
 public:
  /// A record with this peer's signature says that it is alive, and is newer than its own. True
  /// where a person is to be told: a former life does not answer, another process does.
  [[nodiscard]] bool note_other(std::uint64_t incarnation, base::Time now) {
    if (!met_at_ || now - *met_at_ >= kConflictMemory) {
      *this = {};
      not_before_ = now;
    }
    met_at_ = now;
    open_ = std::max(open_, incarnation);
    if (pause_ == base::Duration{} || (told_at_ && now - *told_at_ < kConflictTold)) return false;
    told_at_ = now;
    return true;
  }
  /// The newest incarnation that was met and is not overruled; 0: none.
  [[nodiscard]] std::uint64_t open() const noexcept { return open_; }
  [[nodiscard]] bool is_open(std::uint64_t incarnation) const noexcept {
    return open_ != 0 && open_ == incarnation;
  }
  /// When it is to be overruled.
  [[nodiscard]] std::optional<base::Time> due() const noexcept {
    return open_ == 0 ? std::nullopt : std::optional(not_before_);
  }
  /// The open conflict is overruled. The two shall not answer in step.
  void overruled(base::Rng& rng, base::Time now) {
    open_ = 0;
    pause_ = std::clamp(2 * pause_, kOverruleMin, kOverruleMax);
    not_before_ = now + base::jittered(pause_, rng);
  }

  void add_timers(base::Time now, base::Bounds& out) const {
    if (const auto at = due()) out.add_timer("the overruling of a record", *at, now, kOverruleMax);
  }

 private:
  std::optional<base::Time> met_at_;
  std::optional<base::Time> told_at_;
  std::uint64_t open_ = 0;
  base::Time not_before_{};
  base::Duration pause_{0};  ///< zero: none was overruled within the memory
};

}  // namespace starling::membership
