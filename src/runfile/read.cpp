#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/suggest.hpp"
#include "base/utf8.hpp"
#include "ring/ring.hpp"
#include "runfile/keys.hpp"
#include "runfile/removed_keys.hpp"
#include "runfile/run_file.hpp"
#include "runfile/together.hpp"
#include "runfile/toml_text.hpp"

namespace starling::runfile {
namespace {

using base::Error;
using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kSideMax = 1U << 24;  ///< of a layer
static_assert(kFixedPeersMax <= ring::kPeersMax);

/// A name or value of the file within a message.
std::string shown(std::string_view text) { return base::printable(text, base::kShownMax); }

/// "; did you mean 'x'?" for the most similar of the names, or else what there is.
template <class Names>
std::string suggestion(std::string_view wrong, const Names& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return base::suggestion(wrong, views);
}

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool is_word(std::string_view text) { return !text.empty() && std::ranges::all_of(text, in_word); }

/// The names of all sections and their keys.
class Names {
 public:
  void section(const char* name) { keys_ = &sections[name]; }
  template <class Field, class Rule>
  void operator()(const char* key, const Field&, const Rule&, const char* /*help*/) {
    keys_->emplace_back(key);
  }

  std::map<std::string, std::vector<std::string>, std::less<>> sections;

 private:
  std::vector<std::string>* keys_ = nullptr;
};

/// A parsed file with the overrides put in, and where each value comes from.
struct Document {
  toml::table table;
  std::string name;
  /// "section.key", or "[section]" that the file has not, to the override's text.
  std::map<std::string, std::string> overridden;
  /// "section.key" of overrides that are strings since they are no TOML.
  std::set<std::string> not_toml;

  /// "section.key" of a key with a part of its value after it: "model.layers[2].out".
  [[nodiscard]] static std::string whole(const std::string& key) {
    if (key.starts_with('[')) return key;
    return key.substr(0, key.find_first_of(".[", key.find('.') + 1));
  }

  /// "run.toml:12: train.lr", or "--set train.lr=x: train.lr". After the key's name may stand
  /// which part of its value is meant.
  [[nodiscard]] std::string place(const std::string& key, const toml::node* node) const {
    if (const auto at = overridden.find(whole(key)); at != overridden.end()) {
      return fmt::format("--set {}: {}", at->second, key);
    }
    if (node == nullptr || node->source().begin.line == 0) {
      return fmt::format("{}: {}", name, key);
    }
    return fmt::format("{}:{}: {}", name, node->source().begin.line, key);
  }

  /// Puts one "section.key=value" in. Error: ErrorCode::usage.
  base::Status apply_override(const std::string& text);

  [[nodiscard]] const toml::node* find(std::string_view section, std::string_view key) const {
    const toml::table* const keys = table[section].as_table();
    return keys == nullptr ? nullptr : keys->get(key);
  }
};

base::Status Document::apply_override(const std::string& text) {
  const auto equals = text.find('=');
  const auto dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 >= equals) {
    return fail(ErrorCode::usage, "--set {}: must have the form section.key=value", text);
  }
  const std::string section = text.substr(0, dot);
  const std::string key = text.substr(dot + 1, equals - dot - 1);
  if (!is_word(section) || !is_word(key)) {
    return fail(ErrorCode::usage, "--set {}: must have the form section.key=value: '{}' is no {}",
                text, is_word(section) ? key : section, is_word(section) ? "key" : "section");
  }
  const std::string value = text.substr(equals + 1);
  const std::string assignment = "value = " + value;
  if (line_of_deep_key(assignment)) {
    return fail(ErrorCode::usage, "--set {}: a key in it has more than {} parts", shown(text),
                kKeyPartsMax);
  }
  toml::table parsed;
  try {
    parsed = toml::parse(assignment);
  } catch (const toml::parse_error&) {
    parsed.clear();
  }
  const std::string full = fmt::format("{}.{}", section, key);
  not_toml.erase(full);
  // A bare word is no TOML; a text with line breaks may be more than one value.
  if (parsed.size() != 1 || !parsed.contains("value")) {
    parsed.clear();
    parsed.insert("value", value);
    // A text that begins like a number, a list, a table or a string was meant to be one.
    if (value.find_first_of("0123456789+-.[{\"'") == 0) not_toml.insert(full);
  }
  toml::table* keys = table[section].as_table();
  if (keys == nullptr) {
    if (table.contains(section)) return {};  // not a section: check_names says so
    table.insert(section, toml::table{});
    overridden[fmt::format("[{}]", section)] = text;
    keys = table[section].as_table();
  }
  if (full == "run.epochs") keys->erase("samples");
  if (full == "run.samples") keys->erase("epochs");
  if (full == "model.preset") {
    keys->erase("layers");
    keys->erase("blocks");
  }
  keys->insert_or_assign(key, std::move(*parsed.get("value")));
  overridden[full] = base::is_utf8(text) ? text : base::printable(text, text.size());
  return {};
}

/// Fills the fields of a RunFile from a document. Keeps the first error.
class Reader {
 public:
  explicit Reader(const Document& document) : document_(document) {}

