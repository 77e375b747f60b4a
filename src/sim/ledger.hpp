// The exchanges of a simulated peer's replica, for the checks: which were committed, and how they
// changed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "exchange/jobs.hpp"
#include "exchange/replica.hpp"
#include "peer/jobs.hpp"

namespace starling::sim {

/// Of larger replicas, only one exchange in kLargeEvery is looked at.
inline constexpr std::size_t kSmallReplica = 4096;
inline constexpr std::uint64_t kLargeEvery = 16;

/// A link's exchange, seen from this end's replica.
struct LinkLedger {
  /// Names the opening: the same at both ends, and different after each opening.
  std::uint64_t opening = 0;
  std::uint64_t serial = 0;  ///< of the opening, at this end
  base::ExchangeNumber committed;
  /// How much the last commit added to the sum of this replica's elements, without momentum, times
  /// the weight of this end relative to the larger one of both; nothing if it was applied together
  /// with others or was not looked at.
  std::optional<double> moved;
  /// The same of all commits since the opening, as their mirrors say, and without the last one;
  /// nothing once one of them was not looked at.
  std::optional<double> sum = 0;
  std::optional<double> sum_before = 0;
  double momentum = 0;  ///< sum of the elements of the link's momentum
};

class Ledger final : public peer::ExchangeObserver {
 public:
  using Links = std::map<base::PeerId, LinkLedger>;

  /// Call before submitting a job that sets the mirrors with `peer`. `link`: the link on which it
  /// does so; the same number at both ends. A later job of this kind drops one that waits, so they
  /// are counted here.
  void opens_on(const base::PeerId& peer, std::uint64_t link) {
    auto& [on, times] = opens_on_[peer];
    times = on == link ? times + 1 : 1;
    on = link;
  }
  void before(std::span<const exchange::Job> due, const exchange::Replica& replica) override;
  void after(std::span<const exchange::Job> due, const exchange::Replica& replica,
             std::span<const exchange::Outcome> outcomes) override;

  [[nodiscard]] const Links& links() const noexcept { return links_; }
  /// The first breach of the exchange's rules; empty: there was none.
  [[nodiscard]] const std::string& breach() const noexcept { return breach_; }
  /// Links whose exchange was committed since the last call.
  [[nodiscard]] std::vector<base::PeerId> take_committed() { return std::exchange(committed_, {}); }
  void add_bounds(base::Bounds& out) const;

 private:
  /// A commit's part of a batch's movement.
  struct Share {
    double moved = 0;
    double weight = 1;  ///< of this end, relative to the larger one of both
    double size = 0;    ///< of the values that were added up: how large the rounding error may be
    double by_momentum = 0;  ///< beside `moved`
  };
  using Jobs = std::span<const exchange::Job>;
  using Tags = std::set<exchange::JobTag>;
  using Shares = std::map<exchange::JobTag, Share>;

  [[nodiscard]] std::optional<Share> share_of(const exchange::CommitJob& commit,
                                              const exchange::Replica& replica) const;
  [[nodiscard]] Shares shares_of(Jobs due, const exchange::Replica& replica) const;
  [[nodiscard]] double momentum_after(const exchange::CommitJob& commit,
                                      const exchange::Replica& replica) const;
  void note_opening(const exchange::OpenJob& job);
  void check_moved(Jobs due, const Tags& applied, const exchange::Replica& replica);
  void check_adoption(const exchange::OpenJob& job, const exchange::Replica& replica);
  void note_commits(Jobs due, const Tags& applied, const exchange::Replica& replica);
  void blame(std::string breach);
  /// Of the replica's elements, which are in x_ afterwards.
  [[nodiscard]] double sum(const exchange::Replica& replica);

  Links links_;
  std::vector<base::PeerId> committed_;
  std::uint64_t batches_ = 0;
  std::uint64_t openings_ = 0;
  /// For each peer: the link, and how often mirrors were set on it.
  std::map<base::PeerId, std::pair<std::uint64_t, std::uint64_t>> opens_on_;
  std::string breach_;
  std::optional<double> moved_;  ///< by the current batch; nothing: it is not looked at
  Shares shares_;                ///< of its commits
  std::vector<float> x_;
};

}  // namespace starling::sim
