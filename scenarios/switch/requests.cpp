#include "requests.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace starling::net_switch {
namespace {

using base::ErrorCode;
using base::fail;
using Json = nlohmann::ordered_json;

constexpr double kMillisecondsMax = 600'000;
constexpr double kRateMax = 1e12;

base::Result<std::vector<std::size_t>> ports(const Json& request, const char* key,
                                             std::size_t count) {
  std::vector<std::size_t> found;
  if (!request.contains(key)) {
    found.resize(count);
    std::iota(found.begin(), found.end(), std::size_t{0});
    return found;
  }
  const Json& list = request[key];
  if (!list.is_array()) return fail(ErrorCode::usage, "\"{}\" is not a list of ports", key);
  for (const Json& port : list) {
    if (!port.is_number_unsigned() || port.get<std::uint64_t>() >= count) {
      return fail(ErrorCode::usage, "\"{}\" holds {}: ports are 0 to {}", key, port.dump(),
                  count - 1);
    }
    found.push_back(port.get<std::size_t>());
  }
  return found;
}

base::Status read_number(const Json& value, const std::string& key, double max, double& into) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= max)) {
    return fail(ErrorCode::usage, "\"{}\" is {}: a number from 0 to {} is needed", key,
                value.dump(), max);
  }
  into = number;
  return {};
}

base::Status read_duration(const Json& value, const std::string& key, base::Duration& into) {
  double milliseconds = 0;
  if (auto read = read_number(value, key, kMillisecondsMax, milliseconds); !read) return read;
  into = base::from_seconds(milliseconds / 1e3);
  return {};
}

/// Applies one key to the conditions.
base::Status apply(const std::string& key, const Json& value, Conditions& into) {
  if (key == "rate_bps") return read_number(value, key, kRateMax, into.rate);
  if (key == "queue_ms") return read_duration(value, key, into.queue);
  if (key == "delay_ms") return read_duration(value, key, into.delay);
  if (key == "jitter_ms") return read_duration(value, key, into.jitter);
  if (key == "loss") return read_number(value, key, 1, into.loss);
  if (key == "duplicate") return read_number(value, key, 1, into.duplicate);
  if (key == "reorder") return read_number(value, key, 1, into.reorder);
  if (key == "corrupt") return read_number(value, key, 1, into.corrupt);
  if (key != "cut") return fail(ErrorCode::usage, "there is no condition \"{}\"", key);
  if (!value.is_boolean()) return fail(ErrorCode::usage, "\"cut\" is neither true nor false");
  into.cut = value.get<bool>();
  return {};
}

base::Status change_lines(Fabric& fabric, const Json& request) {
  const auto which = ports(request, "ports", fabric.ports());
  if (!which) return fail(which.error());
  const Json& line = request["line"];
  if (!line.is_object()) return fail(ErrorCode::usage, "\"line\" is not an object");
  std::vector<Line> changed;
  for (const std::size_t port : *which) {
    Line& into = changed.emplace_back(fabric.line(port));
    for (const auto& [key, value] : line.items()) {
      if (key != "rate_bps" && key != "queue_ms") {
        return fail(ErrorCode::usage, "a line has no \"{}\"", key);
      }
      auto read = key == "rate_bps" ? read_number(value, key, kRateMax, into.rate)
                                    : read_duration(value, key, into.queue);
      if (!read) return read;
    }
  }
  for (std::size_t i = 0; i < changed.size(); ++i) fabric.set_line((*which)[i], changed[i]);
  return {};
}

base::Status change(Fabric& fabric, const Json& request) {
  const auto from = ports(request, "from", fabric.ports());
  if (!from) return fail(from.error());
  const auto to = ports(request, "to", fabric.ports());
  if (!to) return fail(to.error());
  const bool keeps = request.contains("set");
  const Json set = keeps ? request["set"] : Json::object();
  if (!set.is_object()) return fail(ErrorCode::usage, "\"set\" is not an object");
  Conditions tried;
  for (const auto& [key, value] : set.items()) {
    if (auto applied = apply(key, value, tried); !applied) return applied;
  }
  for (const std::size_t a : *from) {
    for (const std::size_t b : *to) {
      if (a == b) continue;
      Conditions conditions = keeps ? fabric.conditions(a, b) : Conditions{};
      for (const auto& [key, value] : set.items()) {
        if (auto applied = apply(key, value, conditions); !applied) return applied;
      }
      fabric.set(a, b, conditions);
    }
  }
  return {};
}

Json counters(const Fabric& fabric) {
  Json pairs = Json::array();
  for (std::size_t from = 0; from < fabric.ports(); ++from) {
    for (std::size_t to = 0; to < fabric.ports(); ++to) {
      const Counters& c = fabric.counters(from, to);
      if (c.offered == 0) continue;
      pairs.push_back({{"from", from},
                       {"to", to},
                       {"offered", c.offered},
                       {"offered_bytes", c.offered_bytes},
                       {"delivered", c.delivered},
                       {"delivered_bytes", c.delivered_bytes},
                       {"lost", c.lost},
                       {"cut", c.cut},
                       {"overflowed", c.overflowed},
                       {"duplicated", c.duplicated},
                       {"reordered", c.reordered},
                       {"corrupted", c.corrupted}});
    }
  }
  return pairs;
}

std::string refusal(const std::string& why) {
  return Json{{"ok", false}, {"error", why}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string answer(Fabric& fabric, std::string_view request) {
  const Json parsed = Json::parse(request, nullptr, false);
  if (!parsed.is_object()) return refusal("a request is one JSON object on one line");
  if (parsed.contains("counters")) {
    return Json{{"ok", true},
                {"counters", counters(fabric)},
                {"unroutable", fabric.unroutable()},
                {"held_bytes", fabric.held_bytes()}}
        .dump();
  }
  const bool lines = parsed.contains("line");
  if (!lines && !parsed.contains("set") && !parsed.contains("reset")) {
    return refusal("a request has \"set\", \"line\", \"reset\" or \"counters\"");
  }
  auto changed = lines ? change_lines(fabric, parsed) : change(fabric, parsed);
  if (!changed) return refusal(changed.error().text);
  return R"({"ok":true})";
}

}  // namespace starling::net_switch