  void section(const char* name) { section_ = name; }

  template <class Field, class Rule>
  void operator()(const char* key, Field& field, const Rule& rule, const char* /*help*/) {
    const toml::node* const node = document_.find(section_, key);
    if (node == nullptr || error) return;
    read(fmt::format("{}.{}", section_, key), *node, field, rule);
  }

  std::optional<Error> error;

 private:
  template <class... Args>
  void reject(const std::string& key, const toml::node& node, fmt::format_string<Args...> format,
              Args&&... args) {
    if (error) return;
    error =
        Error{ErrorCode::run_file, fmt::format("{}: {}", document_.place(key, &node),
                                               fmt::format(format, std::forward<Args>(args)...))};
  }

  /// "a string", or what an override is that was to be something else.
  [[nodiscard]] std::string type_name(const std::string& key, const toml::node& node) const {
    return document_.not_toml.contains(key) ? "not valid TOML" : runfile::type_name(node);
  }

  template <class Number>
  void read(const std::string& key, const toml::node& node, Number& field,
            const IntegerRange& range) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value) {
      return reject(key, node, "is {}, must be an integer from {} to {}", type_name(key, node),
                    range.min, range.max);
    }
    if (*value < 0 || static_cast<std::uint64_t>(*value) < range.min ||
        static_cast<std::uint64_t>(*value) > range.max) {
      return reject(key, node, "{} is out of range: {} to {}", *value, range.min, range.max);
    }
    field = static_cast<Number>(*value);
  }

  void read(const std::string& key, const toml::node& node, double& field,
            const NumberRange& range) {
    const auto value = number_of(node);
    if (!value) {
      return reject(key, node, "is {}, must be a number from {} to {}", type_name(key, node),
                    range.min, range.max);
    }
    if (!(*value >= range.min && *value <= range.max)) {  // NaN too
      return reject(key, node, "{} is out of range: {} to {}", *value, range.min, range.max);
    }
    field = *value;
  }

  void read(const std::string& key, const toml::node& node, bool& field, const Flag&) {
    const auto value = node.value_exact<bool>();
    if (!value) return reject(key, node, "is {}, must be true or false", type_name(key, node));
    field = *value;
  }

  void read(const std::string& key, const toml::node& node, base::Duration& field,
            const SecondsRange& range) {
    double value = 0;
    read(key, node, value, NumberRange{range.min, range.max});
    if (!error) field = base::Duration(std::llround(value * 1e9));
  }

  void read(const std::string& key, const toml::node& node, std::string& field, const Text& rule) {
    const auto value = node.value_exact<std::string>();
    if (!value) return reject(key, node, "is {}, must be a string", type_name(key, node));
    if (value->size() > rule.max) {
      return reject(key, node, "has {} characters, at most {} are allowed", value->size(),
                    rule.max);
    }
    if (rule.name &&
        (value->empty() || value->front() == '.' || !std::ranges::all_of(*value, may_be_in_name))) {
      return reject(key, node,
                    "'{}' must consist of letters, digits, '.', '_' and '-', and not begin with "
                    "a dot",
                    shown(*value));
    }
    if (value->find('\0') != std::string::npos) {
      return reject(key, node, "must not contain a zero byte");
    }
    // The text of an override, as it is.
    if (!base::is_utf8(*value)) {
      return reject(key, node, "is not valid UTF-8, and a run file can hold nothing else");
    }
    field = *value;
  }

  template <class Enum, std::size_t N>
  void read(const std::string& key, const toml::node& node, Enum& field,
            const base::EnumNames<Enum, N>& names) {
    const auto name = node.value_exact<std::string>();
    if (!name) {
      return reject(key, node, "is {}, must be one of: {}", type_name(key, node),
                    fmt::join(base::all_names(names), ", "));
    }
    if (const auto value = base::value_of(*name, names)) {
      field = *value;
    } else {
      reject(key, node, "'{}' is not known{}", shown(*name),
             suggestion(*name, base::all_names(names)));
    }
  }

  /// The array behind a node, checked for its length.
  const toml::array* array(const std::string& key, const toml::node& node, std::size_t max) {
    const toml::array* const list = node.as_array();
    if (list == nullptr) {
      reject(key, node, "is {}, must be an array", type_name(key, node));
    } else if (list->size() > max) {
      reject(key, node, "has {} elements, at most {} are allowed", list->size(), max);
      return nullptr;
    }
    return list;
  }

  template <class Value>
  void read(const std::string& key, const toml::node& node, std::vector<Value>& field,
            const List& rule) {
    const toml::array* const list = array(key, node, rule.max);
    if (list == nullptr) return;
    std::vector<Value> values(list->size());
    for (std::size_t i = 0; i < values.size() && !error; ++i) {
      if constexpr (std::is_same_v<Value, std::string>) {
        read(key, (*list)[i], values[i], Text{256, false});
      } else {
        read(key, (*list)[i], values[i], IntegerRange{1, kSideMax});
      }
    }
    if (!error) field = std::move(values);
  }

  void read(const std::string& key, const toml::node& node, std::vector<double>& field,
            const NumberList& rule) {
    const toml::array* const list = array(key, node, rule.max);
    if (list == nullptr) return;
    std::vector<double> values(list->size());
    for (std::size_t i = 0; i < values.size() && !error; ++i) {
      read(key, (*list)[i], values[i], rule.each);
    }
    if (!error) field = std::move(values);
  }

  void read(const std::string& key, const toml::node& node, std::vector<std::string>& field,
            const Paths& rule) {
    constexpr Text kPath{4096, false};
    if (node.is_array()) {
      const toml::array* const list = array(key, node, rule.max);
      if (list == nullptr) return;
      std::vector<std::string> paths(list->size());
      for (std::size_t i = 0; i < paths.size() && !error; ++i) {
        read(key, (*list)[i], paths[i], kPath);
      }
      if (!error) field = std::move(paths);
    } else if (node.is_string()) {
      std::string path;
      read(key, node, path, kPath);
      if (!error) field = path.empty() ? std::vector<std::string>{} : std::vector{path};
    } else {
      reject(key, node, "is {}, must be a string or an array of them", type_name(key, node));
    }
  }

  void read(const std::string& key, const toml::node& node, std::optional<std::string>& field,
            const TensorName&) {
    std::string name;
    read(key, node, name, Text{model::kNameMax, false});
    if (error) return;
    bool well_formed = true;
    for (std::string_view rest = name; !name.empty() && well_formed;) {
      const auto dot = rest.find('.');
      well_formed = is_word(rest.substr(0, dot));
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    if (!well_formed) {
      return reject(key, node,
                    "'{}' must consist of letters, digits, '_' and '-', with single dots between "
                    "them",
                    shown(name));
    }
    field = name;
  }

  void read(const std::string& key, const toml::node& node, std::vector<model::LayerSpec>& field,
            const Layers&) {
    const toml::array* const list = array(key, node, model::kListMax);
    if (list == nullptr) return;
    if (++depth_ > model::kDepthMax) {
      return reject(key, node, "stands within more than {} other lists", model::kDepthMax);
    }
    std::vector<model::LayerSpec> layers(list->size());
    for (std::size_t i = 0; i < layers.size() && !error; ++i) {
      read_layer(fmt::format("{}[{}]", key, i), (*list)[i], layers[i]);
    }
    --depth_;
    if (!error) field = std::move(layers);
  }

  void read(const std::string& key, const toml::node& node, decltype(model::Spec::blocks)& field,
            const Blocks&) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      return reject(key, node, "is {}, must be a table of lists of layers", type_name(key, node));
    }
    if (table->size() > model::kBlocksMax) {
      return reject(key, node, "has {} blocks, at most {} are allowed", table->size(),
                    model::kBlocksMax);
    }
    for (const auto& [name, layers] : *table) {
      const std::string full = fmt::format("{}.{}", key, shown(name.str()));
      if (!is_word(name.str()) || name.str().size() > model::kNameMax) {
        return reject(full, layers,
                      "a block's name must consist of 1 to {} letters, digits, '_' and '-'",
                      model::kNameMax);
      }
      read(full, layers, field[std::string(name.str())], Layers{});
    }
  }

  void read_layer(const std::string& key, const toml::node& node, model::LayerSpec& layer) {
    const toml::table* const table = node.as_table();
    const toml::node* const type = table == nullptr ? nullptr : table->get("type");
    if (type != nullptr) {
      read(key + ".type", *type, layer.kind, model::kLayerNames);
    } else if (table != nullptr && table->contains("block")) {
      layer.kind = model::LayerKind::block;
    } else {
      reject(key, node,
             "must be a table like {{ type = \"linear\", out = 10 }}, or {{ block = \"name\" }}");
    }
    if (error) return;
    std::vector<std::string> known{"type"};
    visit_layer_keys(
        layer, [&](const char* name, const auto&, Presence presence, const auto&, const char*) {
          if (presence != Presence::none) known.emplace_back(name);
        });
    for (const auto& [name, value] : *table) {
      if (std::ranges::find(known, name.str()) == known.end()) {
        return reject(fmt::format("{}.{}", key, shown(name.str())), value, "{} has no such key{}",
                      model::name_of(layer.kind), suggestion(name.str(), known));
      }
    }
    visit_layer_keys(layer, [&](const char* name, auto& field, Presence presence, const auto& rule,
                                const char* /*help*/) {
      if (presence == Presence::none || error) return;
      const toml::node* const value = table->get(name);
      if (value != nullptr) {
        read(fmt::format("{}.{}", key, name), *value, field, rule);
      } else if (presence == Presence::required) {
        reject(key, *table, "'{}' is missing", name);
      }
    });
  }

  template <class Field, class Rule>
  void read(const std::string& key, const toml::node& node, Field& field, const Only<Rule>& only) {
    if (!only.applies) return reject(key, node, "is only for {}", only.what);
    read(key, node, field, only.rule);
  }

  template <class Field, class Rule>
  void read(const std::string& key, const toml::node& node, Field& field, const Used<Rule>& used) {
    Field given = field;
    read(key, node, given, used.rule);
    if (error) return;
    if (used.applies) {
      field = std::move(given);
    } else if (given != field && (document_.overridden.contains(key) ||
                                  !document_.overridden.contains(std::string(used.by)))) {
      reject(key, node, "is only for {}", used.what);
    }
  }

  const Document& document_;
  std::string section_;
  std::size_t depth_ = 0;  ///< lists of layers within each other
};

