#include "sim/checks/replicas.hpp"

#include <cmath>

#include "sim/checks/survey.hpp"
#include "sim/judge/statistics.hpp"
#include "train/distances.hpp"

namespace starling::sim {
namespace {

using Vectors = std::vector<std::vector<float>>;

double square(double value) { return value * value; }

}  // namespace

std::vector<const Node*> trained(const World& world) {
  std::vector<const Node*> all;
  for (const auto& node : world.nodes()) {
    if (!node->worker || node->is_twin() || node->relay || node->hostile) continue;
    const bool done = node->finished && node->finished->reason == peer::EndReason::done;
    if (!node->finished || done) all.push_back(node.get());
  }
  return all;
}

std::vector<float> replica_of(const Node& node) {
  std::vector<float> x(node.worker->replica().size());
  node.worker->replica().read(x);
  return x;
}

std::optional<double> largest_distance(const World& world) {
  Vectors all;
  for (const Node* node : trained(world)) all.push_back(replica_of(*node));
  return largest(train::distances(all));
}

std::optional<double> buffer_distance(const World& world) {
  if (world.task().buffers.initial.empty()) return std::nullopt;
  Vectors all;
  for (const Node* node : trained(world)) {
    const auto values = node->worker->replica().buffers().values();
    all.emplace_back(values.begin(), values.end());
  }
  return largest(train::distances(all));
}

std::optional<double> mean_distance(const World& world) {
  Vectors all;
  for (const auto& node : world.nodes()) {
    if (trains(*node) && !node->is_twin() && !node->hostile) all.push_back(replica_of(*node));
  }
  return mean(train::distances(all));
}

std::optional<double> optimum_distance(const World& world) {
  const std::vector<float>& optimum = world.task().optimum;
  if (optimum.empty()) return std::nullopt;
  std::vector<double> distances;
  for (const Node* node : trained(world)) {
    const std::vector<float> x = replica_of(*node);
    double off = 0;
    double norm = 0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      off += square(static_cast<double>(x[e]) - static_cast<double>(optimum[e]));
      norm += square(static_cast<double>(optimum[e]));
    }
    distances.push_back(std::sqrt(off / norm));
  }
  return largest(distances);
}

}  // namespace starling::sim
