#include "runfile/together.hpp"

#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <strings.h>

#include "base/port_range.hpp"
#include "delta/format.hpp"
#include "exchange/config.hpp"
#include "membership/limits.hpp"
#include "runfile/keys.hpp"

namespace starling::runfile {
namespace {

/// The error in the steps of a learning rate, if there is one.
std::string wrong_steps(const train::Config& train) {
  if (train.schedule != train::Schedule::step) {
    return train.steps.empty() ? "" : "is only for train.schedule = \"step\"";
  }
  if (train.steps.empty()) {
    return "is missing: say after which fractions of the run the learning rate goes down, like "
           "[0.5, 0.75]";
  }
  double last = train.warmup;
  for (const double step : train.steps) {
    if (step <= last) return "must ascend, and begin after train.warmup";
    last = step;
  }
  return "";
}

/// A step in 28 hours. What follows from a slower pace, in nanoseconds and times the samples of a
/// batch, would not fit into 64 bits.
constexpr double kStepsPerSecondMin = 1e-5;
/// A timer that is due more often leaves the event loop no time for anything else.
constexpr base::Duration kCheckpointEveryMin = std::chrono::milliseconds(10);

/// The error in where UCX may be used, if there is one.
std::optional<Wrong> wrong_links(const RunFile& f) {
  // A name that is all but one of the words is a word that was written wrongly.
  for (const char* const word : {kFabricAuto, kFabricNone}) {
    if (f.links.fabric == word || strcasecmp(f.links.fabric.c_str(), word) != 0) continue;
    return Wrong{"links", "fabric",
                 fmt::format("\"{}\": did you mean \"{}\"?", f.links.fabric, word)};
  }
  const auto ports = base::parse_port_range(f.links.fabric_ports, kFabricPortsMin);
  if (!ports) return Wrong{"links", "fabric_ports", ports.error().text};
  return std::nullopt;
}

/// The key that keeps peers from finding out that run.target_accuracy is reached, if any.
std::optional<Wrong> wrong_target(const RunFile& f) {
  const auto wrong = [](std::string text) {
    return Wrong{"run", "target_accuracy", std::move(text)};
  };
  if (f.run.target_accuracy == 0) return std::nullopt;
  if (f.model.loss == compute::LossKind::mean_squared) {
    return wrong("there is none with model.loss = \"mean_squared\"");
  }
  if (f.report.every == 0) {
    return wrong("nobody looks at the accuracy before the end with report.every = 0");
  }
  if (exchange::uses_ring(f.exchange.mode) && f.data.split == data::Split::private_data) {
    return wrong(
        fmt::format("peers with test sets of their own (data.split = \"private\") would not reach "
                    "it together, which exchange.mode = \"{}\" needs",
                    base::name_of(f.exchange.mode, exchange::kModeNames)));
  }
  return std::nullopt;
}

/// The key of [swarm] that keeps a ring from ever being complete, if any.
std::optional<Wrong> wrong_ring(const RunFile& f) {
  const std::string_view mode = base::name_of(f.exchange.mode, exchange::kModeNames);
  if (f.peers < 2) {
    return Wrong{"swarm", "peers",
                 fmt::format("must be at least 2 for exchange.mode = \"{}\": its set of "
                             "peers is fixed",
                             mode)};
  }
  if (f.peers > kFixedPeersMax) {
    return Wrong{"swarm", "peers",
                 fmt::format("{} is too many for exchange.mode = \"{}\", which takes {} at most: "
                             "each peer is linked with all others",
                             f.peers, mode, kFixedPeersMax)};
  }
  if (!f.swarm.hub.empty()) {
    return Wrong{"swarm", "hub",
                 fmt::format("is not for exchange.mode = \"{}\": each peer is linked with "
                             "all others, not with one",
                             mode)};
  }
  return std::nullopt;
}

/// How long the run is.
std::optional<Wrong> wrong_length(const RunFile& f) {
  if (f.run.epochs == 0 && f.run.samples == 0) {
    return Wrong{"run", "epochs",
                 "is missing: say how long the run is, in epochs of the whole "
                 "training set over the swarm, or give run.samples"};
  }
  if (f.run.epochs != 0 && f.run.samples != 0) {
    return Wrong{"run", "samples", "is given beside run.epochs: keep one of them"};
  }
  if (f.run.samples == 0 && f.data.split == data::Split::private_data) {
    return Wrong{"run", "epochs",
                 "needs the number of all samples, which nobody knows with data.split = "
                 "\"private\": give run.samples, the samples that all peers train on together"};
  }
  return std::nullopt;
}

/// Whether momentum of links grows by itself: what the momenta of a peer's links have against each
/// other moves their mirrors and not its replica, so it comes back as deltas, and an exchange makes
/// momentum - momentum_gain (1 - momentum) times as much of it.
std::optional<Wrong> wrong_momentum(const exchange::Config& c) {
  if (!exchange::has_momentum(c)) return std::nullopt;
  const double most = (1 + c.momentum) / (1 - c.momentum);
  if (c.momentum_gain < most) return std::nullopt;
  return Wrong{
      "exchange", "momentum_gain",
      fmt::format("{} with a momentum of {} lets links swing ever further: below {:.2f}, or "
                  "more momentum",
                  c.momentum_gain, c.momentum, std::floor(100 * most) / 100)};
}

/// How steps are made.
std::optional<Wrong> wrong_training(const RunFile& f) {
  if (f.train.batch_min > f.train.batch) {
    return Wrong{"train", "batch_min",
                 fmt::format("is more than train.batch, which is {}", f.train.batch)};
  }
  if (f.train.batch_min != 0 && exchange::uses_ring(f.exchange.mode)) {
    return Wrong{"train", "batch_min",
                 fmt::format("all take the same steps under exchange.mode = \"{}\"",
                             base::name_of(f.exchange.mode, exchange::kModeNames))};
  }
  if (f.train.batch % f.train.accumulate != 0) {
    return Wrong{"train", "accumulate",
                 fmt::format("must divide train.batch, which is {}", f.train.batch)};
  }
  if (std::string steps = wrong_steps(f.train); !steps.empty()) {
    return Wrong{"train", "steps", std::move(steps)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Wrong> wrong_together(const RunFile& f) {
  const auto wrong = [](const char* section, const char* key, std::string text) {
    return Wrong{section, key, std::move(text)};
  };
  if (auto length = wrong_length(f)) return length;
  if (auto target = wrong_target(f)) return target;
  if (f.embedded && exchange::uses_ring(f.exchange.mode)) {
    return wrong("exchange", "mode",
                 fmt::format("\"{}\" is only for runs that Starling's own trainer trains",
                             base::name_of(f.exchange.mode, exchange::kModeNames)));
  }
  if (!f.embedded && f.model.preset == model::Preset::none && f.model.layers.empty()) {
    return wrong("model", "layers",
                 "is missing or empty: the model needs layers, or a preset in their place");
  }
  if (auto training = wrong_training(f)) return training;
  if (!delta::format::is_bits(f.exchange.bits)) {
    return wrong("exchange", "bits", fmt::format("{} is not 1, 2, 3, 4 or 8", f.exchange.bits));
  }
  if (auto momentum = wrong_momentum(f.exchange)) return momentum;
  // Without exchanges it is allowed: membership alone, as long as swarm.wait_timeout says.
  const std::uint32_t degree = f.swarm.hub.empty() ? f.swarm.degree : membership::kDegreeMax;
  const std::uint32_t neighbours = degree + membership::kDegreeSlack;
  if (exchange::uses_links(f.exchange.mode) && f.swarm.wait_for > neighbours) {
    return wrong("swarm", "wait_for",
                 fmt::format("{} is more than the {} neighbours that a peer has at most; it seeks "
                             "swarm.degree",
                             f.swarm.wait_for, neighbours));
  }
  if (f.limits.steps_per_second > 0 && f.limits.steps_per_second < kStepsPerSecondMin) {
    return wrong("limits", "steps_per_second",
                 fmt::format("{} is too low: at least {}, or 0 for no limit",
                             f.limits.steps_per_second, kStepsPerSecondMin));
  }
  if (f.checkpoint.every > base::Duration{} && f.checkpoint.every < kCheckpointEveryMin) {
    return wrong(
        "checkpoint", "every",
        fmt::format("{} is too short: at least {} s, or 0 for one at the end alone",
                    base::seconds(f.checkpoint.every), base::seconds(kCheckpointEveryMin)));
  }
  if (!f.secret.empty() && f.security == Security::off) {
    return wrong("security", "secret",
                 "is of no use with security.mode = \"off\", which lets everybody in");
  }
  if (auto links = wrong_links(f)) return links;
  if (exchange::uses_ring(f.exchange.mode)) return wrong_ring(f);
  return std::nullopt;
}

}  // namespace starling::runfile