/// "; did you mean 'run.epochs'?" where a section has such a key, or nothing.
std::string suggest_elsewhere(const Names& names, std::string_view key) {
  std::string text;
  for (const auto& [section, keys] : names.sections) {
    if (std::ranges::find(keys, key) == keys.end()) continue;
    text = fmt::format("; did you mean '{}.{}'?", section, key);
  }
  return text;
}

/// Whether a value of such a key asks for nothing.
bool is_default(const RemovedKey& key, const toml::node& value) {
  if (const auto flag = value.value_exact<bool>()) return key.by_default == (*flag ? 1.0 : 0.0);
  return value.value<double>() == key.by_default;
}

/// `notes`: takes the keys that are passed over; null: they are errors.
base::Status check_removed(const Document& document, const std::string& name,
                           const toml::node& value, std::vector<std::string>* notes) {
  const RemovedKey* const key = removed_key(name);
  if (is_default(*key, value)) return {};
  std::string text =
      fmt::format("{}: this key is gone: {}", document.place(name, &value), key->hint);
  if (notes == nullptr) return fail(ErrorCode::run_file, "{}", text);
  notes->push_back(std::move(text));
  return {};
}

base::Status check_names(const Document& document, std::vector<std::string>* notes) {
  Names names;
  const RunFile defaults;
  visit_keys(defaults, names);
  std::vector<std::string> sections;
  for (const auto& [section, keys] : names.sections) sections.push_back(section);
  for (const auto& [section, node] : document.table) {
    const std::string section_name(section.str());
    const auto known = names.sections.find(section_name);
    const toml::table* const table = node.as_table();
    if (known == names.sections.end() && table == nullptr) {
      return fail(ErrorCode::run_file, "{}: stands in no section{}",
                  document.place(shown(section_name), &node),
                  suggest_elsewhere(names, section_name));
    }
    if (known == names.sections.end()) {
      return fail(ErrorCode::run_file, "{}: unknown section{}",
                  document.place(fmt::format("[{}]", shown(section_name)), &node),
                  suggestion(section_name, sections));
    }
    if (table == nullptr) {
      return fail(ErrorCode::run_file, "{}: is {}, must be a section: [{}]",
                  document.place(section_name, &node), type_name(node), section_name);
    }
    for (const auto& [key, value] : *table) {
      if (std::ranges::find(known->second, key.str()) != known->second.end()) continue;
      const std::string full = fmt::format("{}.{}", section_name, shown(key.str()));
      if (removed_key(full) != nullptr) {
        if (auto status = check_removed(document, full, value, notes); !status) return status;
        continue;
      }
      const std::string elsewhere = suggest_elsewhere(names, key.str());
      return fail(ErrorCode::run_file, "{}: unknown key{}", document.place(full, &value),
                  elsewhere.empty() ? suggestion(key.str(), known->second) : elsewhere);
    }
  }
  return {};
}

