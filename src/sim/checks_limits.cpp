// What must hold of a swarm, whatever a scenario expects: how soon deaths are noticed, how often
// the dead are dialed, that runs advance and settle, and that all go on whenever it has been calm.
#include <algorithm>

#include <fmt/format.h>

#include "sim/checks.hpp"
#include "sim/checks/survey.hpp"
#include "train/schedule.hpp"

namespace starling::sim {
namespace {

/// After the last fault or start, all is as it was before.
constexpr double kAsBeforeSeconds = 60;
/// Then it is looked at how all go on, so long each time.
constexpr double kWindowSeconds = 60;
/// From a death until all have noticed it.
constexpr double kDetectionMax = 60;
/// Changes of one peer in one table in a minute.
constexpr std::uint64_t kVerdictsMax = 6;
/// Of links of small replicas, how many have exchanges that were added up; where there were so
/// many.
constexpr double kCoverageMin = 0.5;
constexpr std::uint64_t kLinksMetMin = 200;
/// Dials of one peer in a minute to an address where nobody is.
constexpr std::size_t kDeadDialsMax = 6;
constexpr double kDialWindow = 60;
/// Steps that were handed out before the rate was set anew.
constexpr std::uint64_t kStepsHandedOut = 3;

/// Whether all paths carry what is given to them.
bool is_good(const Conditions& conditions) {
  const auto none = [](const std::optional<double>& value) { return value.value_or(0) <= 0; };
  return none(conditions.loss) && none(conditions.corrupt) && none(conditions.rate_mbit);
}

/// Whether one frame may take as long as all are looked at: with lines and paths of any rate.
bool is_slow(const Scenario& scenario) {
  const auto limits = [](const Conditions& path) { return path.rate_mbit.value_or(0) > 0; };
  return !scenario.lines.empty() || limits(scenario.network) ||
         std::ranges::any_of(scenario.pairs, limits, &RegionPair::conditions);
}

}  // namespace

/// Whether nothing but cuts and the ends of processes makes a peer seem dead.
bool Checks::is_clear(const Plan& plan) {
  const Scenario& scenario = plan.scenario;
  return !scenario.sim.buggify && is_good(scenario.network) && scenario.lines.empty() &&
         std::ranges::all_of(scenario.pairs, is_good, &RegionPair::conditions) &&
         !has_event(plan, Kind::degrade) && !has_event(plan, Kind::skew) &&
         !has_event(plan, Kind::twin);
}

bool Checks::calm() const {
  return active_ == 0 && world_.seconds() >= last_change_ + kAsBeforeSeconds;
}

void Checks::check_verdicts() {
  // A star without its middle hears of nothing.
  if (!is_clear_ || !world_.task().config.membership.hub.empty()) return;
  const auto slowest = percentile(verdicts_.detections(), 1);
  if (slowest && *slowest > kDetectionMax) {
    alarm_.raise("a death was noticed after {:.1f} s", *slowest);
  }
  if (verdicts_.false_verdicts() > 0) {
    alarm_.raise("{} times a peer was held dead that ran and could be reached",
                 verdicts_.false_verdicts());
  }
  // With the turns of a cut all may change.
  if (has_event(world_.plan(), Kind::partition)) return;
  if (changes_most_ > kVerdictsMax) {
    alarm_.raise("a table changed its mind about one peer {} times in a minute", changes_most_);
  }
}

// In calm nobody is so much as suspect.
void Checks::check_suspicions(const Node& node) {
  if (!calm() || !is_clear_) return;
  for (const auto& [id, record] : node.core->membership().table().records()) {
    const Subject& subject = subjects_[subject_of(id)];
    if (record.state != wire::MemberState::suspect || !subject.running) continue;
    alarm_.raise("peer-{} suspects peer-{}, which nothing disturbs", node.peer, subject.node);
  }
}

void Checks::check_coverage() {
  if (world_.task().initial.size() > kSmallReplica || links_met_ < kLinksMetMin) return;
  if (const auto coverage = ledger_coverage(); *coverage < kCoverageMin) {
    alarm_.raise("of the links {} have exchanges that were added up", *coverage);
  }
}

// Whom nobody answers for is left alone, but for the rest of a ring that has ended.
void Checks::dialed(const Node& node, const std::string& address, bool answers) {
  if (answers || !calm() || world_.plan().scenario.sim.buggify || waits_for_ring(world_, node))
    return;
  const double now = world_.seconds();
  std::vector<double>& times = dials_[{node.number, address}];
  std::erase_if(times, [&](double at) { return at <= now - kDialWindow; });
  times.push_back(now);
  if (times.size() > kDeadDialsMax) {
    alarm_.raise("peer-{} dials {}, where nobody is, {} times in a minute", node.peer, address,
                 times.size());
  }
}

// The swarm's progress never falls, and the learning rate follows it.
void Checks::check_progress(const Node& node) {
  const peer::Status status = node.core->status(world_.local(node));
  Advance& before = advances_[node.number];
  const Advance now{node.life, status.steps, status.progress};
  const Advance then = std::exchange(before, now);
  if (then.life != now.life) return;
  if (now.progress < then.progress) {
    alarm_.raise("peer-{} went back from {} of the run to {}", node.peer, then.progress,
                 now.progress);
  }
  const train::Config& config = world_.task().run_file.train;
  const bool falls = then.progress >= config.warmup;
  if (status.phase != peer::Phase::training || now.steps < then.steps + kStepsHandedOut || !falls) {
    return;
  }
  const double most = train::learning_rate(config, then.progress);
  const double least = train::learning_rate(config, now.progress);
  if (status.learning_rate <= most && status.learning_rate >= least) return;
  alarm_.raise("peer-{} trains at a rate of {} after {} of the run, not at {}", node.peer,
               status.learning_rate, now.progress, least);
}

// Where nothing disturbs or holds exchanges back, no peer waits in vain for its links to settle.
void Checks::check_settling(const Node& node, double since) {
  if (!is_clear_ || active_ > 0 || since < last_change_ + kAsBeforeSeconds) return;
  const exchange::Config& config = world_.task().config.exchange;
  if (config.upload_limit > 0 || config.cpu_share > 0) return;
  if (world_.seconds() - since < base::seconds(config.settle_timeout)) return;
  alarm_.raise("peer-{} gave up settling", node.peer);
}

void Checks::open_window() {
  window_since_ = world_.seconds();
  window_.assign(world_.nodes().size(), {});
  for (const auto& node : world_.nodes()) {
    if (!world_.is_up(*node)) continue;
    window_[node->number] = {
        .life = node->life, .step = node->worker->step().value, .links = node->worker->ledger()};
  }
}

// Two that were neighbours all the time, over the same mirrors, must have gone on exchanging.
void Checks::check_exchanges(const Node& node) {
  const Noted& then = window_[node.number];
  for (const auto& neighbour : node.core->membership().neighbours(world_.local(node))) {
    const auto before = then.links.find(neighbour.peer);
    const auto after = node.worker->ledger().find(neighbour.peer);
    if (before == then.links.end() || after == node.worker->ledger().end()) continue;
    if (before->second.serial != after->second.serial) continue;
    if (before->second.committed < after->second.committed) continue;
    alarm_.raise("peer-{} and {} have made no exchange after {} for {} s", node.peer,
                 neighbour.peer.brief(), after->second.committed.value, kWindowSeconds);
  }
}

void Checks::check_saves(const Node& node) {
  const double every = base::seconds(world_.task().config.checkpoint_every);
  if (every <= 0 || every > kWindowSeconds / 3) return;
  const Checkpoint* saved = node.folder.newest_whole();
  if (saved == nullptr || saved->step.value < window_[node.number].step) {
    alarm_.raise("peer-{} has saved nothing for {} s", node.peer, kWindowSeconds);
  }
}

// Of each calm minute: those that ran all the time have gone on.
void Checks::look_at_window() {
  // A star is not made to become whole again.
  if (!world_.task().config.membership.hub.empty()) return;
  if (!calm() || ending()) return window_.clear();
  if (!window_.empty() && world_.seconds() < window_since_ + kWindowSeconds) return;
  for (const auto& node : world_.nodes()) {
    if (window_.empty()) break;
    if (!world_.is_up(*node) || window_[node->number].life != node->life) continue;
    check_goes_on(*node);
    if (!is_slow(world_.plan().scenario)) check_exchanges(*node);
    if (!waits_for_ring(world_, *node)) check_saves(*node);
  }
  open_window();
}

}  // namespace starling::sim
