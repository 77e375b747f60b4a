#include "runfile/reference.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "runfile/keys.hpp"

using namespace starling;
using namespace starling::runfile;

namespace {

/// The lines below the heading of a section, up to the next one.
std::vector<std::string> lines_of(const std::string& heading) {
  std::istringstream text(reference());
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("## ")) {
      inside = line == "## " + heading;
    } else if (inside) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The row of a key; empty if there is not exactly one.
std::string row_of(const std::string& heading, const std::string& key) {
  std::string found;
  int count = 0;
  for (const std::string& line : lines_of(heading)) {
    if (!line.starts_with("| `" + key + "` |")) continue;
    found = line;
    ++count;
  }
  return count == 1 ? found : "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Looks up every key of a run file.
struct Lookup {
  std::string name;
  int keys = 0;

  void section(const char* section) { name = section; }
  template <class Field, class Rule>
  void operator()(const char* key, const Field&, const Rule&, const char* help) {
    ++keys;
    const std::string row = row_of(fmt::format("[{}]", name), key);
    BOOST_TEST(has(row, help), name << "." << key << ": " << row);
  }
};

/// Looks at the help of every key.
struct Sentences {
  void section(const char*) {}
  template <class Field, class Rule>
  void operator()(const char* key, const Field&, const Rule&, const std::string& help) {
    BOOST_TEST(help.ends_with('.'), key << ": " << help);
    BOOST_TEST(help.size() < 320, key << ": " << help);
    BOOST_TEST(!has(help, "|"), key << ": " << help);
  }
};

BOOST_AUTO_TEST_SUITE(the_reference_of_run_files)

BOOST_AUTO_TEST_CASE(every_key_stands_once_in_its_section_with_its_help) {
  Lookup lookup;
  const RunFile run_file;
  visit_keys(run_file, lookup);
  BOOST_TEST(lookup.keys > 90);
}

BOOST_AUTO_TEST_CASE(help_is_short_and_ends_as_a_sentence) {
  const RunFile run_file;
  const model::LayerSpec layer;
  visit_keys(run_file, Sentences{});
  visit_layer_keys(layer, [](const char* key, const auto& field, Presence, const auto& rule,
                             const char* help) { Sentences{}(key, field, rule, help); });
}

BOOST_AUTO_TEST_CASE(every_row_has_four_cells) {
  std::istringstream text(reference());
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with('|')) continue;
    BOOST_TEST(std::ranges::count(line, '|') == 5, line);
  }
}

BOOST_AUTO_TEST_CASE(defaults_and_bounds_are_those_of_the_code) {
  const RunFile run_file;
  BOOST_TEST(has(row_of("[exchange]", "density"),
                 fmt::format("| 1e-06 to 1 | `{}` |", run_file.exchange.density)));
  BOOST_TEST(
      has(row_of("[swarm]", "degree"), fmt::format("| whole number, 1 to {} | `{}` |",
                                                   membership::kDegreeMax, run_file.swarm.degree)));
  BOOST_TEST(has(row_of("[exchange]", "grace"),
                 fmt::format("| 0 to 3,600 s | `{}` |", base::seconds(run_file.exchange.grace))));
  BOOST_TEST(has(row_of("[run]", "seed"), "| whole number from 0 | `1` |"));
  BOOST_TEST(has(row_of("[security]", "mode"), "| `\"off\"`, `\"tls\"` | `\"tls\"` |"));
  BOOST_TEST(has(row_of("[model]", "blocks"), "| none |"));
}

BOOST_AUTO_TEST_CASE(defaults_that_follow_from_another_key_are_told_for_each_of_its_values) {
  const auto rate = [](train::Optimizer optimizer) { return train::defaults(optimizer).lr; };
  BOOST_TEST(has(row_of("[train]", "lr"),
                 fmt::format("| sgd `{}`, adamw `{}`, muon `{}` |", rate(train::Optimizer::sgd),
                             rate(train::Optimizer::adamw), rate(train::Optimizer::muon))));
  BOOST_TEST(has(row_of("[train]", "momentum"), "| sgd `0.9`, muon `0.95` |"));
  BOOST_TEST(has(row_of("[train]", "adam_lr"), "| `0.0003` |"));
  BOOST_TEST(has(row_of("[train]", "optimizer"), "| `\"sgd\"` |"));
  BOOST_TEST(has(row_of("[model]", "width"), "cnn `32`, resnet20 `16`"));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_not_for_every_run_says_for_which) {
  BOOST_TEST(has(row_of("[model]", "depth"), "Only for preset gpt."));
  BOOST_TEST(has(row_of("[train]", "beta1"), "Only for optimizers adamw and muon."));
  BOOST_TEST(!has(row_of("[train]", "clip"), "Only for"));
  const auto ends_with = [](const std::string& heading, const std::string& line) {
    const auto lines = lines_of(heading);
    return std::ranges::find(lines, line) != lines.end();
  };
  BOOST_TEST(ends_with("[model]", "A program that embeds a peer has none of these keys."));
  BOOST_TEST(ends_with("[data]", "A program that embeds a peer has only `shards` of these keys."));
}

BOOST_AUTO_TEST_CASE(keys_of_layers_name_the_types_that_have_them) {
  BOOST_TEST(has(row_of("Layers", "out"), "Only for `conv2d`, `linear`, `embedding`."));
  BOOST_TEST(has(row_of("Layers", "out"), "| must be given |"));
  BOOST_TEST(has(row_of("Layers", "block"), "Only for blocks."));
  BOOST_TEST(!has(row_of("Layers", "name"), "Only for"));
  BOOST_TEST(has(row_of("Layers", "stride"), "| none |"));
  BOOST_TEST(has(row_of("Layers", "bias"), "| `true` |"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
