// Every key of a run file, once: the reader, the writer and the search for unknown keys all go
// through this list.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/enum_names.hpp"
#include "membership/limits.hpp"
#include "peer/run_file.hpp"
#include "reach/limits.hpp"

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

/// A path, or a list of several.
struct Paths {
  std::size_t max;
};

/// Part of a tensor's name: words of letters, digits, '_' and '-' with dots between them, or empty.
struct TensorName {};

/// A list of layers.
struct Layers {};

/// Lists of layers by name.
struct Blocks {};

/// A key that is there only with some values of others: with `what`.
template <class Rule>
struct Only {
  bool applies;
  std::string_view what;
  Rule rule;
};

/// A key that has an effect only with some values of the key `by`: with `what`. Elsewhere it may be
/// given the value that it has by default, which earlier versions wrote, but no other one; and
/// where an override says `by`, what the file says for another value of that is passed over.
template <class Rule>
struct Used {
  bool applies;
  std::string_view by;  ///< "section.key"
  std::string_view what;
  Rule rule;
};

/// Passes keys on as such that are there only with some values of others: with `what`.
template <class Visitor>
struct OnlyWith {
  bool applies;
  std::string_view what;
  Visitor& visit;

  void section(const char* name) { visit.section(name); }
  template <class Field, class Rule>
  void operator()(const char* key, Field& field, const Rule& rule) {
    visit(key, field, Only<Rule>{applies, what, rule});
  }
};

// Names of what a key may be.
inline constexpr base::EnumNames<model::GptStyle, 2> kGptStyleNames{{
    {"gpt2", model::GptStyle::gpt2},
    {"llama", model::GptStyle::llama},
}};
inline constexpr base::EnumNames<compute::LossKind, 2> kLossNames{{
    {"cross_entropy", compute::LossKind::cross_entropy},
    {"mean_squared", compute::LossKind::mean_squared},
}};
inline constexpr base::EnumNames<data::Split, 4> kSplitNames{{
    {"iid", data::Split::iid},
    {"stratified", data::Split::stratified},
    {"dirichlet", data::Split::dirichlet},
    {"private", data::Split::private_data},
}};
inline constexpr base::EnumNames<train::Optimizer, 3> kOptimizerNames{{
    {"sgd", train::Optimizer::sgd},
    {"adamw", train::Optimizer::adamw},
    {"muon", train::Optimizer::muon},
}};
inline constexpr base::EnumNames<train::Schedule, 4> kScheduleNames{{
    {"constant", train::Schedule::constant},
    {"cosine", train::Schedule::cosine},
    {"linear", train::Schedule::linear},
    {"step", train::Schedule::step},
}};
inline constexpr base::EnumNames<compute::Precision, 2> kPrecisionNames{{
    {"float32", compute::Precision::float32},
    {"bf16", compute::Precision::bfloat16},
}};
inline constexpr base::EnumNames<exchange::MirrorType, 2> kMirrorNames{{
    {"float32", exchange::MirrorType::float32},
    {"bf16", exchange::MirrorType::bfloat16},
}};

inline constexpr base::EnumNames<Security, 2> kSecurityNames{{
    {"off", Security::off},
    {"tls", Security::tls},
}};

/// Whether a kind of layer has a key.
enum class Presence { none, optional, required };

