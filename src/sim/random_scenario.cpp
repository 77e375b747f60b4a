#include "sim/random_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/rng.hpp"

namespace starling::sim {
namespace {

constexpr double kFaultsFrom = 20;
constexpr double kFaultsUntil = 80;
/// The end of the faults; the checks of a swarm that has recovered need the rest.
constexpr double kDuration = 245;
constexpr std::uint64_t kRingEvery = 10;
constexpr std::uint32_t kHostilePeers = 10;  ///< at first, one of them hostile
constexpr double kBatch = 16;                ///< of the simulator's own run file
/// Its model with a batch norm.
constexpr const char* kNormedLayers =
    R"(model.layers=[{type="linear",out=8},{type="batch_norm"},{type="relu"},)"
    R"({type="linear",out=4}])";
static_assert(kDuration > kFaultsUntil + 150 + 10);

constexpr Kind kKinds[] = {Kind::kill,      Kind::stop,      Kind::restart, Kind::join,
                           Kind::leave,     Kind::partition, Kind::degrade, Kind::throttle,
                           Kind::disk_full, Kind::skew};

double between(base::Rng& rng, double low, double high) {
  return std::round((low + rng.uniform() * (high - low)) * 1000) / 1000;
}

Selector some(base::Rng& rng, std::uint32_t count) {
  return {.kind = Selector::Kind::random,
          .count = 1 + static_cast<std::uint32_t>(rng.below(std::max(1U, count / 3))),
          .region = {},
          .numbers = {}};
}

Conditions bad_conditions(base::Rng& rng) {
  Conditions conditions;
  if (rng.below(2) == 0) conditions.loss = between(rng, 0.01, 0.4);
  if (rng.below(2) == 0) conditions.latency_ms = between(rng, 1, 400);
  if (rng.below(3) == 0) conditions.jitter_ms = between(rng, 1, 200);
  if (rng.below(3) == 0) conditions.rate_mbit = between(rng, 0.05, 10);
  if (rng.below(4) == 0) conditions.corrupt = between(rng, 0.001, 0.05);
  if (conditions.empty()) conditions.reorder = between(rng, 0.01, 0.3);
  return conditions;
}

/// Some restarted peers come back with another address: only those of one entry, so that the others
/// are where they were, and only if no disk is lost or damaged. Otherwise the first peer knows no
/// others, and they do not know where it is. The same holds for a peer that missed who joined, if
/// those that it knows died for good.
void move_some(Scenario& scenario) {
  const auto loses = [](const Entry& entry) { return entry.disk != Disk::kept; };
  if (std::ranges::any_of(scenario.timeline, loses)) return;
  const auto dies = [](const Entry& entry) { return entry.kind == Kind::kill && !entry.duration; };
  const auto joins = [](const Entry& entry) { return entry.kind == Kind::join; };
  if (std::ranges::any_of(scenario.timeline, dies) && std::ranges::any_of(scenario.timeline, joins))
    return;
  constexpr std::uint64_t kOwn = 0xADD2E55;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  for (Entry& entry : scenario.timeline) {
    const bool comes_back =
        entry.kind == Kind::restart || (entry.kind == Kind::kill && entry.duration);
    if (!comes_back || rng.below(2) == 0) continue;
    entry.address = Address::fresh;
    return;
  }
}

/// Most restarts name peers by number, which are killed first if they run; the other restarts are
/// only of dead peers.
void name_some(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0x2A3E;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  for (Entry& entry : scenario.timeline) {
    if (entry.kind != Kind::restart || rng.below(8) == 0) continue;
    std::vector<std::uint32_t> numbers(scenario.count);
    std::iota(numbers.begin(), numbers.end(), 0U);
    base::shuffle(numbers, rng);
    numbers.resize(entry.peers->count);
    std::ranges::sort(numbers);
    entry.peers = {.kind = Selector::Kind::numbers, .region = {}, .numbers = std::move(numbers)};
  }
}

/// Ends some cuts, with all of their later parts, before their time.
void heal_some(Scenario& scenario) {
  const auto cuts = [](const Entry& entry) { return entry.kind == Kind::partition; };
  constexpr std::uint64_t kOwn = 0x4EA1;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  if (std::ranges::none_of(scenario.timeline, cuts) || rng.below(4) != 0) return;
  Entry heal{.kind = Kind::heal, .region = {}, .groups = {}, .between = {}, .conditions = {}};
  heal.at = between(rng, kFaultsFrom, kFaultsUntil);
  heal.line = static_cast<int>(scenario.timeline.size()) + 1;
  scenario.timeline.push_back(std::move(heal));
}

/// Draws regions, some far apart, some on a narrow line; and entries between them.
void spread(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0x5E610;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  if (rng.below(3) != 0) return;
  scenario.regions = {"east", "west", "north"};
  scenario.regions.resize(2 + rng.below(2));
  if (rng.below(2) == 0) {
    Conditions far;
    far.latency_ms = between(rng, 50, 200);
    if (rng.below(2) == 0) far.rate_mbit = between(rng, 0.2, 5);
    scenario.pairs.push_back({"east", "west", far});
  }
  if (rng.below(2) == 0) scenario.lines.push_back({"west", between(rng, 0.2, 5)});
  for (Entry& entry : scenario.timeline) {
    const bool joins = entry.kind == Kind::join;
    if (joins && rng.below(2) == 0) entry.region = scenario.regions[rng.below(2)];
    if (entry.kind != Kind::degrade || rng.below(2) == 0) continue;
    entry.peers.reset();
    entry.between = {scenario.regions[rng.below(2)], scenario.regions.back()};
  }
}

/// Draws degradations in one direction, and cuts between groups that leave some peers in no group.
void aim_some(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0xD14EC7;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  constexpr Direction kDirections[] = {Direction::both, Direction::out, Direction::in};
  for (Entry& entry : scenario.timeline) {
    if (entry.kind == Kind::degrade) entry.direction = kDirections[rng.below(3)];
    if (entry.kind != Kind::partition || cuts_selected(entry.shape) || rng.below(4) != 0) continue;
    std::vector<std::vector<std::uint32_t>> groups(3);
    for (std::uint32_t i = 0; i < scenario.count; ++i) groups[rng.below(3)].push_back(i);
    groups.pop_back();
    std::erase_if(groups, [](const auto& group) { return group.empty(); });
    if (groups.size() < 2) continue;
    entry.shape = Shape::groups;
    entry.groups = std::move(groups);
  }
}

/// Repeats some faults, such that all are over in time. Not deaths: after frequent deaths, others
/// believe only minutes later that a peer is back.
void repeat_some(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0x43B3A7;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  for (Entry& entry : scenario.timeline) {
    const bool again =
        entry.kind == Kind::stop || entry.kind == Kind::partition || entry.kind == Kind::degrade;
    if (!again || !entry.duration || rng.below(4) != 0) continue;
    entry.duration = between(rng, 0.5, 10);
    entry.every = between(rng, 2, 20);
    entry.until = std::max(entry.at, kFaultsUntil - *entry.duration);
  }
}

/// Draws the number of neighbours, and in few scenarios a common neighbour of all. Two neighbours
/// are too few if rare branches drop links all the time, or where one of the peers is hostile: that
/// one can be all that holds two rings together. Two or a star are too few for buffers to stay near
/// their mean.
void link_some(Scenario& scenario, bool has_hostile) {
  constexpr std::uint64_t kOwn = 0xDE64EE;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  if (rng.below(4) == 0) {
    const bool needs_more = scenario.sim.buggify || scenario.sim.buffers > 0 || has_hostile;
    scenario.set.push_back(fmt::format(
        "swarm.degree={}", std::max<std::uint64_t>(needs_more ? 3 : 2, 2 + rng.below(5))));
  } else if (rng.below(40) == 0 && scenario.sim.buffers == 0) {
    scenario.set.emplace_back("swarm.hub='peer-0'");
  }
  constexpr const char* kSchedules[] = {"constant", "cosine", "linear"};
  scenario.set.push_back(fmt::format("train.schedule='{}'", kSchedules[rng.below(3)]));
}

/// Makes rings of a few, which no peer joins. A death ends a ring by design, and so may an apparent
/// death.
void close_some(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0x4146;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  if (scenario.sim.problem == Problem::none || rng.below(kRingEvery) != 0) return;
  std::erase_if(scenario.set, [](const std::string& key) {
    return key.starts_with("swarm.") || key.starts_with("exchange.");
  });
  scenario.set.push_back(fmt::format("swarm.peers={}", scenario.count));
  if (rng.below(2) == 0) {
    scenario.set.emplace_back("exchange.mode='allreduce'");
  } else {
    scenario.set.emplace_back("exchange.mode='local'");
    scenario.set.push_back(fmt::format("exchange.every={}", 1 + rng.below(10)));
  }
  std::erase_if(scenario.timeline, [](const Entry& entry) {
    return entry.kind == Kind::join || entry.kind == Kind::twin;
  });
  const auto harms = [](const Entry& entry) {
    return entry.kind != Kind::disk_full && entry.kind != Kind::throttle;
  };
  if (std::ranges::any_of(scenario.timeline, harms)) {
    scenario.expect.push_back({Measure::failed_max, 1000});
  }
}

Entry random_entry(base::Rng& rng, Kind kind, std::uint32_t count) {
  Entry entry{.kind = kind, .region = {}, .groups = {}, .between = {}, .conditions = {}};
  entry.at = between(rng, kFaultsFrom, kFaultsUntil - 10);
  const double left = kFaultsUntil - entry.at;
  if (kind != Kind::join) entry.peers = some(rng, count);
  if (kind != Kind::join && kind != Kind::restart) entry.duration = between(rng, 0.5, left);
  switch (kind) {
    case Kind::leave:
      // No peer looks for one that said goodbye; the first peer has only the addresses that it
      // saved, if its disk was not full.
      entry.peers = {.kind = Selector::Kind::numbers,
                     .region = {},
                     .numbers = {1 + static_cast<std::uint32_t>(rng.below(count - 1))}};
      break;
    case Kind::kill:
      if (rng.below(4) == 0) entry.duration.reset();
      break;
    case Kind::join:
      entry.count = 1 + static_cast<std::uint32_t>(rng.below(4));
      break;
    case Kind::partition: {
      constexpr Shape kShapes[] = {Shape::halves,    Shape::one,    Shape::minority,
                                   Shape::ring,      Shape::bridge, Shape::asymmetric,
                                   Shape::flip_flop, Shape::swizzle};
      entry.shape = kShapes[rng.below(std::size(kShapes))];
      entry.period = between(rng, 0.5, 10);
      if (!cuts_selected(entry.shape)) entry.peers.reset();
      break;
    }
    case Kind::degrade:
      entry.conditions = bad_conditions(rng);
      break;
    case Kind::throttle:
      entry.speed = between(rng, 0.05, 0.9);
      break;
    case Kind::skew:
      entry.rate = between(rng, 0.5, 2);
      break;
    default:
      break;
  }
  if (kind == Kind::kill || kind == Kind::restart) {
    constexpr Disk kDisks[] = {Disk::kept, Disk::kept, Disk::lost, Disk::torn, Disk::flipped};
    entry.disk = kDisks[rng.below(std::size(kDisks))];
    if (kind == Kind::kill && !entry.duration) entry.disk = Disk::kept;
  }
  return entry;
}

// The last of the first peers has no replica, nor do two others. In a ring, all have one.
void relay_some(Scenario& scenario) {
  base::Rng rng(scenario.seed ^ 0x72656c6179ULL);
  const auto names_peers = [](const std::string& set) {
    return set.starts_with("swarm.hub=") || set.starts_with("swarm.peers=");
  };
  if (rng.below(8) != 0 || scenario.count < 3) return;
  if (std::ranges::any_of(scenario.set, names_peers)) return;
  scenario.relays = {scenario.count - 1};
}

// Separate, so that other choices do not depend on it.
void choose_exchange(Scenario& scenario) {
  base::Rng exchange(~scenario.seed);
  if (scenario.sim.problem == Problem::none) return;
  if (exchange.below(2) == 0) {
    scenario.set.push_back(fmt::format("exchange.buffers_every={}", 1 + exchange.below(4)));
    if (scenario.sim.problem == Problem::small) scenario.set.emplace_back(kNormedLayers);
    if (scenario.sim.problem == Problem::quadratic) scenario.sim.buffers = 8;
  }
  const std::uint64_t mode = exchange.below(16);
  if (mode < 2) scenario.set.emplace_back("exchange.mode='choco'");
  if (mode == 2) scenario.set.emplace_back("exchange.mode='dense'");
  // With rarer exchanges, the quadratic's buffers, which are drawn again at each step, would be
  // far apart.
  const bool drawn = scenario.sim.buffers != 0;
  if (!drawn && exchange.below(8) == 0) {
    // A delta of the quadratic has about 30 bytes.
    const double limit = between(exchange, 0.001, 0.004);
    scenario.set.push_back(fmt::format("exchange.upload_limit={}", limit));
  }
  if (!drawn && exchange.below(8) == 0) scenario.set.emplace_back("exchange.cpu_share=0.1");
  exchange.below(8);  // was a key; seeds keep what they draw after it
  if (exchange.below(8) == 0) scenario.set.emplace_back("exchange.mirror='bf16'");
  if (exchange.below(4) == 0) {
    // If rare branches quantize coarsely, twice as much upsets the quadratic.
    scenario.set.push_back(fmt::format("exchange.momentum={}", between(exchange, 0.1, 0.5)));
    scenario.set.emplace_back("exchange.momentum_gain=0.5");
  }
}

void choose_faults(Scenario& scenario, base::Rng& rng) {
  std::vector<Kind> kinds;
  for (const Kind kind : kKinds) {
    if (rng.below(3) == 0) kinds.push_back(kind);
  }
  const std::uint64_t entries = kinds.empty() ? 0 : 1 + rng.below(6);
  // With two processes of one key most checks do not hold, so this is seldom drawn.
  if (rng.below(25) == 0) kinds = {Kind::twin, Kind::kill};
  for (std::uint64_t i = 0; i < entries; ++i) {
    scenario.timeline.push_back(random_entry(rng, kinds[rng.below(kinds.size())], scenario.count));
    scenario.timeline.back().line = static_cast<int>(i) + 1;
  }
}

/// One of the first peers attacks, and all have different speeds. Only tracked averaging guards
/// itself.
void attack_some(Scenario& scenario) {
  constexpr std::uint64_t kOwn = 0x4057113;  // so that other choices do not depend on it
  base::Rng rng(scenario.seed ^ kOwn);
  std::erase_if(scenario.set, [](const auto& key) { return key.starts_with("exchange.mode="); });
  scenario.speeds.clear();
  for (std::uint32_t i = 0; i < scenario.count; ++i) {
    scenario.speeds.push_back(1.0 / static_cast<double>(1 << rng.below(5)));
  }
  const auto& traits = hostile::kAttacks[rng.below(hostile::kAttacks.size())];
  hostile::Attack attack{.kind = traits.kind};
  if (traits.has_factor()) attack.factor = traits.factor;
  if (hostile::can_begin_later(attack.kind)) attack.from = between(rng, 0, kFaultsUntil);
  // The last one may be a relay.
  const auto number = static_cast<std::uint32_t>(rng.below(scenario.count - 1));
  scenario.hostiles.push_back(
      {.line = 1,
       .peers = {.kind = Selector::Kind::numbers, .region = {}, .numbers = {number}},
       .attack = attack});
}

Scenario draw(std::uint64_t seed, bool has_hostile) {
  base::Rng rng(seed);
  Scenario scenario;
  scenario.name = fmt::format("{}seed-{}", has_hostile ? "hostile-" : "", seed);
  scenario.about = "drawn from a seed";
  scenario.file = scenario.name;
  scenario.seed = seed;
  scenario.duration = kDuration;
  scenario.count = 2 + static_cast<std::uint32_t>(rng.below(7));
  if (has_hostile) scenario.count = kHostilePeers;
  // The first peers may be gone when others come.
  scenario.via.kind = Selector::Kind::all;
  if (rng.below(2) == 0) scenario.spacing = between(rng, 0, 1);
  scenario.network.latency_ms = between(rng, 0.1, 60);
  scenario.network.jitter_ms = between(rng, 0, rng.below(3) == 0 ? 150 : 10);
  constexpr Problem kProblems[] = {Problem::quadratic, Problem::quadratic, Problem::none,
                                   Problem::small};
  scenario.sim.problem = kProblems[rng.below(std::size(kProblems))];
  if (has_hostile && scenario.sim.problem == Problem::none) {
    scenario.sim.problem = Problem::quadratic;
  }
  scenario.sim.elements = 64;
  scenario.sim.step_ms = scenario.sim.problem == Problem::none ? 1000 : between(rng, 100, 500);
  scenario.sim.buggify = rng.below(2) == 0;
  if (rng.below(6) == 0) {
    // The run ends some time after the faults.
    const double steps = scenario.count * (kFaultsUntil + 60) * 1000 / scenario.sim.step_ms;
    const double batch = scenario.sim.problem == Problem::none ? 1 : kBatch;
    scenario.set = {fmt::format("run.samples={:.0f}", steps * batch)};
  }
  choose_exchange(scenario);
  choose_faults(scenario, rng);
  name_some(scenario);
  move_some(scenario);
  heal_some(scenario);
  repeat_some(scenario);
  aim_some(scenario);
  spread(scenario);
  link_some(scenario, has_hostile);
  if (!has_hostile) close_some(scenario);
  relay_some(scenario);
  if (has_hostile) attack_some(scenario);
  return scenario;
}

}  // namespace

Scenario random_scenario(std::uint64_t seed) { return draw(seed, false); }

Scenario random_hostile_scenario(std::uint64_t seed) { return draw(seed, true); }

}  // namespace starling::sim