/// Checks that no single key can make.
base::Status check_together(const Document& document, const RunFile& run_file) {
  const auto wrong = wrong_together(run_file);
  if (!wrong) return {};
  const toml::node* const node = document.find(wrong->section, wrong->key);
  return fail(ErrorCode::run_file, "{}: {}",
              document.place(fmt::format("{}.{}", wrong->section, wrong->key), node), wrong->text);
}

}  // namespace

bool may_be_in_name(char c) noexcept { return c == '.' || in_word(c); }

base::Result<RunFile> parse_run_file(std::string_view text, const std::string& name,
                                     std::span<const std::string> overrides, bool embedded,
                                     std::vector<std::string>* notes) {
  auto table = parse_toml(text, name, kRunFileBytesMax);
  if (!table) return fail(std::move(table.error()));
  Document document{.table = std::move(*table), .name = name, .overridden = {}, .not_toml = {}};
  for (const std::string& override : overrides) {
    if (base::Status status = document.apply_override(override); !status) {
      return fail(status.error());
    }
  }
  if (base::Status status = check_names(document, notes); !status) return fail(status.error());
  RunFile run_file;
  run_file.embedded = embedded;
  Reader reader(document);
  reader.section("train");
  reader("optimizer", run_file.train.optimizer, kOptimizerNames, "");
  run_file.train = train::defaults(run_file.train.optimizer);
  visit_keys(run_file, reader);
  if (reader.error) return fail(std::move(*reader.error));
  if (base::Status status = check_together(document, run_file); !status) {
    return fail(status.error());
  }
  if (run_file.exchange.mode == exchange::Mode::dense) exchange::send_all(run_file.exchange);
  return run_file;
}

base::Result<RunFile> read_run_file(const std::string& path, std::span<const std::string> overrides,
                                    bool embedded, std::vector<std::string>* notes) {
  const auto bytes = base::read_file(path, kRunFileBytesMax);
  if (!bytes) return fail(ErrorCode::run_file, "{}", bytes.error().text);
  return parse_run_file({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path,
                        overrides, embedded, notes);
}

}  // namespace starling::runfile
