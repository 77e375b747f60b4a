// Counters of samples: no peer knows of more than their owner, if it is honest, has counted.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "sim/checks/check.hpp"

namespace starling::sim {
namespace {

/// A counter is told before its owner publishes it: slack for a few steps.
constexpr std::uint64_t kSamplesSlack = 256;

class Counters final : public Check {
 public:
  explicit Counters(const Scene& scene)
      : world_(scene.world),
        subjects_(scene.subjects),
        calm_(scene.calm),
        alarm_(scene.alarm),
        findings_(scene.findings) {}

  void ended(const Node& node) override { note(node); }
  void look_at(const Node& node) override { note(node); }
  void inspect(const Node& node) override;
  void touched(Node& node) override;
  void finish() override;

 private:
  /// Records how many samples the peer says it has trained.
  void note(const Node& node);
  /// How far the samples that honest peers have trained are from those of the run, or from those
  /// that the peer counts.
  [[nodiscard]] double off(const Node& node);

  const World& world_;
  const Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  Findings& findings_;
  std::vector<std::uint64_t> samples_;  ///< by subject: its own highest count
  std::map<const Node*, double> ends_;  ///< what was off when a peer made its last step
};

void Counters::note(const Node& node) {
  const wire::Progress* own = node.core->membership().progress().find(node.id.prefix());
  if (own == nullptr) return;
  samples_.resize(subjects_.size());
  std::uint64_t& samples = samples_[subjects_.own(node)];
  samples = std::max(samples, own->samples);
}

void Counters::inspect(const Node& node) {
  const membership::ProgressTable& table = node.core->membership().progress();
  if (table.size() > subjects_.size()) {
    alarm_.raise("peer-{} knows {} counters of {} peers", node.peer, table.size(),
                 subjects_.size());
  }
  if (calm_.twins()) return;  // two count under one name
  samples_.resize(subjects_.size());
  for (std::uint32_t i = 0; i < subjects_.size(); ++i) {
    if (world_.nodes()[subjects_[i].node]->hostile) continue;
    const wire::Progress* known = table.find(subjects_[i].prefix);
    if (known == nullptr || known->samples <= samples_[i] + kSamplesSlack) continue;
    alarm_.raise("peer-{} knows of {} samples of peer-{}, which has {}", node.peer, known->samples,
                 subjects_[i].node, samples_[i]);
  }
}

// When it has made its last step.
void Counters::touched(Node& node) {
  if (node.hostile || node.is_twin() || node.core->phase() != peer::Phase::settling) return;
  if (ends_.contains(&node)) return;
  ends_[&node] = off(node);
}

double Counters::off(const Node& node) {
  for (const auto& other : world_.nodes()) {
    if (other->is_up()) note(*other);
  }
  samples_.resize(subjects_.size());
  double trained = 0;
  for (std::uint32_t i = 0; i < subjects_.size(); ++i) {
    if (world_.nodes()[subjects_[i].node]->hostile) continue;
    trained += static_cast<double>(samples_[i]);
  }
  const auto target = static_cast<double>(world_.task().config.target_samples);
  const auto counted =
      static_cast<double>(node.core->membership().progress().total(world_.local(node)));
  return std::max(std::abs(trained - target), std::abs(counted - trained)) / target;
}

void Counters::finish() {
  std::optional<double>& worst = findings_.measured[Measure::samples_off_max];
  for (const auto& node : world_.nodes()) {
    const auto ended = ends_.find(node.get());
    if (ended != ends_.end()) worst = std::max(worst.value_or(0), ended->second);
  }
}

}  // namespace

std::unique_ptr<Check> make_counters(const Scene& scene) {
  return std::make_unique<Counters>(scene);
}

}  // namespace starling::sim
