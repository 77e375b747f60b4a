#include "runfile/reference.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/presets.hpp"
#include "runfile/keys.hpp"
#include "runfile/to_toml.hpp"

namespace starling::runfile {
namespace {

/// A key with one of the values that it may have by default.
struct Entry {
  std::string section;
  std::string key;
  std::string help;
  std::string allowed;
  std::string value;    ///< as TOML; empty: none
  std::string only;     ///< what it is only for; empty: any run
  bool applies = true;  ///< to the run file that it was taken from
  bool own = false;     ///< for Starling's own trainer alone
};

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

// --- what a rule allows, in words ---

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string bound(double number) {
  const bool whole =
      number >= 1 && number == static_cast<double>(static_cast<std::uint64_t>(number));
  return whole ? grouped(static_cast<std::uint64_t>(number)) : fmt::format("{}", number);
}

template <class Field>
std::string allowed(const IntegerRange& range) {
  if (range.max == std::numeric_limits<std::int64_t>::max()) {
    return fmt::format("whole number from {}", range.min);
  }
  return fmt::format("whole number, {} to {}", grouped(range.min), grouped(range.max));
}
template <class Field>
std::string allowed(const NumberRange& range) {
  return fmt::format("{} to {}", bound(range.min), bound(range.max));
}
template <class Field>
std::string allowed(const SecondsRange& range) {
  return fmt::format("{} to {} s", bound(range.min), bound(range.max));
}
template <class Field>
std::string allowed(const Text& rule) {
  return rule.name ? "letters, digits, `.`, `_` and `-`" : "text";
}
template <class Field>
std::string allowed(const Flag&) {
  return "`true`, `false`";
}
template <class Field>
std::string allowed(const List& rule) {
  const bool texts = std::is_same_v<Field, std::vector<std::string>>;
  return fmt::format("list of up to {} {}", rule.max, texts ? "texts" : "whole numbers from 1");
}
template <class Field>
std::string allowed(const NumberList& rule) {
  return fmt::format("list of up to {} numbers, {}", rule.max, allowed<double>(rule.each));
}
template <class Field>
std::string allowed(const Paths&) {
  return "path, or list of paths";
}
template <class Field>
std::string allowed(const TensorName&) {
  return "letters, digits, `_` and `-`, with single dots between them";
}
template <class Field>
std::string allowed(const Layers&) {
  return "list of layers";
}
template <class Field>
std::string allowed(const Blocks&) {
  return "table of lists of layers";
}
template <class Field, class Enum, std::size_t N>
std::string allowed(const base::EnumNames<Enum, N>& names) {
  std::vector<std::string> values;
  for (const std::string_view name : base::all_names(names)) values.push_back(code(quoted(name)));
  return fmt::format("{}", fmt::join(values, ", "));
}

// --- the default ---

template <class Field, class Rule>
std::string default_of(const Field& field, const Rule& rule) {
  return to_toml(field, rule);
}
/// A value outside its own range stands for one that is not given.
template <class Field>
std::string default_of(const Field& field, const IntegerRange& range) {
  const auto number = static_cast<std::uint64_t>(field);
  return number < range.min || number > range.max ? "" : to_toml(field, range);
}
std::string default_of(const std::vector<model::LayerSpec>& field, const Layers& rule) {
  return field.empty() ? "[]" : to_toml(field, rule);
}
std::string default_of(const decltype(model::Spec::blocks)&, const Blocks&) { return ""; }

/// Collects all keys of a run file.
class Collector {
 public:
  void section(const char* name) { section_ = name; }
  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Rule& rule, const char* help) {
    Entry entry{.section = section_, .key = key, .help = help};
    describe(entry, field, rule);
    entries.push_back(std::move(entry));
  }

  std::vector<Entry> entries;

 private:
  template <class Field, class Rule>
  static void describe(Entry& entry, const Field& field, const Rule& rule) {
    entry.allowed = allowed<Field>(rule);
    entry.value = default_of(field, rule);
  }
  template <class Field, class Rule>
  static void describe(Entry& entry, const Field& field, const Only<Rule>& only) {
    describe(entry, field, only.rule);
    entry.applies &= only.applies;
    if (only.what == kOwnTrainer) {
      entry.own = true;
    } else {
      entry.only = only.what;
    }
  }
  template <class Field, class Rule>
  static void describe(Entry& entry, const Field& field, const Used<Rule>& used) {
    describe(entry, field, used.rule);
    entry.applies &= used.applies;
    entry.only = used.what;
  }

  std::string section_;
};

std::vector<Entry> entries_of(const RunFile& run_file) {
  Collector collector;
  visit_keys(run_file, collector);
  return std::move(collector.entries);
}

/// The keys of run files that say nothing but one key, once for each of its values.
struct Variants {
  std::string_view key;
  std::vector<std::string_view> names;
  std::vector<std::vector<Entry>> entries;  ///< for each name all keys, in the same order

