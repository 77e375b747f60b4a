// The keys of one table of a scenario, for its reader. Each key is asked for and checked, and is
// known from then on. The first error is kept, with file and line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/enum_names.hpp"
#include "base/result.hpp"
#include "base/suggest.hpp"
#include "runfile/toml_text.hpp"
#include "sim/language/scenario.hpp"

namespace starling::sim {

inline constexpr std::size_t kScenarioTextMax = 1000;

/// Collects errors: keeps the first one.
struct Errors {
  std::string file;
  std::optional<base::Error> first{};

  template <class... Args>
  void add(int line, const std::string& key, fmt::format_string<Args...> format, Args&&... args) {
    if (first) return;
    const std::string place = line > 0 ? fmt::format("{}:{}", file, line) : file;
    first = base::Error{
        base::ErrorCode::run_file,
        fmt::format("{}: {}: {}", place, key, fmt::format(format, std::forward<Args>(args)...))};
  }
};

/// Reads the keys of one table; at end(), any key that was not asked for is unknown.
class Fields {
 public:
  /// `table` may be null: then nothing is found.
  Fields(const toml::table* table, std::string name, Errors& errors)
      : table_(table), name_(std::move(name)), errors_(errors) {}

  [[nodiscard]] int line() const {
    return table_ == nullptr ? 0 : static_cast<int>(table_->source().begin.line);
  }
  [[nodiscard]] Errors& errors() const { return errors_; }

  /// The value of a key, which is known from now on.
  const toml::node* find(std::string_view key) {
    known_.push_back(key);
    return table_ == nullptr ? nullptr : table_->get(key);
  }
  [[nodiscard]] bool has(std::string_view key) const {
    return table_ != nullptr && table_->contains(key);
  }

  template <class... Args>
  void reject(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    const toml::node* const node = table_ == nullptr ? nullptr : table_->get(key);
    const int at = node != nullptr ? static_cast<int>(node->source().begin.line) : line();
    errors_.add(at, fmt::format("{}.{}", name_, key), format, std::forward<Args>(args)...);
  }

  bool number(std::string_view key, double& field, double min, double max) {
    const toml::node* const node = find(key);
    if (node == nullptr) return false;
    const auto value = runfile::number_of(*node);
    if (!value) {
      reject(key, "is {}, must be a number from {} to {}", runfile::type_name(*node), min, max);
      return false;
    }
    if (!(*value >= min && *value <= max)) {
      reject(key, "{} is out of range: {} to {}", *value, min, max);
      return false;
    }
    field = *value;
    return true;
  }

  void number(std::string_view key, std::optional<double>& field, double min, double max) {
    double value = 0;
    if (number(key, value, min, max)) field = value;
  }

  template <class Number>
  void integer(std::string_view key, Number& field, std::uint64_t min, std::uint64_t max) {
    const toml::node* const node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::int64_t>();
    if (!value) {
      return reject(key, "is {}, must be an integer from {} to {}", runfile::type_name(*node), min,
                    max);
    }
    if (*value < 0 || static_cast<std::uint64_t>(*value) < min ||
        static_cast<std::uint64_t>(*value) > max) {
      return reject(key, "{} is out of range: {} to {}", *value, min, max);
    }
    field = static_cast<Number>(*value);
  }

  void boolean(std::string_view key, bool& field) {
    const toml::node* const node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<bool>();
    if (!value) return reject(key, "is {}, must be true or false", runfile::type_name(*node));
    field = *value;
  }

  void text(std::string_view key, std::string& field, std::size_t max = kScenarioTextMax) {
    const toml::node* const node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::string>();
    if (!value) return reject(key, "is {}, must be a string", runfile::type_name(*node));
    if (value->size() > max || value->find('\0') != std::string::npos) {
      return reject(key, "must be a text of at most {} characters", max);
    }
    field = *value;
  }

  template <class Enum, std::size_t N>
  bool one_of(std::string_view key, Enum& field, const base::EnumNames<Enum, N>& names) {
    std::string name;
    text(key, name, 64);
    if (!has(key)) return false;
    const auto value = base::value_of(name, names);
    if (value) {
      field = *value;
    } else {
      reject(key, "'{}' is not known{}", name, base::suggestion(name, base::all_names(names)));
    }
    return value.has_value();
  }

  void texts(std::string_view key, std::vector<std::string>& field, std::size_t max) {
    const toml::array* const list = array(key, max);
    if (list == nullptr) return;
    std::vector<std::string> values;
    for (const toml::node& node : *list) {
      const auto value = node.value_exact<std::string>();
      if (!value || value->size() > kScenarioTextMax || value->find('\0') != std::string::npos) {
        return reject(key, "must hold strings of at most {} characters", kScenarioTextMax);
      }
      values.push_back(*value);
    }
    field = std::move(values);
  }

  void numbers(std::string_view key, std::vector<double>& field, std::size_t max, double from,
               double to) {
    const toml::array* const list = array(key, max);
    if (list == nullptr) return;
    std::vector<double> values;
    for (const toml::node& node : *list) {
      const auto value = runfile::number_of(node);
      if (!value || !(*value >= from && *value <= to)) {
        return reject(key, "must hold numbers from {} to {}", from, to);
      }
      values.push_back(*value);
    }
    field = std::move(values);
  }

  /// Peers given by number, sorted and each once.
  bool peer_numbers(std::string_view key, const toml::node& node,
                    std::vector<std::uint32_t>& field) {
    const toml::array* const list = node.as_array();
    if (list == nullptr || list->empty() || list->size() > kPeersMax) {
      reject(key, "must be a list of 1 to {} peers by number", kPeersMax);
      return false;
    }
    for (const toml::node& element : *list) {
      const auto value = element.value_exact<std::int64_t>();
      if (!value || *value < 0 || *value >= static_cast<std::int64_t>(kPeersMax)) {
        reject(key, "must hold peers by number, from 0");
        return false;
      }
      field.push_back(static_cast<std::uint32_t>(*value));
    }
    std::ranges::sort(field);
    field.erase(std::unique(field.begin(), field.end()), field.end());
    return true;
  }

  const toml::array* array(std::string_view key, std::size_t max) {
    const toml::node* const node = find(key);
    if (node == nullptr) return nullptr;
    const toml::array* const list = node->as_array();
    if (list == nullptr || list->empty() || list->size() > max) {
      reject(key, "must be a list of 1 to {} elements", max);
      return nullptr;
    }
    return list;
  }

  /// Rejects a key that nothing asked for.
  void end() {
    if (table_ == nullptr) return;
    for (const auto& [key, value] : *table_) {
      if (std::ranges::find(known_, key.str()) != known_.end()) continue;
      reject(key.str(), "unknown key{}", base::suggestion(key.str(), known_));
    }
  }

 private:
  const toml::table* table_;
  std::string name_;
  Errors& errors_;
  std::vector<std::string_view> known_{};
};

}  // namespace starling::sim
