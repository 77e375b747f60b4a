// One link as the protocol knows it: values only.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/duty.hpp"
#include "exchange/jobs.hpp"
#include "exchange/pace.hpp"
#include "exchange/rounds.hpp"
#include "exchange/weight.hpp"
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
  bool answers = false;   ///< the next delta does not wait for an own step: the other end does
  Duty duty{};            ///< of the last own delta that was asked for
  Effect effect{};        ///< of the exchange being committed
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

// The states of a link. While it opens: Greeting, then what was decided, then SettingMirrors.

/// No LinkOpen of this round was sent or has come.
struct Silent {
  /// Until when the other end's LinkOpen is waited for before the own one is sent.
  std::optional<base::Time> listen_until{};
};
/// The own LinkOpen was sent.
struct Said {
  wire::LinkOpen mine;
  /// Until when no other end is asked, since this one was asked for its replica.
  std::optional<base::Time> ask_until{};
};
/// The other end's LinkOpen is here.
struct Heard {
  wire::LinkOpen theirs;
};
/// One of a round's two LinkOpens is missing, or both.
struct Greeting {
  std::optional<Session> before{};  ///< session of the link as it broke: its mirrors are suspended
  std::variant<Silent, Said, Heard> messages{};
};

/// OpenDecision::adopt: the other end's keyframe is waited for. `session`, here and below: the id
/// of the session that the two ends will share.
struct Adopting {
  std::uint64_t session = 0;
  base::Time ask_until{};  ///< until when no other end is asked
};
/// OpenDecision::give: the own keyframe is being written.
struct Giving {
  std::uint64_t session = 0;
  JobTag keyframe_job = 0;
};
/// OpenDecision::merge: one of the two keyframes is missing, or both.
struct Merging {
  std::uint64_t session = 0;
  std::variant<JobTag, base::Bytes> own{};  ///< the own keyframe, or the job that writes it
  std::optional<base::Bytes> theirs{};
};
/// OpenDecision::wait.
struct Waiting {
  bool keeps = false;  ///< whether this end keeps its replica then, and the other adopts it
  base::Time until{};
};
/// The worker sets the mirrors.
struct SettingMirrors {
  std::uint64_t session = 0;
  bool adopts = false;  ///< the replica becomes the other end's, too
  JobTag open_job = 0;
  std::optional<wire::Delta> early{};  ///< delta of the other end, which is done already
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

/// How far a link had come when settling last saw any link come further.
struct Approach {
  bool settled = false;                                       ///< it has settled, at least once
  double distance = std::numeric_limits<double>::infinity();  ///< Link::apart, at least 1
  std::uint64_t exchanges = 0;
};

struct Link {
  std::variant<Greeting, Adopting, Giving, Merging, Waiting, SettingMirrors, OpenState, BrokenState>
      state{};
  Rounds rounds{};
  std::uint32_t failed_asks = 0;            ///< times it was asked for its replica in vain
  std::optional<base::Time> ask_after{};    ///< when it may be asked again
  bool opened = false;                      ///< whether its mirrors were set at least once
  double drift = 0.0;                       ///< drift when the last own delta was written
  double density = 0.0;                     ///< density that was asked for of the last own delta
  Line line;                                ///< what the last own delta met
  std::optional<std::int8_t> weight{};      ///< the other end's, in its last delta
  std::int8_t believed = wire::kWeightMax;  ///< there, as wire::Delta has it
  VouchedRate vouched{};                    ///< the other end's
  bool exaggerates = false;                 ///< the other end has said that it weighs more
  Trust trust{};
  double worse = 1;           ///< as Audited::Finding::worse
  Bandwidth bandwidth;        ///< how fast the other end's deltas arrive
  base::Time next_send_at{};  ///< when its share of the upload limit allows the next delta
  base::Duration held_for{};  ///< how long that was from the last delta on
  LinkCounters counters{};
  std::optional<base::Time> committed_at{};  ///< of the last commit since the link is up
  MovingAverage between_commits;             ///< seconds
  base::Time heard_at{};                     ///< when it was heard of last while it opened
  bool settles = false;                      ///< the other end makes no step any more
  /// In settling, by the last own delta: how far the ends are apart. Below 1 they are near enough.
  double apart = std::numeric_limits<double>::infinity();
  Approach approach{};

  /// An exchange was committed.
  void commit(base::Time now) {
    ++counters.exchanges;
    if (committed_at) between_commits.add(base::seconds(now - *committed_at));
    committed_at = now;
  }
  /// Seconds that these bytes take to the other end, and from it; 0: not known.
  [[nodiscard]] std::pair<double, double> seconds_for(double bytes) const {
    const auto at = [bytes](double rate) { return rate > 0 ? bytes / rate : 0.0; };
    return {at(line.bandwidth), at(bandwidth.value())};
  }
  /// The state, if it is that one; else null.
  template <class State>
  [[nodiscard]] State* in() {
    return std::get_if<State>(&state);
  }
  template <class State>
  [[nodiscard]] const State* in() const {
    return std::get_if<State>(&state);
  }
  [[nodiscard]] OpenState* open() { return in<OpenState>(); }
  [[nodiscard]] const OpenState* open() const { return in<OpenState>(); }
  [[nodiscard]] BrokenState* broken() { return in<BrokenState>(); }
  [[nodiscard]] const BrokenState* broken() const { return in<BrokenState>(); }
  /// Null: a LinkOpen of this round was sent, or has come.
  [[nodiscard]] Silent* silent() { return silent_in(*this); }
  [[nodiscard]] const Silent* silent() const { return silent_in(*this); }
  /// Until when no other end is asked for its replica, since this one was.
  [[nodiscard]] std::optional<base::Time> ask_until() const {
    if (const auto* adopting = in<Adopting>()) return adopting->ask_until;
    const auto* greeting = in<Greeting>();
    const auto* said = greeting == nullptr ? nullptr : std::get_if<Said>(&greeting->messages);
    return said == nullptr ? std::nullopt : said->ask_until;
  }
  /// The session whose mirrors the link has, in whatever state; null: it has none.
  [[nodiscard]] Session* session() { return session_in(*this); }
  [[nodiscard]] const Session* session() const { return session_in(*this); }
  /// Jobs were asked for that make mirrors, or a keyframe for them.
  [[nodiscard]] bool has_opening_job() const {
    if (const auto* giving = in<Giving>()) return giving->keyframe_job != 0;
    if (const auto* merging = in<Merging>()) {
      const JobTag* job = std::get_if<JobTag>(&merging->own);
      return job != nullptr && *job != 0;
    }
    return in<SettingMirrors>() != nullptr;
  }

 private:
  template <class SomeLink>
  static auto silent_in(SomeLink& link)
      -> decltype(std::get_if<Silent>(&link.template in<Greeting>()->messages)) {
    auto* greeting = link.template in<Greeting>();
    return greeting == nullptr ? nullptr : std::get_if<Silent>(&greeting->messages);
  }
  template <class SomeLink>
  static auto session_in(SomeLink& link) -> decltype(&link.open()->session) {
    if (auto* open = link.open()) return &open->session;
    if (auto* broken = link.broken()) return &broken->session;
    auto* greeting = link.template in<Greeting>();
    return greeting != nullptr && greeting->before ? &*greeting->before : nullptr;
  }
};

}  // namespace starling::exchange
