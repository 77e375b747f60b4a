#include "train/read_json.hpp"

#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace starling::train {
namespace {

using nlohmann::json;

/// Checks a text while it is parsed and keeps only names of it: stops if nesting is too deep, and
/// at a name that occurs twice. (The parser's own callbacks go through everything read so far at
/// the end of each value.)
class JsonCheck final : public json::json_sax_t {
 public:
  explicit JsonCheck(int depth_max) : depth_max_(depth_max) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= depth_max_; }
  bool key(string_t& name) override { return depth_ > 1 || names_.insert(name).second; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ <= depth_max_; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  const int depth_max_;
  int depth_ = 0;
  std::set<std::string> names_;
};

}  // namespace

std::optional<nlohmann::json> read_json(std::string_view text, int depth_max) {
  JsonCheck check(depth_max);
  if (!json::sax_parse(text.begin(), text.end(), &check)) return std::nullopt;
  return json::parse(text.begin(), text.end(), nullptr, false);
}

}  // namespace starling::train
