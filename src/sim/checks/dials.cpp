// How often peers dial: not all the time, and dead peers hardly ever.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "membership/limits.hpp"
#include "sim/checks/check.hpp"
#include "sim/checks/survey.hpp"

namespace starling::sim {
namespace {

/// Links that a peer may dial: at the start, and for each second it runs. Others ask for some of
/// them.
constexpr double kDialsAtOnce = 200;
constexpr double kDialsEachSecond = 3;
/// Dials of one peer in a minute to an address where no peer is.
constexpr std::size_t kDeadDialsMax = 6;
constexpr double kDialWindow = 60;
/// A peer without links keeps trying, with pauses of at least half of kBackoffMax.
const auto kLonelyDialsMax =
    1 + static_cast<std::size_t>(kDialWindow / (base::seconds(membership::kBackoffMax) / 2));

class Dials final : public Check {
 public:
  explicit Dials(const Scene& scene)
      : world_(scene.world), calm_(scene.calm), alarm_(scene.alarm) {}

  void dialed(const Node& node, const peer::Dial& dial, bool answers) override;
  void inspect(const Node& node) override;

 private:
  const World& world_;
  const Calm& calm_;
  Alarm& alarm_;
  /// By node and address where no peer is: when it dialed there in calm, in the last minute.
  std::map<std::pair<std::uint32_t, std::string>, std::vector<double>> in_vain_;
};

// Addresses that do not answer are left alone, except for the rest of a ring that has ended.
void Dials::dialed(const Node& node, const peer::Dial& dial, bool answers) {
  // Some of the dials that both ends make at one moment always fail: reach bounds them.
  if (dial.kind != peer::DialKind::direct) return;
  const std::string& address = dial.address;
  if (answers || !calm_.now() || world_.plan().scenario.sim.buggify) return;
  if (waits_for_ring(world_, node)) return;
  const double now = world_.seconds();
  std::vector<double>& times = in_vain_[{node.number, address}];
  std::erase_if(times, [&](double at) { return at <= now - kDialWindow; });
  times.push_back(now);
  if (times.size() > (node.links.empty() ? kLonelyDialsMax : kDeadDialsMax)) {
    alarm_.raise("peer-{} dials {}, where nobody is, {} times in a minute", node.peer, address,
                 times.size());
  }
}

void Dials::inspect(const Node& node) {
  if (world_.plan().scenario.sim.buggify) return;  // drops links all the time
  const double up = world_.seconds() - world_.started(node);
  if (static_cast<double>(node.dials) > kDialsAtOnce + kDialsEachSecond * up) {
    alarm_.raise("peer-{} has dialed {} times in {:.0f} s", node.peer, node.dials, up);
  }
}

}  // namespace

std::unique_ptr<Check> make_dials(const Scene& scene) { return std::make_unique<Dials>(scene); }

}  // namespace starling::sim