  void add(std::string_view name, const RunFile& run_file) {
    names.push_back(name);
    entries.push_back(entries_of(run_file));
  }
};

Variants by_optimizer() {
  Variants variants{.key = "optimizer", .names = {}, .entries = {}};
  for (const auto& [name, optimizer] : kOptimizerNames) {
    RunFile run_file;
    run_file.train = train::defaults(optimizer);
    variants.add(name, run_file);
  }
  return variants;
}

/// A preset's width is its own; the other sizes are told as they are written.
Variants by_preset() {
  Variants variants{.key = "preset", .names = {}, .entries = {}};
  for (const auto& [name, preset] : model::kPresetNames) {
    RunFile run_file;
    run_file.model.preset = preset;
    run_file.model.sizes.width = model::resolved(preset, run_file.model.sizes).width;
    variants.add(name, run_file);
  }
  return variants;
}

/// The default of key number `i`: one for all variants, or "sgd 0.05, adamw 0.001". Empty: none of
/// them has the key.
std::string default_among(const Variants& variants, std::size_t i) {
  std::vector<std::string> each;
  bool same = true;
  const std::string* first = nullptr;
  for (std::size_t v = 0; v < variants.names.size(); ++v) {
    const Entry& entry = variants.entries[v][i];
    if (!entry.applies) continue;
    if (first == nullptr) first = &entry.value;
    same &= entry.value == *first;
    each.push_back(fmt::format("{} {}", variants.names[v], code(entry.value)));
  }
  if (first == nullptr || first->empty()) return "";
  return same ? code(*first) : fmt::format("{}", fmt::join(each, ", "));
}

/// All keys, each with its default in words.
std::vector<Entry> all_entries() {
  const Variants optimizers = by_optimizer();
  const Variants presets = by_preset();
  std::vector<Entry> entries = optimizers.entries.front();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    if (entry.key == optimizers.key || entry.key == presets.key) {
      entry.value = code(entry.value);  // and what the others' depend on
    } else {
      const bool trains = entry.section == "train";
      entry.value = default_among(trains ? optimizers : presets, i);
    }
  }
  return entries;
}

// --- the tables ---

constexpr std::string_view kTableHead =
    "| key | meaning | allowed | default |\n|---|---|---|---|\n";

std::string row(const Entry& entry) {
  const std::string only = entry.only.empty() ? "" : fmt::format(" Only for {}.", entry.only);
  return fmt::format("| {} | {}{} | {} | {} |\n", code(entry.key), entry.help, only, entry.allowed,
                     entry.value.empty() ? "none" : entry.value);
}

/// Which keys of a section a program that embeds a peer has, where it has not all of them.
std::string about_embedding(std::span<const Entry> section) {
  if (std::ranges::none_of(section, &Entry::own)) return "";
  std::vector<std::string> keys;
  for (const Entry& entry : section) {
    if (!entry.own) keys.push_back(code(entry.key));
  }
  return fmt::format("\nA program that embeds a peer has {} of these keys.\n",
                     keys.empty() ? "none" : fmt::format("only {}", fmt::join(keys, ", ")));
}

std::string section_text(std::span<const Entry> section) {
  std::string text = fmt::format("## [{}]\n\n{}", section.front().section, kTableHead);
  for (const Entry& entry : section) text += row(entry);
  return text + about_embedding(section) + "\n";
}

// --- the keys of layers ---

/// A key of layers, and the types that have it.
struct LayerKey {
  Entry entry;
  std::vector<std::string> types;
  bool required = false;
};

/// Adds the keys of one kind of layer to those that are known. Every kind has them in one order.
void add_layer(std::vector<LayerKey>& keys, model::LayerKind kind) {
  std::size_t i = 0;
  const model::LayerSpec layer{.kind = kind};
  visit_layer_keys(layer, [&](const char* name, const auto& field, Presence presence,
                              const auto& rule, const char* help) {
    if (i == keys.size()) keys.push_back({.entry = {.key = name, .help = help}, .types = {}});
    LayerKey& key = keys[i++];
    if (presence == Presence::none) return;
    if (key.types.empty()) {
      key.entry.allowed = allowed<std::remove_cvref_t<decltype(field)>>(rule);
      key.entry.value = default_of(field, rule);
      key.required = presence == Presence::required;
    }
    key.types.push_back(kind == model::LayerKind::block ? "blocks" : code(model::name_of(kind)));
  });
}

std::string layers_text() {
  std::vector<LayerKey> keys;
  for (const auto& [name, kind] : model::kLayerNames) add_layer(keys, kind);
  add_layer(keys, model::LayerKind::block);
  const std::size_t all = model::kLayerNames.size() + 1;
  std::string text = fmt::format("## Layers\n\nThe values of `type`: {}.\n\n{}",
                                 allowed<int>(model::kLayerNames), kTableHead);
  for (LayerKey& key : keys) {
    Entry& entry = key.entry;
    if (key.types.size() < all) entry.only = fmt::format("{}", fmt::join(key.types, ", "));
    entry.value = key.required ? "must be given" : entry.value.empty() ? "" : code(entry.value);
    text += row(entry);
  }
  return text;
}

}  // namespace

std::string reference() {
  const std::vector<Entry> entries = all_entries();
  std::string text;
  for (auto first = entries.begin(); first != entries.end();) {
    const auto last = std::find_if(
        first, entries.end(), [&](const Entry& entry) { return entry.section != first->section; });
    text += section_text({first, last});
    first = last;
  }
  return text + layers_text();
}

}  // namespace starling::runfile