/// Calls visit(key, field, presence, rule) for all keys that layers have beside "type", in the
/// order they are written. `Layer` is LayerSpec or const LayerSpec.
template <class Layer, class Visitor>
void visit_layer_keys(Layer& l, Visitor&& visit) {
  using enum model::LayerKind;
  using enum Presence;
  const auto one_of = [&](auto... kinds) { return ((l.kind == kinds) || ...); };
  const auto must = [&](auto... kinds) { return one_of(kinds...) ? required : none; };
  const auto may = [&](auto... kinds) { return one_of(kinds...) ? optional : none; };
  constexpr IntegerRange kSide{1, compute::kSideMax};
  constexpr IntegerRange kSideOrZero{0, compute::kSideMax};
  visit("block", l.block, must(block), Text{model::kNameMax, true});
  visit("repeat", l.repeat, may(block), IntegerRange{1, compute::kOpsMax});
  visit("name", l.name, optional, TensorName{});
  visit("out", l.out, must(conv2d, linear, embedding), kSide);
  visit("kernel", l.kernel, must(conv2d, max_pool2d, avg_pool2d), kSide);
  // 0 stands for a pool's default alone: its kernel.
  visit("stride", l.stride, may(conv2d, max_pool2d, avg_pool2d),
        l.kind == conv2d ? kSide : kSideOrZero);
  visit("padding", l.padding, may(conv2d, max_pool2d), kSideOrZero);
  visit("dilation", l.dilation, may(conv2d), kSide);
  visit("groups", l.groups, may(conv2d), kSide);
  visit("heads", l.heads, must(attention), kSide);
  visit("kv_heads", l.kv_heads, may(attention), kSideOrZero);
  visit("rotary", l.rotary, may(attention), NumberRange{0, 1e9});
  visit("rate", l.rate, must(dropout), NumberRange{0, 0.999});
  visit("bias", l.bias, may(conv2d, linear, layer_norm), Flag{});
  visit("epsilon", l.epsilon, may(batch_norm, layer_norm, rms_norm), NumberRange{1e-12, 1});
  visit("momentum", l.momentum, may(batch_norm), NumberRange{0, 1});
  visit("initial_std", l.initial_std, may(conv2d, linear, embedding, positions),
        NumberRange{0, 100});
  visit("layers", l.layers, must(residual), Layers{});
  visit("shortcut", l.shortcut, may(residual), Layers{});
}

/// The keys of [model], as visit_keys.
template <class Spec, class Visitor>
void visit_model_keys(Spec& m, Visitor&& visit) {
  constexpr IntegerRange kSideOrZero{0, 1 << 16};
  constexpr IntegerRange kSide{1, 1 << 16};
  visit.section("model");
  visit("preset", m.preset, model::kPresetNames);  // says which of the others there are
  const bool layered = m.preset == model::Preset::none;
  const bool mlp = m.preset == model::Preset::mlp;
  const bool gpt = m.preset == model::Preset::gpt;
  const auto of_gpt = [&](auto rule) { return Only<decltype(rule)>{gpt, "preset gpt", rule}; };
  visit("input", m.input, Only<List>{!gpt, "any model but gpt, which has 'context'", List{3}});
  visit("widths", m.sizes.widths, Only<List>{mlp, "preset mlp", List{64}});
  visit("width", m.sizes.width,
        Only<IntegerRange>{!layered && !mlp, "presets other than mlp", kSideOrZero});
  visit("style", m.sizes.style, of_gpt(kGptStyleNames));
  visit("depth", m.sizes.depth, of_gpt(IntegerRange{1, 256}));
  visit("heads", m.sizes.heads, of_gpt(kSide));
  visit("kv_heads", m.sizes.kv_heads, of_gpt(kSideOrZero));
  visit("mlp_width", m.sizes.mlp_width, of_gpt(kSideOrZero));
  visit("context", m.sizes.context, of_gpt(kSide));
  visit("vocabulary", m.sizes.vocabulary, of_gpt(IntegerRange{0, compute::kClassesMax}));
  visit("dropout", m.sizes.dropout, of_gpt(NumberRange{0, 0.999}));
  visit("tied", m.sizes.tied, of_gpt(Flag{}));
  visit("loss", m.loss, kLossNames);
  visit("label_smoothing", m.label_smoothing,
        Only<NumberRange>{m.loss == compute::LossKind::cross_entropy, "loss cross_entropy",
                          NumberRange{0, 0.999}});
  visit("layers", m.layers, Only<Layers>{layered, "a model without preset", {}});
  visit("blocks", m.blocks, Only<Blocks>{layered, "a model without preset", {}});
}

