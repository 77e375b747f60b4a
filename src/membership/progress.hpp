// How far the swarm is: one monotone sample counter a peer, spread with the heartbeats. The sum
// drives the schedule and the end of a run; no peer keeps a global clock.
//
// Nobody's word counts for its own counter: it counts up to a limit that another peer has signed
// (voucher.hpp). A neighbour vouches for what is plausible by time, by what other peers train, and
// by how the replica moves. Limits spread with the counters, so equal tables give equal sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/sample_counter.hpp"
#include "base/time.hpp"
#include "membership/limits.hpp"
#include "membership/own_counter.hpp"
#include "membership/signer.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// How often a peer of a swarm of this size tells its counter, so that all counters together cost
/// each peer no more than kProgressBytesPerSecond; never more often than every `heartbeat`.
[[nodiscard]] base::Duration progress_interval(std::size_t peers, base::Duration heartbeat);

/// What entries from a neighbour said.
struct Merged {
  bool ended = false;   ///< a peer has just ended its training
  bool forged = false;  ///< a voucher that nobody signed: whoever passes that on lies
};

/// Counters by PeerId::prefix(), at most kProgressMax, the dead peers' included.
class ProgressTable {
 public:
  /// `signer`, this peer's, outlives this.
  ProgressTable(std::uint64_t own_prefix, base::Duration heartbeat, Signer& signer)
      : signer_(signer), own_prefix_(own_prefix), heartbeat_(heartbeat) {}

  void set_heartbeat(base::Duration heartbeat) noexcept { heartbeat_ = heartbeat; }

  /// The counters that a former life of this peer knew, its own included, before set_own(): they
  /// count, and this peer vouches for them. What is over the bounds is ignored.
  void restore(std::span<const base::SampleCounter> counters);
  /// For that: the counters of all other peers, as far as they count.
  [[nodiscard]] std::vector<base::SampleCounter> counters_of_others() const;
  /// And this peer's own, as far as it is not in the samples that set_own() is told: what others
  /// know that former lives of it have trained.
  [[nodiscard]] std::uint64_t recalled() const noexcept { return own_.recalled(); }

  /// This peer's own entry, with the samples that this life counts, to which recalled() is added.
  /// `id_prefix` and `rate` are filled in: the rate is measured while it trains, and 0 when it does
  /// not. Whether it has just ended training: the others must be told at once, or they would go on
  /// taking it further.
  bool set_own(wire::Progress own, bool trains, base::Time now);

  /// Entries from the neighbour with prefix `from`. Of two entries with the same counter the one
  /// that trains no longer, and then the one with the lower loss, is kept, so that all peers end
  /// with the same. Counters at kCounterMax and above and what is over the bound are ignored, and
  /// so are vouchers for more than is plausible. This peer's own says what a former life of it has
  /// told, as far as it was vouched for.
  Merged merge(std::span<const wire::Progress> entries, std::uint64_t from, base::Time now);

  /// An exchange with this neighbour: the norms of the own delta and of its delta.
  void watch(std::uint64_t id_prefix, double own_moved, double their_moved);
  /// Vouches for a neighbour that needs it, where what it counts is plausible. Whether it has not
  /// been for kVouchPatience; that is said once.
  bool vouch_for(std::uint64_t id_prefix, base::Time now);

  /// A counter seen on a delta of its owner. It is not passed on: its owner does that.
  void observe(std::uint64_t id_prefix, std::uint64_t samples, base::Time now);

  /// Entries that changed since the last call for this neighbour, oldest change first, at most
  /// kProgressPerFrame; what it told us itself is left out, and the own entry while it is not due.
  /// Its own counter is told once, at first: it may have trained more than it knows of.
  [[nodiscard]] std::vector<wire::Progress> entries_for_heartbeat(std::uint64_t neighbour,
                                                                  base::Time now);
  /// The link is gone: the next one starts with everything, also with what this neighbour once
  /// told: it may have forgotten it in a restart.
  void forget(std::uint64_t neighbour);

  /// This peer trains no longer, whatever it has not told yet.
  void end_own(base::Time now);

  /// Peers whose counters were first heard of since the last call: their state is to be set.
  [[nodiscard]] std::vector<std::uint64_t> take_new() { return std::exchange(new_, {}); }

  /// The peer's state in the member table: only those that are alive and not suspect are taken
  /// further, and only alive ones count for how often counters are told.
  void set_state(std::uint64_t id_prefix, wire::MemberState state);

  /// An estimate of the samples of the swarm now: counters of alive peers that train are taken
  /// further at the rate they told, for at most horizon(). It may fall, when a peer turns out to
  /// have slowed down. A peer that stopped is taken further until that is heard: at once where it
  /// ended or left, after kStall and a beat a hop where its trainer stands still, and until someone
  /// suspects it where it died or stands still itself.
  [[nodiscard]] std::uint64_t total(base::Time now) const;
  /// Samples a second of the swarm: peers that are alive and heard of within horizon().
  [[nodiscard]] double rate(base::Time now) const;
  /// How old a counter of a peer that trains can be, unless news of it was lost: the interval in
  /// which it is told, and half a beat a hop.
  [[nodiscard]] base::Duration horizon() const;

  /// As the peer told last.
  [[nodiscard]] const wire::Progress* find(std::uint64_t id_prefix) const;
  /// Its samples, as far as they count; 0 for an unknown peer.
  [[nodiscard]] std::uint64_t samples_of(std::uint64_t id_prefix, base::Time now) const;
  /// The same, but a peer that nobody may have been able to vouch for yet is taken at its word.
  [[nodiscard]] std::uint64_t credible_samples_of(std::uint64_t id_prefix, base::Time now) const;
  /// How long ago its counter or report was as it is; nothing for an unknown peer.
  [[nodiscard]] std::optional<base::Duration> age(std::uint64_t id_prefix, base::Time now) const;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Whether a counter found no room: what its owner trains is in no sum here.
  [[nodiscard]] bool has_overflowed() const noexcept { return overflowed_; }
  /// Of a peer with so many neighbours.
  void add_bounds(std::size_t neighbours, base::Bounds& out) const;

