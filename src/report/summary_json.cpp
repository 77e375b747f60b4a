// Summaries as JSON and back.
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "report/bytes_json.hpp"
#include "report/summary.hpp"

namespace starling::report {
namespace {

using base::ErrorCode;
using base::fail;
using base::Result;
using Json = nlohmann::ordered_json;  // keys stay in an order that suits readers

Json peer_json(const PeerSummary& summary) {
  Json json{{"name", summary.name},
            {"id", summary.id},
            {"run", summary.run},
            {"end", summary.end},
            {"accuracy", number_json(summary.accuracy)},
            {"loss", number_json(summary.loss)},
            {"perplexity", Json()},
            {"bits_per_byte", Json()},
            {"samples", summary.samples},
            {"steps", summary.steps},
            {"seconds", summary.seconds},
            {"bytes_sent", bytes_json(summary.bytes_sent)},
            {"bytes_received", bytes_json(summary.bytes_received)},
            {"exchanges", summary.exchanges},
            {"drift", number_json(summary.drift)},
            {"settled", summary.settled ? Json(*summary.settled) : Json()},
            {"left_out", Json::array()},
            {"rss_max_bytes", summary.rss_max_bytes},
            {"seconds_to_first_step", number_json(summary.seconds_to_first_step)},
            {"history", Json::array()}};
  if (summary.language) {
    json["perplexity"] = number_json(summary.language->perplexity);
    json["bits_per_byte"] = number_json(summary.language->bits_per_byte);
  }
  for (const LeftOut& one : summary.left_out) {
    json["left_out"].push_back({{"name", one.name}, {"id", one.id}, {"why", one.why}});
  }
  for (const HistoryPoint& point : summary.history) {
    json["history"].push_back({{"seconds", point.seconds},
                               {"samples", point.samples},
                               {"accuracy", number_json(point.accuracy)},
                               {"loss", number_json(point.loss)},
                               {"bytes_sent", point.bytes_sent}});
  }
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

/// Takes values out of an object; remembers the first that is missing or has another type.
class Reader {
 public:
  Reader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) complain("is not an object");
  }

  template <class T>
  void read(const char* key, T& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (!found->is_string()) return complain(key, "is not text");
      value = found->template get<std::string>();
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (!found->is_number_unsigned()) return complain(key, "is not a whole number of 0 or more");
      value = found->template get<std::uint64_t>();
    } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
      if (found->is_null()) return;
      if (!found->is_boolean()) return complain(key, "is neither true nor false");
      value = found->template get<bool>();
    } else {
      if (found->is_null()) return;
      if (!found->is_number()) return complain(key, "is not a number");
      value = found->template get<double>();
    }
  }

  void read(const char* key, BytesByPurpose& bytes) {
    const Json* found = find(key);
    if (found == nullptr) return;
    Reader inner(*found, place_ + key + ".");
    inner.read("total", bytes.total);
    for (const auto& [name, part] : kPurposes) inner.read(name, bytes.*part);
    adopt(inner);
  }

  /// Calls `read_one(Reader&)` for every object of an array of at most `count_max`.
  template <class ReadOne>
  void read_array(const char* key, std::size_t count_max, ReadOne read_one) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return complain(key, "is not an array");
    if (found->size() > count_max) return complain(key, "is too long");
    for (std::size_t i = 0; i < found->size() && !problem_; ++i) {
      Reader inner((*found)[i], fmt::format("{}{}[{}].", place_, key, i));
      if (!inner.problem_) read_one(inner);
      adopt(inner);
    }
  }

  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }

 private:
  const Json* find(const char* key) {
    if (problem_) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    complain(key, "is missing");
    return nullptr;
  }

  void complain(const char* key, const char* text) {
    problem_ = fmt::format("{}{} {}", place_, key, text);
  }
  void complain(const char* text) {
    problem_ = place_.empty() ? fmt::format("the summary {}", text)
                              : fmt::format("{} {}", place_.substr(0, place_.size() - 1), text);
  }
  void adopt(const Reader& inner) {
    if (!problem_) problem_ = inner.problem_;
  }

  const Json& object_;
  std::string place_;
  std::optional<std::string> problem_;
};

void read_language(Reader& reader, std::optional<LanguageQuality>& language) {
  std::optional<double> perplexity;
  std::optional<double> bits_per_byte;
  reader.read("perplexity", perplexity);
  reader.read("bits_per_byte", bits_per_byte);
  if (perplexity && bits_per_byte) language = {*perplexity, *bits_per_byte};
}

void read_peer(Reader& reader, PeerSummary& summary) {
  reader.read("name", summary.name);
  reader.read("id", summary.id);
  reader.read("run", summary.run);
  reader.read("end", summary.end);
  reader.read("accuracy", summary.accuracy);
  reader.read("loss", summary.loss);
  read_language(reader, summary.language);
  reader.read("samples", summary.samples);
  reader.read("steps", summary.steps);
  reader.read("seconds", summary.seconds);
  reader.read("bytes_sent", summary.bytes_sent);
  reader.read("bytes_received", summary.bytes_received);
  reader.read("exchanges", summary.exchanges);
  reader.read("drift", summary.drift);
  reader.read("settled", summary.settled);
  reader.read_array("left_out", kLeftOutMax, [&](Reader& inner) {
    LeftOut& one = summary.left_out.emplace_back();
    inner.read("name", one.name);
    inner.read("id", one.id);
    inner.read("why", one.why);
  });
  reader.read("rss_max_bytes", summary.rss_max_bytes);
  reader.read("seconds_to_first_step", summary.seconds_to_first_step);
  reader.read_array("history", kHistoryMax, [&](Reader& inner) {
    HistoryPoint& point = summary.history.emplace_back();
    inner.read("seconds", point.seconds);
    inner.read("samples", point.samples);
    inner.read("accuracy", point.accuracy);
    inner.read("loss", point.loss);
    inner.read("bytes_sent", point.bytes_sent);
  });
}

/// Parses without exceptions; nlohmann's parser does not recurse, so nesting is harmless.
Result<Json> parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::data, "is not JSON, or not all of it");
  return json;
}

}  // namespace

std::string to_json(const PeerSummary& summary) { return text_of(peer_json(summary)); }

std::string to_json(const SwarmSummary& summary) {
  Json json = peer_json(summary.swarm);
  json["distance"] = number_json(summary.distance);
  json["peers"] = Json::array();
  for (const PeerSummary& peer : summary.peers) json["peers"].push_back(peer_json(peer));
  return text_of(json);
}

Result<PeerSummary> peer_summary_from_json(std::string_view text) {
  const Result<Json> json = parse(text);
  if (!json) return fail(json.error());
  PeerSummary summary;
  Reader reader(*json, "");
  read_peer(reader, summary);
  if (reader.problem()) return fail(ErrorCode::data, "{}", *reader.problem());
  return summary;
}

}  // namespace starling::report
