#include "runfile/to_toml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace starling::runfile {
namespace {

/// The keys of a layer beside its type, as TOML.
std::vector<KeyText> all_keys_of(const model::LayerSpec& layer) {
  std::vector<KeyText> keys;
  visit_layer_keys(layer, [&](const char* key, const auto& field, Presence presence,
                              const auto& rule, const char* /*help*/) {
    if (presence != Presence::none) keys.push_back({key, to_toml(field, rule), presence});
  });
  return keys;
}

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_toml(double field, const NumberRange&) { return fmt::format("{}", field); }
std::string to_toml(bool field, const Flag&) { return fmt::format("{}", field); }
std::string to_toml(const std::vector<double>& field, const NumberList&) {
  return fmt::format("[{}]", fmt::join(field, ", "));
}
std::string to_toml(base::Duration field, const SecondsRange&) {
  return fmt::format("{}", base::seconds(field));
}
std::string to_toml(const std::string& field, const Text&) { return quoted(field); }
std::string to_toml(const std::vector<std::string>& field, const List&) {
  std::vector<std::string> texts;
  texts.reserve(field.size());
  for (const std::string& text : field) texts.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}
std::string to_toml(const std::vector<std::uint32_t>& field, const List&) {
  return fmt::format("[{}]", fmt::join(field, ", "));
}
std::string to_toml(const std::vector<std::string>& field, const Paths& rule) {
  return field.size() == 1 ? quoted(field.front()) : to_toml(field, List{rule.max});
}
std::string to_toml(const std::optional<std::string>& field, const TensorName&) {
  return field ? quoted(*field) : "";
}

std::string to_toml(const std::vector<model::LayerSpec>& field, const Layers&) {
  std::string text = "[";
  for (const model::LayerSpec& layer : field) {
    std::vector<std::string> keys;
    if (layer.kind != model::LayerKind::block) {
      keys.push_back("type = " + quoted(model::name_of(layer.kind)));
    }
    for (const KeyText& key : keys_of(layer)) keys.push_back(key.key + " = " + indented(key.text));
    text += fmt::format("\n  {{ {} }},", fmt::join(keys, ", "));
  }
  return text + "\n]";
}

std::vector<KeyText> keys_of(const model::LayerSpec& layer) {
  const std::vector<KeyText> all = all_keys_of(layer);
  const std::vector<KeyText> defaults = all_keys_of({.kind = layer.kind});
  std::vector<KeyText> keys;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].presence == Presence::required || all[i].text != defaults[i].text) {
      keys.push_back(all[i]);
    }
  }
  return keys;
}

}  // namespace starling::runfile
