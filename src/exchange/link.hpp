// What the protocol core knows of one link: values only.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/jobs.hpp"
#include "exchange/opening.hpp"
#include "exchange/pace.hpp"
#include "exchange/rounds.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Own deltas that are kept to be sent again: t until the other end shows, with t+1, that it has
/// committed t; and t+1 may have been sent by then.
inline constexpr std::size_t kKeptMax = 2;

/// Two ends that share mirrors, and the exchange that is under way between them.
struct Session {
  std::uint64_t id = 0;
  base::ExchangeNumber committed;
  base::StepNumber due;   ///< own step from which the next delta may be written
  JobTag encode_job = 0;  ///< writes the delta of committed + 1, or of + 2 while that is committed
  JobTag commit_job = 0;  ///< commits committed + 1
  bool both_settling = false;       ///< both deltas of the exchange being committed say settled
  bool settled = false;             ///< both deltas of the last exchange say settled
  bool rests = false;               ///< it has settled, and nothing has moved since
  std::vector<wire::Delta> kept{};  ///< own deltas, oldest first
  std::optional<wire::Delta> received{};  ///< delta of the other end that waits to be committed

  [[nodiscard]] const wire::Delta* own(base::ExchangeNumber t) const {
    for (const wire::Delta& delta : kept) {
      if (delta.exchange == t) return &delta;
    }
    return nullptr;
  }
  /// The exchange whose delta the other end may send now.
  [[nodiscard]] base::ExchangeNumber expected() const {
    return commit_job == 0 ? committed.next() : committed.next().next();
  }
};

/// The ends send each other a LinkOpen, decide, and set their mirrors. Stages, and what each has:
///   messages   `mine` once sent, `theirs` once received; `before` until something else than resume
///              is decided; `listen_until` until `theirs` is there; `ask_until` from an own
///              LinkOpen that would adopt
///   decided    `decision`. adopt: `ask_until` until the keyframe is here; give: `keyframe_job`
///              until the own one is written; merge: that and the other end's; wait: `wait_until`
///   opening    `open_job`, while the worker sets the mirrors; `early` if the other end is done
struct OpeningState {
  std::optional<Session> before{};  ///< session of the link as it broke: its mirrors are suspended
  std::optional<wire::LinkOpen> mine{};
  std::optional<wire::LinkOpen> theirs{};
  std::optional<OpenDecision> decision{};
  /// Until when the other end's LinkOpen is waited for before the own one is sent.
  std::optional<base::Time> listen_until{};
  base::Time wait_until{};  ///< end of OpenDecision::wait
  /// Until when it is waited for, since it was asked for its replica, and no other end is asked.
  std::optional<base::Time> ask_until{};
  JobTag keyframe_job = 0;  ///< writes the own keyframe
  JobTag open_job = 0;      ///< sets the mirrors
  std::optional<base::Buffer> own_keyframe{};
  std::optional<base::Buffer> their_keyframe{};
  base::Buffer their_buffers{};        ///< buffers sent with their_keyframe
  std::optional<wire::Delta> early{};  ///< delta that arrived before our mirrors were set
};

struct OpenState {
  Session session;
};

/// The link is in grace: its mirrors are suspended.
struct BrokenState {
  Session session;
  base::Time until{};
};

struct LinkCounters {
  std::uint64_t exchanges = 0;   ///< committed exchanges
  std::uint64_t reopenings = 0;  ///< openings after the first that did not resume
  std::uint64_t mismatches = 0;  ///< mirrors that differed
  std::uint64_t lost_steps = 0;  ///< steps that one end alone may have applied

  LinkCounters& operator+=(const LinkCounters& other) {
    exchanges += other.exchanges;
    reopenings += other.reopenings;
    mismatches += other.mismatches;
    lost_steps += other.lost_steps;
    return *this;
  }
};

struct Link {
  std::variant<OpeningState, OpenState, BrokenState> state{};
  Rounds rounds{};
  std::uint32_t failed_asks = 0;          ///< times it was asked for its replica in vain
  std::optional<base::Time> ask_after{};  ///< when it may be asked again
  bool opened = false;                    ///< whether its mirrors were set at least once
  double drift = 0.0;                     ///< drift when the last own delta was written
  double density = 0.0;                   ///< density that was asked for of the last own delta
  Line line;                              ///< what the last own delta met
  Bandwidth bandwidth;                    ///< how fast the other end's deltas arrive
  base::Time next_send_at{};  ///< when its share of the upload limit allows the next delta
  LinkCounters counters{};

  /// The session whose mirrors the link has, in whatever state; null: it has none.
  [[nodiscard]] Session* session() { return session_in(*this); }
  [[nodiscard]] const Session* session() const { return session_in(*this); }
  [[nodiscard]] OpenState* open() { return std::get_if<OpenState>(&state); }
  [[nodiscard]] const OpenState* open() const { return std::get_if<OpenState>(&state); }
  [[nodiscard]] OpeningState* opening() { return std::get_if<OpeningState>(&state); }
  [[nodiscard]] const OpeningState* opening() const { return std::get_if<OpeningState>(&state); }
  [[nodiscard]] BrokenState* broken() { return std::get_if<BrokenState>(&state); }
  [[nodiscard]] const BrokenState* broken() const { return std::get_if<BrokenState>(&state); }

 private:
  template <class SomeLink>
  static auto session_in(SomeLink& link) -> decltype(&link.open()->session) {
    if (auto* open = link.open()) return &open->session;
    if (auto* broken = link.broken()) return &broken->session;
    auto& before = link.opening()->before;
    return before ? &*before : nullptr;
  }
};

}  // namespace starling::exchange
