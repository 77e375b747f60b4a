#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "model/presets.hpp"
#include "runfile/keys.hpp"
#include "runfile/run_file.hpp"
#include "runfile/to_toml.hpp"
#include "wire/messages.hpp"

namespace starling::runfile {
namespace {

/// Writes every key as TOML.
class Writer {
 public:
  void section(const char* name) { out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name); }

  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Rule& rule, const char* /*help*/) {
    out += fmt::format("{} = {}\n", key, to_toml(field, rule));
  }
  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Only<Rule>& only, const char* help) {
    if (only.applies) (*this)(key, field, only.rule, help);
  }
  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Used<Rule>& used, const char* help) {
    if (used.applies) (*this)(key, field, used.rule, help);
  }
  void operator()(const char* key, const decltype(model::Spec::blocks)& field, const Blocks&,
                  const char* /*help*/) {
    for (const auto& [name, layers] : field) {
      out += fmt::format("{}.{} = {}\n", key, name, to_toml(layers, Layers{}));
    }
  }

  std::string out;
};

// --- the canonical form ---

/// Without what makes no difference: names, and defaults that are written out.
model::LayerSpec normalised(model::LayerSpec layer) {
  layer.name.reset();
  const std::uint32_t stride = layer.kind == model::LayerKind::conv2d ? 1 : layer.kernel;
  if (layer.stride == stride) layer.stride = 0;
  if (layer.kv_heads == layer.heads) layer.kv_heads = 0;
  return layer;
}

/// Collects the lines of a section, but for some keys.
class SectionLines {
 public:
  explicit SectionLines(std::map<std::string, std::string>& lines,
                        std::span<const std::string_view> without = {})
      : lines_(lines), without_(without) {}

  void section(const char* name) { section_ = name; }
  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Rule& rule, const char* /*help*/) {
    if (std::ranges::find(without_, key) != without_.end()) return;
    add(fmt::format("{}.{}", section_, key), field, rule);
  }

 private:
  template <class Field, class Rule>
  void add(const std::string& key, const Field& field, const Rule& rule) {
    lines_[key] = to_toml(field, rule);
  }
  template <class Field, class Rule>
  void add(const std::string& key, const Field& field, const Only<Rule>& only) {
    if (only.applies) add(key, field, only.rule);
  }
  template <class Field, class Rule>
  void add(const std::string& key, const Field& field, const Used<Rule>& used) {
    if (used.applies) add(key, field, used.rule);
  }
  void add(const std::string& key, const std::vector<model::LayerSpec>& field, const Layers&) {
    for (std::size_t i = 0; i < field.size(); ++i) {
      const std::string place = fmt::format("{}[{:04}]", key, i);
      model::LayerSpec layer = normalised(field[i]);
      add(place + ".layers", layer.layers, Layers{});
      add(place + ".shortcut", layer.shortcut, Layers{});
      layer.layers.clear();  // they have lines of their own
      layer.shortcut.clear();
      std::string text(model::name_of(layer.kind));
      for (const KeyText& k : keys_of(layer)) text += fmt::format(" {}={}", k.key, k.text);
      lines_[place] = text;
    }
  }
  void add(const std::string& key, const decltype(model::Spec::blocks)& field, const Blocks&) {
    for (const auto& [name, layers] : field) add(fmt::format("{}.{}", key, name), layers, Layers{});
  }

  std::map<std::string, std::string>& lines_;
  std::span<const std::string_view> without_;
  std::string section_;
};

/// Of [train], what each peer of a ring may choose for itself: how it comes to its gradient.
constexpr std::array<std::string_view, 4> kOwnInARing{"accumulate", "device", "threads",
                                                      "precision"};

/// The lines of a ring, whose peers make as many steps and end at the same one. In an all-reduce
/// each takes the step itself, so all that decides it is alike; in local training that is its own.
void add_ring(const RunFile& f, std::map<std::string, std::string>& lines) {
  lines["exchange.ring_version"] = fmt::format("{}", kRingVersion);
  lines["swarm.peers"] = fmt::format("{}", f.peers);
  if (f.exchange.mode == exchange::Mode::allreduce) {
    SectionLines all(lines, kOwnInARing);
    visit_train_keys(f.train, all, all);
    // As version 0.1 has them, so that its runs go on.
    lines["train.decay_all"] = "false";
    lines["train.slow_every"] = "0";
    lines["train.slow_momentum"] = "0.5";
  } else {
    lines["train.batch"] = fmt::format("{}", f.train.batch);  // all count on as many samples
  }
  if (f.run.target_accuracy == 0) return;
  // Whether a replica is good enough, all must find out at the same step and by the same numbers.
  lines["run.target_accuracy"] = fmt::format("{}", f.run.target_accuracy);
  lines["report.every"] = fmt::format("{}", f.report.every);
  lines["report.samples"] = fmt::format("{}", f.report.samples);
  lines["train.precision"] = base::name_of(f.train.precision, kPrecisionNames);
}

/// The lines of what Starling's own trainer trains.
void add_training(const RunFile& f, std::map<std::string, std::string>& lines) {
  if (f.data.split != data::Split::private_data) lines["data.source"] = f.data.source;
  if (f.data.classes != 0) lines["data.classes"] = fmt::format("{}", f.data.classes);
  lines["data.split"] = base::name_of(f.data.split, kSplitNames);
  if (f.data.split == data::Split::dirichlet) lines["data.alpha"] = fmt::format("{}", f.data.alpha);
  model::Spec spec = f.model;
  spec.sizes = model::resolved(spec.preset, spec.sizes);
  visit_model_keys(std::as_const(spec), SectionLines(lines));
  lines["train.optimizer"] = base::name_of(f.train.optimizer, kOptimizerNames);
}