/// The keys of [data], as visit_keys. `own`: visits those that are for Starling's own trainer.
template <class Data, class Visitor, class Own>
void visit_data_keys(Data& d, Visitor&& visit, Own&& own) {
  visit.section("data");
  own("source", d.source, Text{64, true});
  own("path", d.path, Paths{data::kPathsMax});
  own("test_path", d.test_path, Paths{data::kPathsMax});
  own("test_fraction", d.test_fraction, NumberRange{0.0001, 0.9});
  own("classes", d.classes, IntegerRange{0, compute::kClassesMax});
  own("vocabulary", d.vocabulary, Text{4096, false});
  own("split", d.split, kSplitNames);
  own("alpha", d.alpha, NumberRange{1e-3, 1e6});
  visit("shards", d.shards, IntegerRange{1, data::kShardsMax});
  own("crop", d.augmentation.crop, IntegerRange{0, data::kCropMax});
  own("flip", d.augmentation.flip, Flag{});
}

/// The keys of [train], likewise.
template <class Train, class Visitor, class Own>
void visit_train_keys(Train& t, Visitor&& visit, Own&& own) {
  constexpr double kTiny = 1e-12;
  visit.section("train");
  own("optimizer", t.optimizer, kOptimizerNames);  // says which of the others have an effect
  const bool sgd = t.optimizer == train::Optimizer::sgd;
  const bool adamw = t.optimizer == train::Optimizer::adamw;
  constexpr std::string_view kBy = "train.optimizer";
  const auto of_muon = [&](auto rule) {
    return Used<decltype(rule)>{!sgd && !adamw, kBy, "optimizer muon", rule};
  };
  const auto of_momentum = [&](auto rule) {
    return Used<decltype(rule)>{!adamw, kBy, "optimizers sgd and muon", rule};
  };
  const auto of_adamw = [&](auto rule) {
    return Used<decltype(rule)>{!sgd, kBy, "optimizers adamw and muon", rule};
  };
  visit("lr", t.lr, NumberRange{kTiny, 100});
  own("adam_lr", t.adam_lr, of_muon(NumberRange{kTiny, 100}));
  own("momentum", t.momentum, of_momentum(NumberRange{0, 0.9999}));
  own("nesterov", t.nesterov, of_momentum(Flag{}));
  own("beta1", t.beta1, of_adamw(NumberRange{0, 0.9999}));
  own("beta2", t.beta2, of_adamw(NumberRange{0, 0.999999}));
  own("epsilon", t.epsilon, of_adamw(NumberRange{kTiny, 1}));
  own("weight_decay", t.weight_decay, NumberRange{0, 1});
  own("clip", t.clip, NumberRange{0, 1e6});
  visit("batch", t.batch, IntegerRange{1, 65536});
  visit("batch_min", t.batch_min, IntegerRange{0, 65536});
  own("accumulate", t.accumulate, IntegerRange{1, 65536});
  visit("schedule", t.schedule, kScheduleNames);
  visit("warmup", t.warmup, NumberRange{0, 1});
  visit("final_lr", t.final_lr, NumberRange{0, 1});
  visit("steps", t.steps, NumberList{train::kStepsMax, {0, 1}});
  visit("step_factor", t.step_factor, NumberRange{0, 1});
  own("device", t.device, Text{64, false});
  own("threads", t.threads, IntegerRange{1, 1024});
  own("precision", t.precision, kPrecisionNames);
}

