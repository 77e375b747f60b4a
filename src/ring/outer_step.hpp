// Local training in rounds: the movement of each peer's replica in its steps, averaged over all
// peers, is one step of an outer optimizer.
#pragma once

#include <span>
#include <vector>

namespace starling::ring {

/// DiLoCo's outer optimizer, SGD with Nesterov's momentum (Douillard et al., arXiv:2311.08105),
/// over the replica a that all peers had at the start of a round:
///     u = mean over the peers of (a - x);  v = momentum * v + u;  a -= lr * (u + momentum * v)
///     x = a
/// With lr 1 and momentum 0 replicas are averaged: local SGD (Stich, arXiv:1805.09767).
class OuterStep {
 public:
  /// The first round starts from `x`.
  OuterStep(std::span<const float> x, float lr, float momentum);

  /// out = a - x; both have the size of a.
  void moved(std::span<const float> x, std::span<float> out) const;
  /// Ends a round. `mean`: the mean movement of all peers. Sets x.
  void apply(std::span<const float> mean, std::span<float> x);

 private:
  std::vector<float> start_;  ///< a
  std::vector<float> momentum_;
  float lr_;
  float keep_;  ///< factor of the momentum
};

}  // namespace starling::ring
