#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "peer/run_file.hpp"
#include "peer/run_file_keys.hpp"

namespace starling::peer {
namespace {

/// A TOML basic string.
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

/// Writes every key as TOML.
class Writer {
 public:
  void section(const char* name) { out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name); }

  template <class Field, class Rule>
  void operator()(const char* key, const Field& field, const Rule& rule) {
    out += fmt::format("{} = {}\n", key, value(field, rule));
  }

  std::string out;

 private:
  template <class Number>
  static std::string value(Number field, const IntegerRange&) {
    return fmt::format("{}", field);
  }
  /// The shortest text that reads back as the same number.
  static std::string value(double field, const NumberRange&) { return fmt::format("{}", field); }
  static std::string value(bool field, const Flag&) { return fmt::format("{}", field); }
  static std::string value(const std::vector<double>& field, const NumberList&) {
    return fmt::format("[{}]", fmt::join(field, ", "));
  }
  static std::string value(base::Duration field, const SecondsRange&) {
    return fmt::format("{}", base::seconds(field));
  }
  static std::string value(const std::string& field, const Text&) { return quoted(field); }
  template <class Enum, std::size_t N>
  static std::string value(Enum field, const Words<Enum, N>& words) {
    return quoted(word_of(field, words));
  }
  static std::string value(const std::vector<std::string>& field, const List&) {
    std::vector<std::string> texts;
    for (const std::string& text : field) texts.push_back(quoted(text));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  static std::string value(const std::vector<std::uint32_t>& field, const List&) {
    return fmt::format("[{}]", fmt::join(field, ", "));
  }
  static std::string value(const std::vector<model::LayerSpec>& field, const Layers&) {
    std::string text = "[\n";
    for (const model::LayerSpec& layer : field) {
      text += fmt::format("  {{ type = {}", quoted(word_of(layer.kind, kLayerWords)));
      const std::pair<const char*, std::uint32_t> sizes[] = {{"out", layer.out},
                                                             {"kernel", layer.kernel},
                                                             {"stride", layer.stride},
                                                             {"padding", layer.padding}};
      for (const auto& [name, size] : sizes) {
        if (layer_takes(layer.kind, name)) text += fmt::format(", {} = {}", name, size);
      }
      text += " },\n";
    }
    return text + "]";
  }
};

std::string canonical_layer(const model::LayerSpec& layer) {
  std::string text(word_of(layer.kind, kLayerWords));
  // Defaults are written out, so that leaving a key away and giving its default is the same run.
  const std::uint32_t stride = layer.stride != 0                            ? layer.stride
                               : layer.kind == model::LayerKind::max_pool2d ? layer.kernel
                                                                            : 1;
  if (layer_takes(layer.kind, "out")) text += fmt::format(" out={}", layer.out);
  if (layer_takes(layer.kind, "kernel")) text += fmt::format(" kernel={}", layer.kernel);
  if (layer_takes(layer.kind, "stride")) text += fmt::format(" stride={}", stride);
  if (layer_takes(layer.kind, "padding")) text += fmt::format(" padding={}", layer.padding);
  return text;
}

/// The lines of a canonical form by key. What is not "key = value" goes by its whole text.
std::map<std::string, std::string> lines_of(std::string_view canonical) {
  std::map<std::string, std::string> lines;
  while (!canonical.empty()) {
    const auto end = std::min(canonical.find('\n'), canonical.size());
    const std::string_view line = canonical.substr(0, end);
    canonical.remove_prefix(std::min(end + 1, canonical.size()));
    if (line.empty()) continue;
    const auto equals = line.find(" = ");
    if (equals == std::string_view::npos) {
      lines.emplace(line, "");
    } else {
      lines.emplace(line.substr(0, equals), line.substr(equals + 3));
    }
  }
  return lines;
}

/// Text that is safe to show, whoever it comes from.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, kDiffTextMax));
  std::ranges::replace_if(
      out, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kDiffTextMax) out += "...";
  return out;
}

}  // namespace

std::string to_toml(const RunFile& run_file) {
  Writer writer;
  visit_keys(run_file, writer);
  return std::move(writer.out);
}

std::uint64_t target_samples(const RunFile& run_file, std::uint64_t training_set) {
  if (run_file.run.samples != 0) return run_file.run.samples;
  const double samples = run_file.run.epochs * static_cast<double>(training_set);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(samples)));
}

base::Status check_input(const RunFile& run_file, const data::SampleSet& set) {
  const auto& input = run_file.model.input;
  if (input == set.sample_shape()) return {};
  if (input.size() == 1 && input[0] == set.sample_values()) return {};
  return base::fail(
      base::ErrorCode::run_file, "model.input is [{}], but samples of {} have the shape [{}]",
      fmt::join(input, ", "), run_file.data.source, fmt::join(set.sample_shape(), ", "));
}

std::string canonical(const RunFile& f, const Identity& identity) {
  std::map<std::string, std::string> lines;
  lines["data.identity"] = identity.dataset.hex();
  lines["run.seed"] = fmt::format("{}", f.run.seed);
  lines["data.shards"] = fmt::format("{}", f.data.shards);
  lines["data.source"] = f.data.source;
  lines["data.split"] = word_of(f.data.split, kSplitWords);
  if (f.data.split == data::Split::dirichlet) lines["data.alpha"] = fmt::format("{}", f.data.alpha);
  lines["exchange.mode"] = word_of(f.exchange.mode, kModeWords);
  lines["exchange.version"] = fmt::format("{}", kExchangeVersion);
  lines["model.input"] = fmt::format("{}", fmt::join(f.model.input, "x"));
  for (std::size_t i = 0; i < f.model.layers.size(); ++i) {
    lines[fmt::format("model.layer.{:04}", i)] = canonical_layer(f.model.layers[i]);
  }
  lines["model.parameters"] = fmt::format("{:016x}", identity.parameters);
  if (f.run.samples != 0) lines["run.samples"] = fmt::format("{}", f.run.samples);
  if (f.run.samples == 0) lines["run.epochs"] = fmt::format("{}", f.run.epochs);
  if (f.exchange.mode == exchange::Mode::allreduce) {
    lines["swarm.peers"] = fmt::format("{}", f.peers);
  }
  lines["train.optimizer"] = word_of(f.train.optimizer, kOptimizerWords);
  std::string text;
  for (const auto& [key, value] : lines) text += fmt::format("{} = {}\n", key, value);
  return text;
}

base::Hash128 run_id(std::string_view canonical) { return base::xxh3_128(canonical); }

std::string diff(std::string_view here, std::string_view there) {
  const auto ours = lines_of(here);
  const auto theirs = lines_of(there);
  std::map<std::string, std::pair<std::string, std::string>> lines;
  const std::string nothing = "nothing";
  for (const auto& [key, value] : ours) lines[key] = {value, nothing};
  for (const auto& [key, value] : theirs) {
    lines.try_emplace(key, nothing, nothing).first->second.second = value;
  }
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, values] : lines) {
    if (values.first == values.second) continue;
    if (++count > kDiffLinesMax) return text + "and more\n";
    text += fmt::format("{}: {} here, {} there\n", printable(key), printable(values.first),
                        printable(values.second));
  }
  return text;
}

}  // namespace starling::peer
