// The ledger of exchanges: mirrors are the same at both ends of a link, and what exchanges took
// from one replica they gave to another.
#include <cmath>

#include "sim/checks/check.hpp"

namespace starling::sim {
namespace {

/// Rounding error of the sum of two ends' commits.
constexpr double kBalance = 1e-6;
/// The fraction of the links between small replicas whose exchanges must have been added up, if
/// there were enough links.
constexpr double kCoverageMin = 0.5;
constexpr std::uint64_t kLinksMetMin = 200;

class Exchanges final : public Check {
 public:
  explicit Exchanges(const Scene& scene)
      : world_(scene.world),
        subjects_(scene.subjects),
        calm_(scene.calm),
        alarm_(scene.alarm),
        findings_(scene.findings),
        adds_up_(!has_hostiles(scene.world.plan())) {}

  /// Checks the exchanges that the event committed.
  void touched(Node& node) override;
  /// For each link whose ends have not lost each other since it was opened, the commits of both
  /// ends must add up to nothing.
  void look_at(const Node& node) override;
  void finish() override;

 private:
  void check_mirrors(const Node& node, const base::PeerId& peer);
  /// The process of an honest peer; nothing if it is not up.
  [[nodiscard]] const Node* find_up(const base::PeerId& peer);

  const World& world_;
  Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  Findings& findings_;
  /// An attack may make values so large that nothing else is left in a sum.
  const bool adds_up_;
  std::uint64_t commits_ = 0;
  std::uint64_t met_ = 0, balanced_ = 0;  ///< links, once a second each
};

void Exchanges::touched(Node& node) {
  for (const base::PeerId& peer : node.worker->ledger().take_committed()) {
    if (node.hostile) continue;
    ++commits_;
    if (node.worker->replica().size() <= kSmallReplica || commits_ % kLargeEvery == 0) {
      check_mirrors(node, peer);
    }
  }
}

const Node* Exchanges::find_up(const base::PeerId& peer) {
  const Node& node = *world_.nodes()[subjects_[subjects_.number_of(peer)].node];
  return node.is_up() && !node.hostile && node.id == peer ? &node : nullptr;
}

void Exchanges::check_mirrors(const Node& node, const base::PeerId& peer) {
  if (calm_.twins()) return;  // of two with one name, it is unknown which one has the mirrors
  const Node* const other = find_up(peer);
  if (other == nullptr) return;
  const auto mine = node.worker->ledger().links().find(peer);
  const auto theirs = other->worker->ledger().links().find(node.id);
  if (mine == node.worker->ledger().links().end() ||
      theirs == other->worker->ledger().links().end())
    return;
  const LinkLedger& a = mine->second;
  const LinkLedger& b = theirs->second;
  if (a.opening != b.opening || a.committed != b.committed) return;
  const exchange::Replica& x = node.worker->replica();
  const exchange::Replica& y = other->worker->replica();
  if (!x.has(peer) || !y.has(node.id)) return;
  using exchange::MirrorOf;
  if (x.mirror_hash(peer, MirrorOf::mine) != y.mirror_hash(node.id, MirrorOf::theirs) ||
      x.mirror_hash(peer, MirrorOf::theirs) != y.mirror_hash(node.id, MirrorOf::mine)) {
    alarm_.raise("the mirrors of peer-{} and peer-{} differ after exchange {}", node.peer,
                 other->peer, a.committed.value);
  }
  if (!adds_up_ || !a.moved || !b.moved) return;
  const double tolerance = static_cast<double>(x.size()) * 1e-6 * (1 + std::abs(*a.moved));
  if (!(std::abs(*a.moved + *b.moved) <= tolerance)) {
    alarm_.raise("exchange {} of peer-{} and peer-{} is not in balance: {} and {}",
                 a.committed.value, node.peer, other->peer, *a.moved, *b.moved);
  }
}

void Exchanges::look_at(const Node& node) {
  if (!adds_up_ || calm_.twins()) return;
  for (const auto& [peer, mine] : node.worker->ledger().links()) {
    const Node* const other = find_up(peer);
    if (other == nullptr || other->number < node.number) continue;
    const auto found = other->worker->ledger().links().find(node.id);
    if (found == other->worker->ledger().links().end() || found->second.opening != mine.opening)
      continue;
    const LinkLedger& theirs = found->second;
    std::optional<double> here = mine.sum;
    std::optional<double> there = theirs.sum;
    if (mine.committed == theirs.committed.next()) here = mine.sum_before;
    if (theirs.committed == mine.committed.next()) there = theirs.sum_before;
    const bool known = here && there;
    ++met_;
    balanced_ += known ? 1 : 0;
    if (!known || std::abs(*here + *there) <= kBalance * (1 + std::abs(*here))) continue;
    alarm_.raise("of {} and {} exchanges of peer-{} and peer-{} {} is left over",
                 mine.committed.value, theirs.committed.value, node.peer, other->peer,
                 *here + *there);
  }
}

void Exchanges::finish() {
  if (met_ == 0) return;
  const double coverage = static_cast<double>(balanced_) / static_cast<double>(met_);
  findings_.ledger_coverage = coverage;
  if (world_.task().initial.size() > kSmallReplica || met_ < kLinksMetMin) return;
  if (coverage < kCoverageMin) {
    alarm_.raise("of the links {} have exchanges that were added up", coverage);
  }
}

}  // namespace

std::unique_ptr<Check> make_exchanges(const Scene& scene) {
  return std::make_unique<Exchanges>(scene);
}

}  // namespace starling::sim
