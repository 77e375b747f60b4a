#include "runfile/toml_text.hpp"

#include <algorithm>
#include <cstdint>

namespace starling::runfile {
namespace {

using base::ErrorCode;
using base::fail;

/// Where the string that begins at `begin` ends: behind its last quote, or, if it has none, at the
/// line end or the end of the text, where a parser will complain.
std::size_t end_of_string(std::string_view text, std::size_t begin) noexcept {
  const char quote = text[begin];
  const auto quotes_at = [&](std::size_t at, std::size_t max) {
    std::size_t count = 0;
    while (count < max && at + count < text.size() && text[at + count] == quote) ++count;
    return count;
  };
  const bool lines = quotes_at(begin, 3) == 3;
  for (std::size_t i = begin + (lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\n' && !lines) return i;
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote && !lines) {
      return i + 1;
    } else if (quotes_at(i, 3) == 3) {
      return i + quotes_at(i, 5);  // up to two quotes may stand before the last three
    }
  }
  return text.size();
}

/// Whether a character may be in a key or beside one of its dots; beyond ASCII, any may.
bool goes_on(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ' ' || c == '\t' || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

std::optional<std::size_t> line_of_deep_key(std::string_view text) noexcept {
  std::size_t line = 1;
  std::size_t parts = 1;
  bool in_key = true;  // or in a value, or where neither begins
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (c == '"' || c == '\'') {
      end = end_of_string(text, i);
    } else if (c == '#') {
      end = std::min(text.find('\n', i), text.size());
    } else if (c == '.') {
      if (in_key && ++parts > kKeyPartsMax) return line;
    } else if (!goes_on(c)) {
      parts = 1;
      if (c == '=') in_key = false;
      if (c == '\n' || c == '[' || c == '{' || c == ',') in_key = true;
    }
    line += static_cast<std::size_t>(std::ranges::count(text.substr(i, end - i), '\n'));
    i = end;
  }
  return std::nullopt;
}

base::Result<toml::table> parse_toml(std::string_view text, std::string_view name,
                                     std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    return fail(ErrorCode::run_file, "{}: has {} bytes, at most {} are accepted", name, text.size(),
                bytes_max);
  }
  if (const auto line = line_of_deep_key(text)) {
    return fail(ErrorCode::run_file, "{}:{}: a key has more than {} parts", name, *line,
                kKeyPartsMax);
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const bool bare =
        error.description().find("could not determine value type") != std::string_view::npos;
    return fail(ErrorCode::run_file, "{}:{}:{}: is not valid TOML: {}{}", name,
                error.source().begin.line, error.source().begin.column, error.description(),
                bare ? "; text needs quotes" : "");
  }
}

const char* type_name(const toml::node& node) noexcept {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::optional<double> number_of(const toml::node& node) noexcept {
  if (const auto whole = node.value_exact<std::int64_t>()) return static_cast<double>(*whole);
  return node.value_exact<double>();
}

}  // namespace starling::runfile
