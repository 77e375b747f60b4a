// Kept for a peer's next life: checkpoints, and where others are.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/time.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/known_addresses.hpp"
#include "peer/training.hpp"

namespace starling::peer {

class Saving {
 public:
  /// All of them outlive this.
  Saving(const Config& config, const membership::Core& membership, const Training& training,
         Agreement& agreement, KnownAddresses& known);

  /// Checkpoints come by time from now on, or no longer.
  void begin_timer(base::Time now);
  void end_timer() noexcept { next_at_.reset(); }
  [[nodiscard]] std::optional<base::Time> next_at() const noexcept { return next_at_; }
  /// The timer is due.
  void expire(base::Time now, Outbox& out);

  /// Asks for a checkpoint.
  void save(Outbox& out);
  /// One that somebody or a timer asks for: not while another is under way. Peers that go in step
  /// can only go on from the same step, so they save together.
  void save_if_idle(Outbox& out);
  /// The one of a step at which all save.
  void save_together(base::Time now, Outbox& out);
  /// Takes the outcome of one. True where no other is under way.
  [[nodiscard]] bool end(const Saved& saved, Outbox& out);

  /// Asked for, and without an outcome.
  [[nodiscard]] std::uint32_t under_way() const noexcept { return under_way_; }
  /// Why the last checkpoint was not written; empty: it was.
  [[nodiscard]] const base::Error& unsaved() const noexcept { return unsaved_; }

  /// Tells where others are, if they may be elsewhere: the next checkpoint may never come.
  void remember_changes(base::Time now, Outbox& out);

 private:
  void remember_others(Outbox& out);

  const Config& config_;
  const membership::Core& membership_;
  const Training& training_;
  Agreement& agreement_;
  KnownAddresses& known_;
  std::optional<base::Time> next_at_;
  std::uint32_t under_way_ = 0;
  base::Error unsaved_;
};

}  // namespace starling::peer