/// The lines of a canonical form by key. What is not "key = value" goes by its whole text.
std::map<std::string, std::string> lines_of(std::string_view canonical) {
  std::map<std::string, std::string> lines;
  while (!canonical.empty()) {
    const auto end = std::min(canonical.find('\n'), canonical.size());
    const std::string_view line = canonical.substr(0, end);
    canonical.remove_prefix(std::min(end + 1, canonical.size()));
    if (line.empty()) continue;
    const auto equals = line.find(" = ");
    if (equals == std::string_view::npos) {
      lines.emplace(line, "");
    } else {
      lines.emplace(line.substr(0, equals), line.substr(equals + 3));
    }
  }
  return lines;
}

}  // namespace

std::string to_toml(const RunFile& run_file) {
  Writer writer;
  visit_keys(run_file, writer);
  return std::move(writer.out);
}

std::uint64_t target_samples(const RunFile& run_file, std::uint64_t training_set) {
  if (run_file.run.samples != 0) return run_file.run.samples;
  const double samples = run_file.run.epochs * static_cast<double>(training_set);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(samples)));
}

std::string canonical(const RunFile& f, const Identity& identity) {
  std::map<std::string, std::string> lines;
  lines["data.identity"] = identity.dataset.hex();
  lines["run.seed"] = fmt::format("{}", f.run.seed);
  if (f.data.split != data::Split::private_data) {
    lines["data.shards"] = fmt::format("{}", f.data.shards);
  }
  lines["exchange.mode"] = base::name_of(f.exchange.mode, exchange::kModeNames);
  if (f.exchange.mode == exchange::Mode::choco) {
    lines["exchange.gamma"] = fmt::format("{}", f.exchange.gamma);
  }
  if (f.exchange.mode == exchange::Mode::local) {
    lines["exchange.every"] = fmt::format("{}", f.exchange.every);
    lines["exchange.outer_lr"] = fmt::format("{}", f.exchange.outer_lr);
    lines["exchange.outer_momentum"] = fmt::format("{}", f.exchange.outer_momentum);
  }
  if (exchange::has_momentum(f.exchange)) {
    lines["exchange.momentum"] = fmt::format("{}", f.exchange.momentum);
    lines["exchange.momentum_gain"] = fmt::format("{}", f.exchange.momentum_gain);
  }
  if (exchange::uses_links(f.exchange.mode) && f.exchange.mirror != delta::MirrorType::float32) {
    lines["exchange.mirror"] = base::name_of(f.exchange.mirror, kMirrorNames);
  }
  if (exchange::uses_links(f.exchange.mode) &&
      f.exchange.weight != exchange::WeightRule::automatic) {
    lines["swarm.weight"] = base::name_of(f.exchange.weight, exchange::kWeightRuleNames);
  }
  lines["exchange.version"] = fmt::format("{}", kExchangeVersion);
  lines["model.parameters"] = fmt::format("{:016x}", identity.parameters);
  if (identity.init) lines["model.init"] = identity.init->hex();
  if (identity.buffers) lines["model.buffers"] = fmt::format("{:016x}", *identity.buffers);
  if (f.run.samples != 0) lines["run.samples"] = fmt::format("{}", f.run.samples);
  if (f.run.samples == 0) lines["run.epochs"] = fmt::format("{}", f.run.epochs);
  if (exchange::uses_ring(f.exchange.mode)) add_ring(f, lines);
  if (f.embedded) {
    lines["run.trainer"] = "another program";
  } else {
    add_training(f, lines);
  }
  std::string text;
  for (const auto& [key, value] : lines) text += fmt::format("{} = {}\n", key, value);
  return text;
}

base::Hash128 run_id(std::string_view canonical) { return base::xxh3_128(canonical); }

std::string diff(std::string_view here, std::string_view there) {
  // A refusal has room for so much: what lies behind it is not missing there.
  const bool cut = there.size() >= wire::kCanonicalMax;
  if (cut) there = there.substr(0, there.rfind('\n') + 1);
  auto ours = lines_of(here);
  const auto theirs = lines_of(there);
  const std::string last = cut && !theirs.empty() ? theirs.rbegin()->first : "";
  if (cut) ours.erase(ours.upper_bound(last), ours.end());
  std::map<std::string, std::pair<std::string, std::string>> lines;
  const std::string nothing = "nothing";
  for (const auto& [key, value] : ours) lines[key] = {value, nothing};
  for (const auto& [key, value] : theirs) {
    lines.try_emplace(key, nothing, nothing).first->second.second = value;
  }
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, values] : lines) {
    if (values.first == values.second) continue;
    if (++count > kDiffLinesMax) return text + "and more\n";
    const auto shown = [](std::string_view part) { return base::printable(part, kDiffTextMax); };
    text += fmt::format("{}: {} here, {} there\n", shown(key), shown(values.first),
                        shown(values.second));
  }
  if (cut) {
    text += last.empty() ? "the rest was cut off on its way\n"
                         : fmt::format("what comes behind {} was cut off on its way\n",
                                       base::printable(last, kDiffTextMax));
  }
  return text;
}

}  // namespace starling::runfile
