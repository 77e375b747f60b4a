#include "sim/checks/replicas.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

using Vectors = std::vector<std::vector<float>>;

/// The larger of two; of what is not a number nothing is larger.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

double square(double value) { return value * value; }

/// |v_i - mean| / |mean| of each; nothing of fewer than two.
std::vector<double> distances(const Vectors& all) {
  if (all.size() < 2) return {};
  std::vector<double> mean(all.front().size());
  double norm = 0;
  for (std::size_t e = 0; e < mean.size(); ++e) {
    for (const auto& x : all) mean[e] += static_cast<double>(x[e]);
    mean[e] /= static_cast<double>(all.size());
    norm += square(mean[e]);
  }
  std::vector<double> distances;
  for (const auto& x : all) {
    double off = 0;
    for (std::size_t e = 0; e < mean.size(); ++e)
      off += square(static_cast<double>(x[e]) - mean[e]);
    distances.push_back(off == 0 ? 0 : std::sqrt(off / norm));
  }
  return distances;
}

std::optional<double> largest(const std::vector<double>& distances) {
  std::optional<double> most;
  for (const double distance : distances) most = worse(most.value_or(0), distance);
  return most;
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<float> replica_of(const Node& node) {
  std::vector<float> x(node.worker->replica().size());
  node.worker->replica().read(x);
  return x;
}

bool has_finished(const Node& node) {
  return node.finished && node.finished->reason == peer::EndReason::done;
}

/// Who left, or failed, has not seen the end.
std::vector<const Node*> trained(const World& world) {
  std::vector<const Node*> all;
  for (const auto& node : world.nodes()) {
    if (!node->worker || node->is_twin() || world.is_relay(*node)) continue;
    if (!node->finished || has_finished(*node)) all.push_back(node.get());
  }
  return all;
}

template <class Quality>
std::optional<double> final_quality(const World& world, Quality quality) {
  std::vector<double> values;
  for (const Node* node : trained(world)) {
    const auto& evaluated = node->worker->evaluated();
    if (node->finished && evaluated) values.push_back(quality(*evaluated));
  }
  return mean(values);
}

}  // namespace

std::size_t count_finished(const World& world) {
  return static_cast<std::size_t>(std::ranges::count_if(world.nodes(), [&](const auto& node) {
    return !node->is_twin() && !world.is_relay(*node) && has_finished(*node);
  }));
}

std::optional<double> mean_sent(const World& world) {
  std::vector<double> values;
  for (const Node* node : trained(world)) {
    if (node->finished) values.push_back(static_cast<double>(node->sent_bytes));
  }
  return mean(values);
}

std::optional<double> final_accuracy(const World& world) {
  return final_quality(world, [](const peer::Evaluated& evaluated) { return evaluated.accuracy; });
}

std::optional<double> final_loss(const World& world) {
  return final_quality(world, [](const peer::Evaluated& evaluated) { return evaluated.loss; });
}

std::optional<double> final_distance(const World& world) {
  Vectors all;
  for (const Node* node : trained(world)) {
    if (node->finished) all.push_back(replica_of(*node));
  }
  return largest(distances(all));
}

std::optional<double> largest_distance(const World& world) {
  Vectors all;
  for (const Node* node : trained(world)) all.push_back(replica_of(*node));
  return largest(distances(all));
}

std::optional<double> buffer_distance(const World& world) {
  if (world.task().buffers.initial.empty()) return std::nullopt;
  Vectors all;
  for (const Node* node : trained(world)) {
    const auto values = node->worker->replica().buffers().values();
    all.emplace_back(values.begin(), values.end());
  }
  return largest(distances(all));
}

std::optional<double> mean_distance(const World& world) {
  Vectors all;
  for (const auto& node : world.nodes()) {
    if (trains(world, *node) && !node->is_twin()) all.push_back(replica_of(*node));
  }
  return mean(distances(all));
}

std::optional<double> optimum_distance(const World& world) {
  const std::vector<float>& optimum = world.task().optimum;
  if (optimum.empty()) return std::nullopt;
  std::optional<double> most;
  for (const Node* node : trained(world)) {
    const std::vector<float> x = replica_of(*node);
    double off = 0;
    double norm = 0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      off += square(static_cast<double>(x[e]) - static_cast<double>(optimum[e]));
      norm += square(static_cast<double>(optimum[e]));
    }
    most = worse(most.value_or(0), std::sqrt(off / norm));
  }
  return most;
}

}  // namespace starling::sim
