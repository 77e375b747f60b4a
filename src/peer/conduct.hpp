// How a peer treats its own training and its exchanges. The program's peers are honest, as the
// class below is; another conduct exists only in tests, whose peers attack the swarm (src/hostile).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/strong.hpp"
#include "data/sample_set.hpp"
#include "exchange/config.hpp"
#include "exchange/jobs.hpp"
#include "exchange/replica.hpp"
#include "peer/config.hpp"
#include "peer/learner.hpp"

namespace starling::peer {

/// One peer's, whose worker, learner and core it outlives. The first three are called before
/// these exist; exchange() is called on the thread that owns the replica.
class Conduct {
 public:
  Conduct() = default;
  Conduct(const Conduct&) = delete;
  Conduct& operator=(const Conduct&) = delete;
  virtual ~Conduct() = default;

  /// Changes how the replica is kept; called before the replica is made.
  virtual void arrange(exchange::Config& /*config*/) {}
  /// Changes the settings of the core.
  virtual void arrange(Config& /*config*/) {}
  /// The samples to train on, where `own` are those of the run, which outlive this.
  [[nodiscard]] virtual const data::SampleSet& samples(const data::SampleSet& own) { return own; }

  /// The learner to train with, where `own` is that of the run.
  [[nodiscard]] virtual std::unique_ptr<Learner> learner(std::unique_ptr<Learner> own) {
    return own;
  }
  /// Runs jobs that wait at one step boundary, as exchange::run_batch() does.
  [[nodiscard]] virtual std::vector<exchange::Outcome> exchange(std::span<const exchange::Job> due,
                                                                exchange::Replica& replica,
                                                                base::StepNumber step) {
    return exchange::run_batch(due, replica, step);
  }
};

}  // namespace starling::peer
