#include "train/checkpoint_state.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "train/read_json.hpp"

namespace starling::train {
namespace {

using base::ErrorCode;
using base::fail;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr int kStateDepthMax = 2;  ///< the state, and the counters or the hashes in it

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::optional<std::uint64_t> from_hex(std::string_view text) {
  return base::parse_number<std::uint64_t>(text, 16);
}

/// Hash over the state without its own hash, in nlohmann's sorted and compact form.
std::string state_hash(json state) {
  state.erase("hash");
  return hex(base::xxh3(state.dump()));
}

/// Earlier versions wrote none.
base::Result<std::vector<base::SampleCounter>> counters_in(const json& state) {
  std::vector<base::SampleCounter> counters;
  const auto written = state.find("counters");
  if (written == state.end()) return counters;
  for (const auto& [name, samples] : written->items()) {
    const auto peer = from_hex(name);
    if (!peer || hex(*peer) != name) {
      return fail(ErrorCode::data, "is damaged: \"{}\" names no peer",
                  base::printable(name, base::kShownMax));
    }
    counters.push_back({*peer, samples.get<std::uint64_t>()});
  }
  return counters;
}

/// Earlier versions wrote none.
std::optional<std::int8_t> weight_in(const json& state) {
  const auto written = state.find("weight");
  if (written == state.end()) return std::nullopt;
  constexpr int kLeast = -128;  // of std::int8_t
  constexpr int kMost = 127;
  return static_cast<std::int8_t>(std::clamp(written->get<int>(), kLeast, kMost));
}

/// Throws json::exception if something is missing or has another type.
base::Result<StateFile> state_in(const json& state) {
  if (state.at("format") != kFormat) {
    return fail(ErrorCode::data, "has format {}, this version reads {}",
                base::printable(state.at("format").dump(), base::kShownMax), kFormat);
  }
  if (state.at("hash") != state_hash(state)) {
    return fail(ErrorCode::data, "is damaged: its hash does not match");
  }
  const auto run = base::Hash128::parse(state.at("run_id").get<std::string>());
  if (!run) return fail(ErrorCode::data, "has no run id");
  auto counters = counters_in(state);
  if (!counters) return fail(counters.error());
  const json& hashes = state.at("xxh3");
  const auto model = from_hex(hashes.at(kModelFile).get<std::string>());
  const auto optimizer = from_hex(hashes.at(kOptimizerFile).get<std::string>());
  if (!model || !optimizer) return fail(ErrorCode::data, "is damaged: names no hashes");
  return StateFile{.state = {.run = *run,
                             .step = {state.at("step").get<std::uint64_t>()},
                             .optimizer_steps = state.at("optimizer_steps").get<std::uint64_t>(),
                             .samples = state.at("samples").get<std::uint64_t>(),
                             .progress = state.at("progress").get<double>(),
                             .weight = weight_in(state),
                             .counters = std::move(*counters)},
                   .model_hash = *model,
                   .optimizer_hash = *optimizer};
}

}  // namespace

std::string state_text(const StateFile& file) {
  const CheckpointState& state = file.state;
  json text{
      {"format", kFormat},
      {"run_id", state.run.hex()},
      {"step", state.step.value},
      {"optimizer_steps", state.optimizer_steps},
      {"samples", state.samples},
      {"progress", state.progress},
      {"xxh3", {{kModelFile, hex(file.model_hash)}, {kOptimizerFile, hex(file.optimizer_hash)}}}};
  if (state.weight) text["weight"] = *state.weight;
  json& counters = text["counters"] = json::object();
  for (const base::SampleCounter& counter : state.counters) {
    counters[hex(counter.peer)] = counter.samples;
  }
  text["hash"] = state_hash(text);
  return text.dump(2) + "\n";
}

base::Result<StateFile> parse_state(std::string_view text, const std::string& path) {
  const auto state = read_json(text, kStateDepthMax);
  if (!state) {
    return fail(ErrorCode::data, "{}: is damaged: it is not JSON, or is nested too deeply", path);
  }
  try {
    auto file = state_in(*state);
    if (!file) return fail(ErrorCode::data, "{}: {}", path, file.error().text);
    return file;
  } catch (const json::exception& error) {
    return fail(ErrorCode::data, "{}: is damaged: {}", path, error.what());
  }
}

}  // namespace starling::train