 private:
  using Place = std::uint32_t;  ///< index in entries_

  /// How far a counter counts.
  struct Limit {
    std::uint64_t samples = 0;
    std::uint64_t from = 0;                  ///< samples that counted when it became that
    base::Time raised{};                     ///< when that was
    std::optional<wire::Voucher> voucher{};  ///< nothing: a former life has known the counter
    std::uint64_t version = 0;               ///< as of Entry
    std::vector<std::uint64_t> sources{};    ///< likewise
  };

  /// How far a neighbour's replica moves, next to this one.
  struct Moves {
    double own = 0;    ///< squares of norms, summed
    double their = 0;  ///< likewise
    int exchanges = 0;
  };

  /// What other peers than one do, and this one.
  struct Usual {
    double rate = 0;  ///< samples a second
    double samples = 0;
    bool others = false;  ///< others than this one count
  };

  struct Entry {
    wire::Progress latest;  ///< entry as its owner told it
    Limit limit{};
    Moves moves{};
    double times = kTimesUsual;  ///< what it may train, in usual rates
    std::uint64_t at_first = 0;  ///< samples when it was heard of
    base::Time heard{};          ///< when that was
    base::Time plausible{};      ///< when it was last
    bool doubted = false;        ///< that it is not was said
    std::uint64_t observed = 0;  ///< samples on its deltas, where they are more than it told
    bool alive = true;
    bool suspect = false;
    /// Neighbours that told us, or said the same since: they need not be told. At most
    /// kReadyLinksMax.
    std::vector<std::uint64_t> sources;
    std::uint64_t version = 0;         ///< version at which it was last to be passed on
    std::uint64_t report_version = 0;  ///< version at which its report was
    base::Time measured{};             ///< time at which its owner had the samples that it told
    base::Time observed_at{};

    [[nodiscard]] std::uint64_t samples() const noexcept {
      return std::max(latest.samples, observed);
    }
    [[nodiscard]] base::Time counted_at() const noexcept {
      return observed > latest.samples ? observed_at : measured;
    }
    [[nodiscard]] bool told_by(std::uint64_t neighbour) const noexcept {
      return std::ranges::count(sources, neighbour) > 0;
    }
    [[nodiscard]] bool vouched_by(std::uint64_t neighbour) const noexcept {
      return std::ranges::count(limit.sources, neighbour) > 0;
    }
  };

  void begin(base::Time now);
  void sign_restored(Entry& entry);
  /// What others know of a former life; false: its voucher is forged.
  [[nodiscard]] bool recall(const wire::Progress& own, base::Time now);
  /// Takes a newer entry; true: its owner has just ended.
  bool update(const wire::Progress& latest, std::uint64_t from, base::Time now);
  /// False: it is forged.
  [[nodiscard]] bool take(const wire::Voucher& voucher, std::uint64_t subject, std::uint64_t from,
                          base::Time now);
  void raise(Entry& entry, const wire::Voucher& voucher, base::Time now);
  [[nodiscard]] Usual usual_beside(const Entry& entry, base::Time now) const;
  [[nodiscard]] std::optional<double> plausible(const Entry& entry, std::uint64_t from,
                                                double times, base::Time now) const;
  [[nodiscard]] std::uint64_t ahead_of(const Entry& entry, base::Time now) const;
  [[nodiscard]] std::uint64_t limit_of(const Entry& entry, base::Time now) const;
  [[nodiscard]] std::uint64_t counted(const Entry& entry, base::Time now) const;
  [[nodiscard]] bool is_owed(const Entry& entry, std::uint64_t neighbour,
                             std::uint64_t before) const;
  [[nodiscard]] wire::Progress told_of(const Entry& entry, std::uint64_t before,
                                       base::Time now) const;
  void tell_own(bool report, base::Time now);
  void pass_on(Entry& entry, bool report);
  [[nodiscard]] Entry* entry_of(std::uint64_t id_prefix);
  [[nodiscard]] const Entry* entry_of(std::uint64_t id_prefix) const;
  Entry& add(std::uint64_t id_prefix);

  Signer& signer_;
  std::uint64_t own_prefix_;
  base::Duration heartbeat_;
  std::optional<base::Time> begun_{};  ///< when it was first told something
  base::Time told_last_{};             ///< and when last
  std::uint64_t version_ = 0;
  std::vector<Entry> entries_;  ///< in the order in which they were heard of; none is removed
  std::vector<std::pair<std::uint64_t, Place>> places_;  ///< places of prefixes, in order of prefix
  /// Entries to be passed on, by version; void where the entry has a later one. At most
  /// kChangesSlack times the entries.
  std::vector<std::pair<std::uint64_t, Place>> changes_;
  std::map<std::uint64_t, std::uint64_t> sent_;  ///< version that each neighbour has
  std::vector<std::uint64_t> new_;               ///< prefixes of new entries
  std::size_t alive_ = 0;                        ///< number of entries of alive peers
  bool overflowed_ = false;
  mutable Usual usual_{};                         ///< of a large table
  mutable std::optional<base::Time> usual_at_{};  ///< when that was found

  OwnCounter own_;
  wire::Progress told_;         ///< own entry as the others are told it
  base::Time told_measured_{};  ///< time at which the own entry was so
  base::Time told_at_{};        ///< time of the decision to tell it
  int tells_ = 0;               ///< number of regular tellings
};

}  // namespace starling::membership
