// The values of a run file as TOML, each by the rule of its key.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/enum_names.hpp"
#include "base/time.hpp"
#include "runfile/keys.hpp"
#include "runfile/rules.hpp"

namespace starling::runfile {

/// A TOML basic string.
[[nodiscard]] std::string quoted(std::string_view text);

template <class Number>
[[nodiscard]] std::string to_toml(Number field, const IntegerRange&) {
  return fmt::format("{}", field);
}
/// The shortest text that reads back as the same number.
[[nodiscard]] std::string to_toml(double field, const NumberRange&);
[[nodiscard]] std::string to_toml(bool field, const Flag&);
[[nodiscard]] std::string to_toml(const std::vector<double>& field, const NumberList&);
[[nodiscard]] std::string to_toml(base::Duration field, const SecondsRange&);
[[nodiscard]] std::string to_toml(const std::string& field, const Text&);
template <class Enum, std::size_t N>
[[nodiscard]] std::string to_toml(Enum field, const base::EnumNames<Enum, N>& names) {
  return quoted(base::name_of(field, names));
}
[[nodiscard]] std::string to_toml(const std::vector<std::string>& field, const List&);
[[nodiscard]] std::string to_toml(const std::vector<std::uint32_t>& field, const List&);
[[nodiscard]] std::string to_toml(const std::vector<std::string>& field, const Paths& rule);
/// Empty for a name that is not given.
[[nodiscard]] std::string to_toml(const std::optional<std::string>& field, const TensorName&);
[[nodiscard]] std::string to_toml(const std::vector<model::LayerSpec>& field, const Layers&);

struct KeyText {
  std::string key;
  std::string text;
  Presence presence;
};

/// The keys of a layer beside its type that must be given or do not have their defaults.
[[nodiscard]] std::vector<KeyText> keys_of(const model::LayerSpec& layer);

}  // namespace starling::runfile
