// How links open: each end's LinkOpen, what the two ends decide from them, and the keyframes that
// set their mirrors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/events.hpp"
#include "exchange/history.hpp"
#include "exchange/links.hpp"
#include "exchange/options.hpp"
#include "exchange/timers.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// How long two ends that would both adopt wait for somebody better to adopt from.
inline constexpr base::Duration kWaitTimeout = std::chrono::seconds(5);

/// How long a restarted peer waits for a neighbour's LinkOpen, which says how far the swarm is,
/// before it sends its own.
inline constexpr base::Duration kListenTimeout = std::chrono::seconds(1);

/// How long a neighbour that was asked for its replica is waited for: it may be in a long step.
/// Doubled after each ask that failed, up to kAskTimeoutMax. After a failure it is not asked again
/// for the same time.
inline constexpr base::Duration kAskTimeout = std::chrono::seconds(30);
inline constexpr base::Duration kAskTimeoutMax = std::chrono::minutes(8);
/// Asks of one neighbour that may fail before it is asked no more; a late keyframe allows one
/// more.
inline constexpr std::uint32_t kAsksMax = 8;
/// Bytes/s: a keyframe that arrives extends the timeout by its bytes / kKeyframeRateMin seconds, or
/// by as much less as the largest one needs to come in kKeyframeTimeMax.
inline constexpr double kKeyframeRateMin = 1024;
inline constexpr base::Duration kKeyframeTimeMax = std::chrono::hours(1);

/// Takes over the links that have opened.
class AfterOpening {
 public:
  virtual ~AfterOpening() = default;
  /// The link has new mirrors. `early`: the other end's first delta, if it is here already.
  virtual void begin(Links::iterator at, std::optional<wire::Delta> early, base::Time now,
                     Outbox& out) = 0;
  /// The link has the mirrors that it had; the other end has committed up to `theirs`.
  virtual void resume(Links::iterator at, base::ExchangeNumber theirs, base::Time now,
                      Outbox& out) = 0;
  /// `bytes` are sent on the link, and take their part of its share of the upload.
  virtual void reserve_upload(Link& link, std::size_t bytes, base::Time now) = 0;
};

class Opening {
 public:
  /// `links`, `history` and `then` outlive this.
  Opening(const Options& options, base::Rng rng, Links& links, History& history,
          AfterOpening& then);

  // Events. Of a message, `at` is its link, which is not in grace.
  /// The link is a new one, or has come back.
  void begin(Link& link, base::Time now);
  void receive(Links::iterator at, const wire::LinkOpen& open, base::Time now, Outbox& out);
  void receive(Links::iterator at, wire::Keyframe& keyframe, Outbox& out);
  /// A delta of a link that is not open here: the other end may be done already.
  void receive(Links::iterator at, wire::Delta& delta, Outbox& out);
  void on(const KeyframeArriving& event, base::Time now);
  void on(KeyframeMade& event, base::Time now, Outbox& out);
  void on(Opened& event, base::Time now, Outbox& out);
  void expire(base::Time now, Outbox& out);
  /// After each event of any kind: sends each LinkOpen that may be sent now.
  void send_due_opens(base::Time now, Outbox& out);

  /// A neighbour's replica is being taken over.
  [[nodiscard]] bool has_told_little() const;
  [[nodiscard]] bool adopting() const;
  void visit_timers(const TimerVisitor& visit) const;

 private:
  /// A neighbour was asked for its replica and is waited for.
  [[nodiscard]] bool asking() const;
  [[nodiscard]] bool may_send_open(const Link& link) const;
  void send_open(Links::iterator at, base::Time now, Outbox& out);
  void decide(Links::iterator at, Said said, wire::LinkOpen theirs, base::Time now, Outbox& out);
  void resume(Links::iterator at, base::ExchangeNumber theirs, base::Time now, Outbox& out);
  [[nodiscard]] JobTag request_keyframe(const base::PeerId& peer, bool with_buffers, Outbox& out);
  void set_mirrors(Links::iterator at, std::uint64_t session, OpenJob job, Outbox& out);
  void merge_when_ready(Links::iterator at, Outbox& out);
  void reopen_others(const base::PeerId& peer, Outbox& out);
  void expire_waiting(base::Time now, Outbox& out);
  void expire_asking(base::Time now, Outbox& out);
  void expire_listening(base::Time now);

  const Options options_;
  base::Rng rng_;
  Links& links_;
  History& history_;
  AfterOpening& then_;
};

}  // namespace starling::exchange
