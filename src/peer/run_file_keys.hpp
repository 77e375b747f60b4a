// Every key of a run file, once: the reader, the writer and the search for unknown keys all go
// through this list.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "peer/run_file.hpp"

namespace starling::peer {

/// A whole number from min to max.
struct IntegerRange {
  std::uint64_t min;
  std::uint64_t max;
};

/// A number from min to max.
struct NumberRange {
  double min;
  double max;
};

/// A duration in seconds from min to max.
struct SecondsRange {
  double min;
  double max;
};

/// A string of at most `max` characters; `name`: only such that may be in a file name.
struct Text {
  std::size_t max;
  bool name;
};

/// true or false.
struct Flag {};

/// A list of strings, or of whole numbers from 1.
struct List {
  std::size_t max;
};

/// A list of numbers.
struct NumberList {
  std::size_t max;
  NumberRange each;
};

/// The model's layers.
struct Layers {};

/// One of several words.
template <class Enum, std::size_t N>
using Words = std::array<std::pair<std::string_view, Enum>, N>;

inline constexpr Words<model::LayerKind, 4> kLayerWords{{
    {"conv2d", model::LayerKind::conv2d},
    {"linear", model::LayerKind::linear},
    {"relu", model::LayerKind::relu},
    {"max_pool2d", model::LayerKind::max_pool2d},
}};
inline constexpr Words<data::Split, 2> kSplitWords{{
    {"iid", data::Split::iid},
    {"dirichlet", data::Split::dirichlet},
}};
inline constexpr Words<train::Optimizer, 2> kOptimizerWords{{
    {"sgd", train::Optimizer::sgd},
    {"adamw", train::Optimizer::adamw},
}};
inline constexpr Words<train::Schedule, 4> kScheduleWords{{
    {"constant", train::Schedule::constant},
    {"cosine", train::Schedule::cosine},
    {"linear", train::Schedule::linear},
    {"step", train::Schedule::step},
}};
inline constexpr Words<exchange::Mode, 3> kModeWords{{
    {"tracked", exchange::Mode::tracked},
    {"allreduce", exchange::Mode::allreduce},
    {"none", exchange::Mode::none},
}};
inline constexpr Words<Security, 2> kSecurityWords{{
    {"off", Security::off},
    {"tls", Security::tls},
}};

template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view word_of(Enum value, const Words<Enum, N>& words) noexcept {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "?";
}

/// The keys of a layer beside "type" that a kind takes.
[[nodiscard]] constexpr bool layer_takes(model::LayerKind kind, std::string_view key) noexcept {
  using enum model::LayerKind;
  if (key == "out") return kind == conv2d || kind == linear;
  if (key == "kernel" || key == "stride") return kind == conv2d || kind == max_pool2d;
  return key == "padding" && kind == conv2d;
}

/// Calls visit.section(name) and visit(key, field, rule) for all keys in the order they are
/// written. `Run` is RunFile or const RunFile.
template <class Run, class Visitor>
void visit_keys(Run& f, Visitor&& visit) {
  constexpr std::uint64_t kInt = std::numeric_limits<std::int64_t>::max();  // TOML's integers
  constexpr double kTiny = 1e-12;
  visit.section("run");
  visit("name", f.run.name, Text{64, true});
  visit("seed", f.run.seed, IntegerRange{0, kInt});
  visit("epochs", f.run.epochs, NumberRange{0, 1e6});
  visit("samples", f.run.samples, IntegerRange{0, kInt});
  visit("target_accuracy", f.run.target_accuracy, NumberRange{0, 1});
  visit.section("model");
  visit("input", f.model.input, List{3});
  visit("layers", f.model.layers, Layers{});
  visit.section("data");
  visit("source", f.data.source, Text{64, true});
  visit("path", f.data.path, Text{4096, false});
  visit("split", f.data.split, kSplitWords);
  visit("alpha", f.data.alpha, NumberRange{1e-3, 1e6});
  visit("shards", f.data.shards, IntegerRange{1, data::kShardsMax});
  visit.section("train");
  visit("optimizer", f.train.optimizer, kOptimizerWords);
  visit("lr", f.train.lr, NumberRange{kTiny, 100});
  visit("momentum", f.train.momentum, NumberRange{0, 0.9999});
  visit("nesterov", f.train.nesterov, Flag{});
  visit("beta1", f.train.beta1, NumberRange{0, 0.9999});
  visit("beta2", f.train.beta2, NumberRange{0, 0.999999});
  visit("epsilon", f.train.epsilon, NumberRange{kTiny, 1});
  visit("weight_decay", f.train.weight_decay, NumberRange{0, 1});
  visit("batch", f.train.batch, IntegerRange{1, 65536});
  visit("schedule", f.train.schedule, kScheduleWords);
  visit("warmup", f.train.warmup, NumberRange{0, 1});
  visit("final_lr", f.train.final_lr, NumberRange{0, 1});
  visit("steps", f.train.steps, NumberList{train::kStepsMax, {0, 1}});
  visit("step_factor", f.train.step_factor, NumberRange{0, 1});
  visit("device", f.train.device, Text{64, true});
  visit("threads", f.train.threads, IntegerRange{1, 1024});
  visit.section("exchange");
  visit("mode", f.exchange.mode, kModeWords);
  visit("every", f.exchange.every, IntegerRange{1, 1'000'000});
  visit("density", f.exchange.density, NumberRange{1e-6, 1});
  visit("bits", f.exchange.bits, IntegerRange{2, 8});
  visit("block", f.exchange.block, IntegerRange{16, 4096});
  visit("lambda", f.exchange.lambda, NumberRange{0, 1});
  visit("start_fraction", f.exchange.start_fraction, NumberRange{0, 1});
  visit("start_factor", f.exchange.start_factor, NumberRange{1e-3, 1e3});
  visit("finish_fraction", f.exchange.finish_fraction, NumberRange{0, 1});
  visit("finish_factor", f.exchange.finish_factor, NumberRange{1e-3, 1e3});
  visit("settle_density", f.exchange.settle_density, NumberRange{1e-6, 1});
  visit("settle_drift", f.exchange.settle_drift, NumberRange{1e-6, 1});
  visit("settle_timeout", f.exchange.settle_timeout, SecondsRange{0, 3600});
  visit("grace", f.exchange.grace, SecondsRange{0, 3600});
  visit("stale", f.exchange.stale, NumberRange{0, 1});
  visit("hash_every", f.exchange.hash_every, IntegerRange{1, 1'000'000});
  visit.section("swarm");
  visit("degree", f.swarm.degree, IntegerRange{1, exchange::kLinksMax});
  visit("join", f.swarm.join, List{kJoinMax});
  visit("heartbeat", f.swarm.heartbeat, SecondsRange{0.05, 60});
  visit("wait_for", f.swarm.wait_for, IntegerRange{0, exchange::kLinksMax});
  visit("wait_timeout", f.swarm.wait_timeout, SecondsRange{0, 3600});
  visit("peers", f.peers, IntegerRange{0, 65536});
  visit.section("security");
  visit("mode", f.security, kSecurityWords);
  visit.section("checkpoint");
  visit("every", f.checkpoint.every, SecondsRange{0, 1e6});
  visit("keep", f.checkpoint.keep, IntegerRange{1, 1000});
  visit.section("report");
  visit("every", f.report.every, NumberRange{0, 1e6});
  visit("samples", f.report.samples, IntegerRange{0, 100'000'000});
  visit.section("limits");
  visit("link_memory", f.limits.link_memory,
        IntegerRange{std::uint64_t{1} << 20, std::uint64_t{1} << 34});
  visit("steps_per_second", f.limits.steps_per_second, NumberRange{0, 1e6});
}

}  // namespace starling::peer