/// Calls visit.section(name) and visit(key, field, rule) for all keys in the order they are
/// written. `Run` is RunFile or const RunFile.
template <class Run, class Visitor>
void visit_keys(Run& f, Visitor&& visit) {
  constexpr std::uint64_t kInt = std::numeric_limits<std::int64_t>::max();  // TOML's integers
  visit.section("run");
  visit("name", f.run.name, Text{64, true});
  visit("seed", f.run.seed, IntegerRange{0, kInt});
  visit("epochs", f.run.epochs, NumberRange{0, 1e6});
  visit("samples", f.run.samples, IntegerRange{0, kInt});
  visit("target_accuracy", f.run.target_accuracy, NumberRange{0, 1});
  OnlyWith<std::remove_reference_t<Visitor>> own{!f.embedded,
                                                 "runs that Starling's own trainer trains", visit};
  visit_model_keys(f.model, own);
  own("init", f.init, Text{4096, false});
  visit_data_keys(f.data, visit, own);
  visit_train_keys(f.train, visit, own);
  visit.section("exchange");
  visit("mode", f.exchange.mode, exchange::kModeNames);
  visit("every", f.exchange.every, IntegerRange{1, 1'000'000});
  visit("density", f.exchange.density, NumberRange{1e-6, 1});
  visit("bits", f.exchange.bits, IntegerRange{1, 8});
  visit("block", f.exchange.block, IntegerRange{exchange::kBlockMin, 4096});
  visit("lambda", f.exchange.lambda, NumberRange{0, 1});
  visit("momentum", f.exchange.momentum, NumberRange{0, 0.999});
  visit("momentum_gain", f.exchange.momentum_gain, NumberRange{0.01, 3});
  visit("mirror", f.exchange.mirror, kMirrorNames);
  visit("gamma", f.exchange.gamma, NumberRange{1e-6, 1});
  visit("outer_lr", f.exchange.outer_lr, NumberRange{1e-6, 10});
  visit("outer_momentum", f.exchange.outer_momentum, NumberRange{0, 0.999});
  visit("finish_fraction", f.exchange.finish_fraction, NumberRange{0, 1});
  visit("finish_factor", f.exchange.finish_factor, NumberRange{1e-3, 1e3});
  visit("settle_density", f.exchange.settle_density, NumberRange{1e-6, 1});
  visit("settle_drift", f.exchange.settle_drift, NumberRange{1e-6, 1});
  visit("settle_timeout", f.exchange.settle_timeout, SecondsRange{0, 3600});
  visit("grace", f.exchange.grace, SecondsRange{0, 3600});
  visit("hash_every", f.exchange.hash_every, IntegerRange{1, 1'000'000});
  visit("buffers_every", f.exchange.buffers_every, IntegerRange{1, 1'000'000});
  visit("upload_limit", f.exchange.upload_limit, NumberRange{0, 1e6});
  visit("cpu_share", f.exchange.cpu_share, NumberRange{0, 1});
  visit.section("swarm");
  visit("degree", f.swarm.degree, IntegerRange{1, membership::kDegreeMax});
  visit("join", f.swarm.join, List{membership::kJoinMax});
  visit("heartbeat", f.swarm.heartbeat, SecondsRange{0.05, 60});
  visit("wait_for", f.swarm.wait_for, IntegerRange{0, exchange::kLinksMax});
  visit("wait_timeout", f.swarm.wait_timeout, SecondsRange{0, 3600});
  visit("peers", f.peers, IntegerRange{0, 65536});
  visit("hub", f.swarm.hub, Text{64, false});
  visit.section("security");
  visit("mode", f.security, kSecurityNames);
  visit("secret", f.secret, Text{4096, false});
  visit.section("links");
  visit("fabric", f.links.fabric, Text{64, true});
  visit("fabric_ports", f.links.fabric_ports, Text{16, false});
  visit.section("checkpoint");
  visit("every", f.checkpoint.every, SecondsRange{0, 1e6});
  visit("keep", f.checkpoint.keep, IntegerRange{1, 1000});
  visit.section("report");
  visit("every", f.report.every, NumberRange{0, 1e6});
  visit("samples", f.report.samples, IntegerRange{0, 100'000'000});
  visit.section("relay");
  visit("circuits", f.relay.circuits, IntegerRange{0, reach::kCircuitsMax});
  visit("limit", f.relay.limit, NumberRange{0, reach::kRelayLimitMax});
  visit.section("limits");
  visit("link_memory", f.limits.link_memory,
        IntegerRange{std::uint64_t{1} << 20, std::uint64_t{1} << 34});
  visit("steps_per_second", f.limits.steps_per_second, NumberRange{0, 1e6});
}

}  // namespace starling::peer
