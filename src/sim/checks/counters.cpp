// Counters of samples: no peer knows of more than their owner, if it is honest, has counted.
#include <algorithm>
#include <vector>

#include "sim/checks/check.hpp"

namespace starling::sim {
namespace {

/// A counter is told before its owner publishes it: slack for a few steps.
constexpr std::uint64_t kSamplesSlack = 256;

class Counters final : public Check {
 public:
  explicit Counters(const Scene& scene)
      : world_(scene.world), subjects_(scene.subjects), calm_(scene.calm), alarm_(scene.alarm) {}

  void ended(const Node& node) override { note(node); }
  void look_at(const Node& node) override { note(node); }
  void inspect(const Node& node) override;

 private:
  /// Records how many samples the peer says it has trained.
  void note(const Node& node);

  const World& world_;
  const Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  std::vector<std::uint64_t> samples_;  ///< by subject: its own highest count
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

}  // namespace

std::unique_ptr<Check> make_counters(const Scene& scene) {
  return std::make_unique<Counters>(scene);
}

}  // namespace starling::sim
