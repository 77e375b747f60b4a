// The conduct of a hostile peer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/large_vector.hpp"
#include "base/peer_id.hpp"
#include "base/rng.hpp"
#include "hostile/attack.hpp"
#include "hostile/flipped_labels.hpp"
#include "hostile/told.hpp"
#include "peer/conduct.hpp"

namespace starling::hostile {

/// Attacks as `attack` says. Its replica holds nothing back (lambda = 0), so that it can tell each
/// neighbour of another one; and it lies in the processor's memory. Memory: a replica, the mirrors
/// of all neighbours once more while it tells, and for ipm a replica a neighbour.
class Attacker final : public peer::Conduct {
 public:
  /// Seconds since the start of the scenario; asked on the thread that owns the replica.
  using Clock = std::function<double()>;

  Attacker(const Attack& attack, Clock seconds, std::uint64_t seed);

  void arrange(exchange::Config& config) override;
  void arrange(peer::Config& config) override;
  [[nodiscard]] const data::SampleSet& samples(const data::SampleSet& own) override;
  [[nodiscard]] std::unique_ptr<peer::Learner> learner(std::unique_ptr<peer::Learner> own) override;
  [[nodiscard]] std::vector<exchange::Outcome> exchange(std::span<const exchange::Job> due,
                                                        exchange::Replica& replica,
                                                        base::StepNumber step) override;

 private:
  using Jobs = std::span<const exchange::Job>;
  using Outcomes = std::vector<exchange::Outcome>;

  [[nodiscard]] bool is_active() const;
  [[nodiscard]] Outcomes attack(Jobs due, exchange::Replica& replica, base::StepNumber step);
  [[nodiscard]] Outcomes tell(Jobs due, exchange::Replica& replica, base::StepNumber step);
  [[nodiscard]] base::LargeFloats told_to(const exchange::Job& job,
                                          const exchange::Replica& replica);
  void note_links(Jobs due, const exchange::Replica& replica);

  const Attack attack_;
  const Clock seconds_;
  base::Rng rng_;
  std::optional<FlippedLabels> samples_;
  bool settles_ = false;          ///< the last step is made
  base::LargeFloats own_;         ///< the replica, where another one is told; empty: not yet
  std::set<base::PeerId> links_;  ///< with mirrors
  std::map<base::PeerId, base::LargeFloats> means_;  ///< ipm: when the neighbour was told last
};

/// For those who know conducts alone.
[[nodiscard]] std::unique_ptr<peer::Conduct> make_attacker(const Attack& attack,
                                                           Attacker::Clock seconds,
                                                           std::uint64_t seed);

}  // namespace starling::hostile
