// How far the swarm is: one monotone sample counter a peer, spread with the heartbeats. The sum
// drives the schedule and the end of a run; no peer keeps a global clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// Counters by PeerId::prefix(), at most kProgressMax, the dead peers' included.
class ProgressBook {
 public:
  explicit ProgressBook(std::uint64_t own_prefix) : own_prefix_(own_prefix) {}

  /// This peer's own entry; its counter never falls. `id_prefix` is filled in.
  void set_own(wire::Progress own, base::Time now);

  /// Entries from the neighbour with prefix `from`. Of two entries with the same counter the one
  /// with the lower loss is kept, so that all peers end with the same. Counters at kCounterMax and
  /// above, this peer's own and what is over the bound are ignored.
  void merge(std::span<const wire::Progress> entries, std::uint64_t from, base::Time now);

  /// A counter seen on a delta of its owner.
  void observe(std::uint64_t id_prefix, std::uint64_t samples, base::Time now);

  /// What changed since the last call for this neighbour, oldest change first, at most
  /// kProgressPerFrame; what it told us itself is left out.
  [[nodiscard]] std::vector<wire::Progress> entries_for_heartbeat(std::uint64_t neighbour);
  /// The link is gone: the next one starts with everything.
  void forget(std::uint64_t neighbour);

  /// Whether the peer counts as alive; only those are extrapolated.
  void set_alive(std::uint64_t id_prefix, bool alive);

  /// Samples of the swarm. Counters of alive peers that were not heard for a while are taken
  /// further at their rate, for at most kExtrapolateMax. Never falls.
  [[nodiscard]] std::uint64_t total(base::Time now);
  /// Samples a second of the swarm: peers that are alive and heard of within kRateStale.
  [[nodiscard]] double rate(base::Time now) const;

  [[nodiscard]] const wire::Progress* find(std::uint64_t id_prefix) const;
  /// How long ago the entry last changed; nothing for an unknown peer.
  [[nodiscard]] std::optional<base::Duration> age(std::uint64_t id_prefix, base::Time now) const;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    wire::Progress latest;
    bool alive = true;
    std::uint64_t source = 0;   ///< neighbour that told us
    std::uint64_t version = 0;  ///< of this book, at the last change
    base::Time changed{};
    double rate = 0;          ///< samples a second
    base::Time rate_since{};  ///< start of the interval that is being measured
    std::uint64_t rate_samples = 0;
  };

  void update(const wire::Progress& latest, std::uint64_t from, base::Time now);
  static void measure(Entry& entry, base::Time now);
  [[nodiscard]] double rate_of(const Entry& entry, base::Time now) const;

  std::uint64_t own_prefix_;
  std::uint64_t version_ = 0;
  std::uint64_t total_ = 0;
  std::map<std::uint64_t, Entry> entries_;
  std::map<std::uint64_t, std::uint64_t> sent_;  ///< neighbour: version that it has
};

}  // namespace starling::membership
