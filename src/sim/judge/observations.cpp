#include "sim/judge/observations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/enum_names.hpp"
#include "base/file.hpp"
#include "train/read_json.hpp"

namespace starling::sim {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kFormat = 1;
/// Depth of a line: an object of lists.
constexpr int kDepthMax = 2;
/// For values that a peer counts or measures: the integers that a double represents exactly.
constexpr std::uint64_t kWholeMax = std::uint64_t{1} << 53;

constexpr base::EnumNames<peer::Phase, 6> kPhaseNames{{
    {"waiting", peer::Phase::waiting},
    {"training", peer::Phase::training},
    {"settling", peer::Phase::settling},
    {"finishing", peer::Phase::finishing},
    {"done", peer::Phase::done},
    {"relaying", peer::Phase::relaying},
}};

/// The keys of one line: each is asked for, and is known from then on. The first error is kept;
/// values are always in their ranges.
class Line {
 public:
  explicit Line(const Json& json) : json_(json) {}

  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
  void complain(std::string text) {
    if (wrong_.empty()) wrong_ = std::move(text);
  }

  std::uint64_t whole(const char* key, std::uint64_t max) {
    const auto is_one = [&](const Json& one) {
      return one.is_number_unsigned() && one.get<std::uint64_t>() <= max;
    };
    return value<std::uint64_t>(key, is_one, fmt::format("a whole number from 0 to {}", max));
  }
  std::uint32_t small(const char* key, std::uint32_t max) {
    return static_cast<std::uint32_t>(whole(key, max));
  }
  /// Null is allowed: the value is unknown or not finite.
  std::optional<double> number(const char* key) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_number()) return value->get<double>();
    if (value == nullptr || !value->is_null()) {
      complain(fmt::format("'{}' must be a number or null", key));
    }
    return std::nullopt;
  }
  bool flag(const char* key) {
    return value<bool>(
        key, [](const Json& one) { return one.is_boolean(); }, "true or false");
  }
  std::string text(const char* key) {
    return value<std::string>(
        key, [](const Json& one) { return one.is_string(); }, "a text");
  }
  /// Numbers below `count`; `taken` has those of the line's other lists, which may not occur again.
  std::vector<std::uint32_t> numbers(const char* key, std::size_t count,
                                     std::set<std::uint32_t>& taken) {
    const auto is_peer = [&](const Json& one) {
      return one.is_number_unsigned() && one.get<std::uint64_t>() < count &&
             taken.insert(one.get<std::uint32_t>()).second;
    };
    const auto is_list = [&](const Json& one) {
      return one.is_array() && std::ranges::all_of(one, is_peer);
    };
    return value<std::vector<std::uint32_t>>(
        key, is_list,
        fmt::format("a list that has each peer from 0 to {} once at most", count - 1));
  }
  /// All keys have been asked for.
  void end() {
    for (const auto& [key, value] : json_.items()) {
      if (!asked_.contains(key)) complain(fmt::format("'{}' is unknown here", key));
    }
  }

 private:
  template <class Value, class Predicate>
  Value value(const char* key, Predicate&& fits, std::string_view what) {
    const Json* const found = find(key);
    if (found != nullptr && fits(*found)) return found->get<Value>();
    complain(fmt::format("'{}' must be {}", key, what));
    return {};
  }
  const Json* find(const char* key) {
    asked_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& json_;
  std::set<std::string> asked_;
  std::string wrong_;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  base::Result<ObservationLog> read(std::string_view text) {
    while (!text.empty() && wrong_.empty()) {
      ++number_;
      const std::size_t end = text.find('\n');
      // A line without a newline is incomplete.
      if (end == std::string_view::npos) {
        wrong_ = "the line breaks off";
        break;
      }
      read_line(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    if (wrong_.empty() && (runs_.empty() || !over_)) wrong_ = "the log ends before the run";
    if (!wrong_.empty()) {
      return base::fail(
          base::ErrorCode::data,
          "{}:{}: {}: run the scenario again with scenarios/run, which writes the log", path_,
          number_, wrong_);
    }
    ObservationLog log{.run = std::move(runs_.front()), .undisturbed = {}};
    if (runs_.size() > 1) log.undisturbed = std::move(runs_.back());
    return log;
  }

 private:
  struct EventState {
    bool begun = false, ended = false;
  };

  void read_line(std::string_view text) {
    const auto json = train::read_json(text, kDepthMax);
    if (!json || !json->is_object()) {
      wrong_ = "the line is not a JSON object, or has a key twice";
      return;
    }
    Line line(*json);
    const std::string kind = line.text("kind");
    if (kind == "run") {
      begin_run(line);
    } else if (runs_.empty()) {
      line.complain("a log begins with a line of kind 'run'");
    } else {
      observe(kind, line);
    }
    line.end();
    wrong_ = line.wrong();
  }

  void begin_run(Line& line) {
    if (line.small("format", kWholeLimit) != kFormat) {
      line.complain(
          fmt::format("'format' must be {}: this is the log of another version", kFormat));
    }
    const std::string file = line.text("file");
    const std::string text = line.text("scenario");
    const std::uint64_t seed = line.whole("seed", std::numeric_limits<std::uint64_t>::max());
    const bool undisturbed = line.flag("undisturbed");
    if (undisturbed != (runs_.size() == 1) || runs_.size() > 1 || (!runs_.empty() && !over_)) {
      line.complain("a log has one run, and after its end at most one more, undisturbed");
    }
    if (!line.wrong().empty()) return;
    auto scenario = parse_scenario(text, file);
    if (!scenario) return line.complain(scenario.error().text);
    if (undisturbed) {
      scenario->timeline.clear();
      scenario->hostiles.clear();
    }
    auto plan = make_plan(std::move(*scenario), seed);
    if (!plan) return line.complain(plan.error().text);
    runs_.push_back({.plan = std::move(*plan), .observations = {}});
    events_.assign(runs_.back().plan.events.size(), {});
    summarized_.clear();
    over_ = false;
    at_ = 0;
  }

  void observe(const std::string& kind, Line& line) {
    const auto at = line.number("at");
    if (!at || !(*at >= at_) || *at > kSecondsMax) {
      return line.complain(
          fmt::format("'at' must be a number of seconds from {} on: times never decrease", at_));
    }
    at_ = *at;
    if (over_ && kind != "end" && kind != "summary") {
      return line.complain("after 'over' there are only lines of kind 'end' and 'summary'");
    }
    auto seen = read_seen(kind, line);
    if (line.wrong().empty()) runs_.back().observations.push_back({at_, std::move(seen)});
  }

  decltype(Observation::seen) read_seen(const std::string& kind, Line& line) {
    if (kind == "event") return event(line);
    if (kind == "settings") {
      return SettingsSeen{.degree = line.small("degree", kPeersMax),
                          .batch = std::max(1U, line.small("batch", kWholeLimit))};
    }
    if (kind == "over") {
      over_ = true;
      return OverSeen{};
    }
    const std::size_t count = runs_.back().plan.peers.size();
    const std::uint32_t peer = line.small("peer", static_cast<std::uint32_t>(count - 1));
    std::set<std::uint32_t> taken;
    if (kind == "start") return StartSeen{.peer = peer, .disk_full = line.flag("disk_full")};
    if (kind == "end") return end(peer, line);
    if (kind == "status") return status(peer, line);
    if (kind == "members") {
      return MembersSeen{.peer = peer,
                         .alive = line.numbers("alive", count, taken),
                         .dead = line.numbers("dead", count, taken),
                         .left = line.numbers("left", count, taken)};
    }
    if (kind == "links") {
      return LinksSeen{.peer = peer,
                       .direct = line.numbers("direct", count, taken),
                       .circuit = line.numbers("circuit", count, taken)};
    }
    if (kind == "summary") return summary(peer, line);
    line.complain(fmt::format("kind '{}' is unknown", kind));
    return OverSeen{};
  }

  EventSeen event(Line& line) {
    const EventSeen seen{.event = line.small("event", kWholeLimit), .begins = line.flag("begins")};
    if (seen.event >= events_.size()) {
      line.complain(fmt::format("the scenario has {} events, from 0", events_.size()));
      return seen;
    }
    EventState& state = events_[seen.event];
    const bool lasts = runs_.back().plan.events[seen.event].until.has_value();
    if (seen.begins ? state.begun : !lasts || !state.begun || state.ended) {
      line.complain(
          fmt::format("event {} cannot {} now", seen.event, seen.begins ? "begin" : "end"));
    }
    (seen.begins ? state.begun : state.ended) = true;
    return seen;
  }

  static EndSeen end(std::uint32_t peer, Line& line) {
    const double code = line.number("code").value_or(0);
    if (std::abs(code) > kExitCodeMax || std::trunc(code) != code) {
      line.complain(fmt::format("'code' must be a whole number from -{0} to {0}", kExitCodeMax));
      return {};
    }
    return {.peer = peer,
            .code = static_cast<std::int32_t>(code),
            .cannot_start = line.flag("cannot_start")};
  }

  static StatusSeen status(std::uint32_t peer, Line& line) {
    const std::string word = line.text("phase");
    const auto phase = base::value_of(word, kPhaseNames);
    if (!phase) line.complain(fmt::format("phase '{}' is unknown", word));
    return {.peer = peer,
            .phase = phase.value_or(peer::Phase::waiting),
            .steps = line.whole("steps", kWholeMax),
            .samples = line.whole("samples", kWholeMax),
            .drift = line.number("drift"),
            .links = line.small("links", kPeersMax),
            .membership_bytes = line.whole("membership_bytes", kWholeMax)};
  }

  SummarySeen summary(std::uint32_t peer, Line& line) {
    if (!summarized_.insert(peer).second) line.complain("this peer has a summary already");
    return {.peer = peer,
            .done = line.flag("done"),
            .accuracy = line.number("accuracy"),
            .loss = line.number("loss"),
            .sent_bytes = line.whole("sent_bytes", kWholeMax),
            .replica = line.text("replica")};
  }

  static constexpr std::uint32_t kWholeLimit = std::numeric_limits<std::uint32_t>::max();
  static constexpr int kExitCodeMax = 255;

  const std::string& path_;
  std::size_t number_ = 0;  ///< number of the line, from 1
  std::string wrong_;
  std::vector<ObservedRun> runs_;
  std::vector<EventState> events_;  ///< of the last run
  std::set<std::uint32_t> summarized_;
  bool over_ = false;
  double at_ = 0;
};

}  // namespace

base::Result<ObservationLog> read_observations(const std::string& path) {
  const auto bytes = base::read_file(path, kObservationBytesMax);
  if (!bytes) return base::fail(bytes.error());
  return parse_observations(base::text_of(*bytes), path);
}

base::Result<ObservationLog> parse_observations(std::string_view text, const std::string& path) {
  return Reader(path).read(text);
}

}  // namespace starling::sim
