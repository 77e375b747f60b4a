#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/core.h>
#include <toml++/toml.h>

#include "base/file.hpp"
#include "base/suggest.hpp"
#include "runfile/toml_text.hpp"
#include "sim/language/scenario.hpp"
#include "sim/language/scenario_fields.hpp"
#include "sim/language/scenario_names.hpp"

namespace starling::sim {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::size_t kGroupsMax = 64;
constexpr std::size_t kOverridesMax = 256;
constexpr std::size_t kNatsMax = 256;
constexpr std::size_t kHostilesMax = 256;
constexpr std::size_t kPathsMax = 10'000;
constexpr std::uint32_t kMtuMin = 1280;  // of IPv6; smaller packets pass everywhere
constexpr std::uint32_t kMtuMax = 1499;  // one less than an Ethernet frame holds
constexpr double kLineRateMin = 0.001;
constexpr double kLineRateMax = 1e6;

/// Splits "first 3" into the word and the rest.
std::pair<std::string, std::string> split_word(const std::string& text) {
  const auto space = text.find(' ');
  if (space == std::string::npos) return {text, {}};
  return {text.substr(0, space), text.substr(space + 1)};
}

/// A count from 1, or a percentage.
bool parse_amount(std::string text, Selector& selector) {
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  if (text.empty() || text.size() > 6 ||
      !std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; }) ||
      std::ranges::count(text, '.') > (percent ? 1 : 0)) {
    return false;
  }
  const double value = std::strtod(text.c_str(), nullptr);
  if (percent) {
    selector.percent = value;
    return selector.kind == Selector::Kind::random && value > 0 && value <= 100;
  }
  selector.count = static_cast<std::uint32_t>(value);
  return value >= 1 && value <= kPeersMax;
}

/// A selector: "all", "first 2", "random 10%", "region eu" or a list of numbers.
bool read_selector(Fields& fields, std::string_view key, Selector& out) {
  using enum Selector::Kind;
  const toml::node* const node = fields.find(key);
  if (node == nullptr) return false;
  Selector selector{.region = {}, .numbers = {}};
  if (node->is_array()) {
    selector.kind = numbers;
    if (!fields.peer_numbers(key, *node, selector.numbers)) return false;
    out = std::move(selector);
    return true;
  }
  const auto text = node->value_exact<std::string>();
  const auto [word, rest] = split_word(text.value_or(""));
  constexpr base::EnumNames<Selector::Kind, 6> kNames{{{"all", all},
                                                       {"first", first},
                                                       {"last", last},
                                                       {"random", random},
                                                       {"next", next},
                                                       {"region", region}}};
  const auto kind = base::value_of(word, kNames);
  bool good = kind.has_value();
  if (good) {
    selector.kind = *kind;
    if (selector.kind == region) {
      selector.region = rest;
      good = !rest.empty();
    } else if (!rest.empty()) {
      good = selector.kind != all && parse_amount(rest, selector);
    }
  }
  if (!good) {
    fields.reject(key,
                  "must be \"all\", \"first 2\", \"last\", \"random 3\", \"random 10%\", "
                  "\"next\", \"region NAME\" or a list of numbers like [0, 5]");
    return false;
  }
  out = std::move(selector);
  return true;
}

void read_conditions(Fields& fields, Conditions& conditions) {
  visit_conditions(conditions, [&](const char* key, std::optional<double>& field, double min,
                                   double max) { fields.number(key, field, min, max); });
}

void check_region(const Scenario& scenario, Fields& fields, std::string_view key,
                  const std::string& region) {
  if (std::ranges::find(scenario.regions, region) != scenario.regions.end()) return;
  const std::vector<std::string_view> names(scenario.regions.begin(), scenario.regions.end());
  fields.reject(key, "there is no region '{}'{}", region, base::suggestion(region, names));
}

void read_between(const Scenario& scenario, Fields& fields, std::vector<std::string>& between) {
  fields.texts("between", between, 2);
  if (!fields.has("between") || fields.errors().first) return;
  if (between.size() != 2) return fields.reject("between", "must name two regions");
  for (const std::string& region : between) check_region(scenario, fields, "between", region);
}

void read_groups(Fields& fields, Entry& entry) {
  const toml::array* const list = fields.array("groups", kGroupsMax);
  if (list == nullptr) return;
  std::vector<std::uint32_t> seen;
  for (const toml::node& node : *list) {
    std::vector<std::uint32_t> group;
    if (!fields.peer_numbers("groups", node, group)) return;
    seen.insert(seen.end(), group.begin(), group.end());
    entry.groups.push_back(std::move(group));
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end()) {
    fields.reject("groups", "a peer is in two of them");
  }
}

/// Parameters that only some kinds of entries take.
void read_parameters(const Scenario& scenario, Fields& fields, Entry& entry) {
  Selector peers{.region = {}, .numbers = {}};
  if (read_selector(fields, "peers", peers)) entry.peers = peers;
  if (entry.peers && entry.peers->kind == Selector::Kind::region) {
    check_region(scenario, fields, "peers", entry.peers->region);
  }
  fields.number("for", entry.duration, 0.001, kSecondsMax);
  fields.one_of("disk", entry.disk, kDiskNames);
  fields.one_of("address", entry.address, kAddressNames);
  fields.integer("count", entry.count, 1, kPeersMax);
  fields.number("spacing", entry.spacing, 0, kSecondsMax);
  fields.text("region", entry.region, 64);
  if (!entry.region.empty()) check_region(scenario, fields, "region", entry.region);
  fields.one_of("shape", entry.shape, kShapeNames);
  read_groups(fields, entry);
  fields.number("period", entry.period, kPeriodMin, kSecondsMax);
  read_between(scenario, fields, entry.between);
  fields.one_of("direction", entry.direction, kDirectionNames);
  read_conditions(fields, entry.conditions);
  fields.number("speed", entry.speed, 0.001, 1);
  fields.number("rate", entry.rate, 0.5, 2);
}

/// Checks the required keys of a kind, and combinations that make no sense.
void check_entry(Fields& fields, const Entry& entry) {
  const auto needs = [&](std::string_view key) {
    if (!fields.has(key)) fields.reject(key, "is missing: '{}' needs it", to_string(entry.kind));
  };
  using enum Kind;
  if (!fields.has("at") && !fields.has("every")) fields.reject("at", "is missing");
  if (fields.has("until") && !fields.has("every")) {
    fields.reject("until", "goes with 'every'; how long it lasts is 'for'");
  }
  const bool turns = entry.shape == Shape::flip_flop || entry.shape == Shape::swizzle;
  const bool cut_of_some = entry.kind == partition && cuts_selected(entry.shape);
  const bool of_some = entry.kind == degrade ? !fields.has("between")
                                             : entry.kind != join && entry.kind != heal &&
                                                   (entry.kind != partition || cut_of_some);
  if (of_some) needs("peers");
  if (entry.kind == stop || entry.kind == twin || entry.kind == router_restart) needs("for");
  if (entry.kind == partition && turns) needs("for");
  if (entry.kind == partition && entry.shape == Shape::groups) needs("groups");
  if (entry.kind == partition && entry.shape != Shape::groups && fields.has("groups")) {
    fields.reject("groups", "goes with shape = \"groups\"");
  }
  if (entry.kind == partition && !cut_of_some && fields.has("peers")) {
    fields.reject("peers", "does not go with shape = \"{}\"", to_string(entry.shape));
  }
  if (entry.kind == degrade && fields.has("between") && fields.has("peers")) {
    fields.reject("between", "is given beside 'peers': keep one of them");
  }
  if (entry.kind == degrade && entry.conditions.empty()) {
    fields.reject("latency_ms", "is missing: say at least one condition that changes");
  }
  if (entry.kind == throttle) needs("speed");
  if (entry.kind == skew) needs("rate");
  for (const std::string_view of_restart : {"disk", "address"}) {
    if (entry.kind == kill && fields.has(of_restart) && !fields.has("for")) {
      fields.reject(of_restart, "goes with 'for': it is of the restart");
    }
  }
}

void read_entry(const toml::node& node, std::size_t number, Scenario& scenario, Errors& errors) {
  const toml::table* const table = node.as_table();
  if (table == nullptr) {
    return errors.add(static_cast<int>(node.source().begin.line), "timeline",
                      "is {}, must be [[timeline]] tables", runfile::type_name(node));
  }
  Fields fields(table, fmt::format("timeline {}", number), errors);
  Entry entry{.line = fields.line(), .region = {}, .groups = {}, .between = {}, .conditions = {}};
  if (!fields.one_of("kind", entry.kind, kKindNames)) {
    return fields.reject("kind", "is missing: what happens");
  }
  fields.number("at", entry.at, 0, kSecondsMax);
  fields.number("every", entry.every, kPeriodMin, kSecondsMax);
  fields.number("until", entry.until, 0, kSecondsMax);
  if (!fields.has("at") && entry.every) entry.at = *entry.every;
  read_parameters(scenario, fields, entry);
  for (const auto& [key, value] : *table) {
    const std::string_view name = key.str();
    const bool common = name == "kind" || name == "at" || name == "every" || name == "until";
    if (!common && !entry_takes(entry.kind, name)) {
      std::vector<std::string_view> known{"kind", "at", "every", "until"};
      for (const std::string_view other :
           {"peers",      "for",       "disk",      "address", "count",     "spacing", "region",
            "shape",      "groups",    "period",    "speed",   "rate",      "between", "direction",
            "latency_ms", "jitter_ms", "rate_mbit", "loss",    "duplicate", "reorder", "corrupt"}) {
        if (entry_takes(entry.kind, other)) known.push_back(other);
      }
      fields.reject(name, "'{}' has no such key{}", to_string(entry.kind),
                    base::suggestion(name, known));
    }
  }
  check_entry(fields, entry);
  scenario.timeline.push_back(std::move(entry));
}

/// A table at the top level, or null; anything else is an error.
const toml::table* section(const toml::table& top, std::string_view name, Errors& errors) {
  const toml::node* const node = top.get(name);
  if (node == nullptr) return nullptr;
  if (!node->is_table()) {
    errors.add(static_cast<int>(node->source().begin.line), std::string(name),
               "is {}, must be a section: [{}]", runfile::type_name(*node), name);
  }
  return node->as_table();
}

void read_head(const toml::table& top, Scenario& scenario, Errors& errors) {
  Fields head(section(top, "scenario", errors), "scenario", errors);
  head.text("name", scenario.name, 64);
  head.text("about", scenario.about);
  head.integer("seed", scenario.seed, 0, std::uint64_t{1} << 62);
  head.number("duration", scenario.duration, 0.1, kSecondsMax);
  head.end();
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (scenario.name.empty() || !std::ranges::all_of(scenario.name, in_name)) {
    head.reject("name", "must be letters, digits, '_' and '-'");
  }
  if (!head.has("duration")) head.reject("duration", "is missing: seconds until it ends");
}

void read_peers(const toml::table& top, Scenario& scenario, Errors& errors) {
  Fields peers(section(top, "peers", errors), "peers", errors);
  peers.integer("count", scenario.count, 1, kPeersMax);
  peers.texts("regions", scenario.regions, kRegionsMax);
  peers.numbers("speeds", scenario.speeds, kPeersMax, 0.001, 1000);
  peers.number("spacing", scenario.spacing, 0, kSecondsMax);
  if (const toml::node* relays = peers.find("relays")) {
    peers.peer_numbers("relays", *relays, scenario.relays);
  }
  read_selector(peers, "via", scenario.via);
  using enum Selector::Kind;
  if (scenario.via.kind == Selector::Kind::next || scenario.via.kind == region) {
    peers.reject("via", "must be \"first\", \"last\", \"random 2\", \"all\" or numbers");
  }
  peers.end();
  if (!peers.has("count")) peers.reject("count", "is missing: how many peers start");
}

void read_run(const toml::table& top, Scenario& scenario, Errors& errors) {
  Fields run(section(top, "run", errors), "run", errors);
  run.text("file", scenario.run_file);
  run.texts("set", scenario.set, kOverridesMax);
  run.end();
  if (!scenario.run_file.empty()) {
    namespace fs = std::filesystem;
    scenario.run_file =
        (fs::path(scenario.file).parent_path() / scenario.run_file).lexically_normal().string();
  }
  Fields sim(section(top, "sim", errors), "sim", errors);
  scenario.sim.problem = scenario.run_file.empty() ? Problem::small : Problem::model;
  sim.one_of("problem", scenario.sim.problem, kProblemNames);
  sim.number("step_ms", scenario.sim.step_ms, 0.01, 60'000);
  sim.integer("elements", scenario.sim.elements, 2, 1 << 20);
  sim.integer("buffers", scenario.sim.buffers, 0, 1 << 20);
  sim.boolean("buggify", scenario.sim.buggify);
  sim.end();
  if (scenario.sim.problem == Problem::model && scenario.run_file.empty()) {
    run.reject("file", "is missing: sim.problem = \"model\" trains what it says");
  }
}

/// Checks combinations that make no sense.
void check_nat(const Fields& nat, const NatSettings& settings) {
  if (settings.kind == NatKind::open) {
    for (const std::string_view key : {"mapping", "pcp", "shared"}) {
      if (nat.has(key)) nat.reject(key, "does not go with kind = \"open\": there is no router");
    }
  }
  if (settings.pcp && settings.kind == NatKind::firewall && settings.ipv6 == Ipv6::none) {
    nat.reject("pcp", "goes with a firewall for IPv6 only: say ipv6 = \"both\" or \"only\"");
  }
  if (settings.proxy != Proxy::none && settings.ipv6 != Ipv6::none) {
    nat.reject("proxy", "does not go with 'ipv6': it is dialed, and dials, by IPv4");
  }
}

void read_nat(const toml::node& node, Scenario& scenario, Errors& errors) {
  Fields nat(node.as_table(), "network.nat", errors);
  NatEntry read{.line = nat.line(), .region = {}, .peers = {}, .settings = {}};
  NatSettings& settings = read.settings;
  if (!nat.one_of("kind", settings.kind, kNatKindNames)) {
    nat.reject("kind", "is missing: \"open\", \"moderate\", \"strict\", \"cgnat\" or \"firewall\"");
  }
  nat.text("region", read.region, 64);
  if (nat.has("region")) check_region(scenario, nat, "region", read.region);
  if (const toml::node* const peers = nat.find("peers")) {
    nat.peer_numbers("peers", *peers, read.peers);
  }
  if (nat.has("region") == nat.has("peers")) {
    nat.reject("peers", "say either which 'region' or which 'peers' are behind it");
  }
  nat.number("mapping", settings.mapping, 1, kSecondsMax);
  nat.boolean("pcp", settings.pcp);
  nat.boolean("shared", settings.shared);
  nat.one_of("ipv6", settings.ipv6, kIpv6Names);
  nat.integer("mtu_black_hole", settings.mtu_black_hole, kMtuMin, kMtuMax);
  nat.one_of("proxy", settings.proxy, kProxyNames);
  nat.end();
  check_nat(nat, settings);
  scenario.nats.push_back(std::move(read));
}

void read_network(const toml::table& top, Scenario& scenario, Errors& errors) {
  Fields network(section(top, "network", errors), "network", errors);
  read_conditions(network, scenario.network);
  const toml::array* const pairs = network.array("pair", kRegionsMax * kRegionsMax);
  const toml::array* const lines = network.array("line", kRegionsMax);
  const toml::array* const nats = network.array("nat", kNatsMax);
  network.end();
  // Not from copies: these do not know their lines.
  const toml::array none;
  const auto each = [&](const toml::array* list) -> const toml::array& {
    return list == nullptr ? none : *list;
  };
  for (const toml::node& node : each(nats)) {
    read_nat(node, scenario, errors);
  }
  for (const toml::node& node : each(lines)) {
    Fields line(node.as_table(), "network.line", errors);
    Line& read = scenario.lines.emplace_back();
    line.text("region", read.region, 64);
    check_region(scenario, line, "region", read.region);
    line.number("rate_mbit", read.rate_mbit, kLineRateMin, kLineRateMax);
    line.end();
    if (!line.has("rate_mbit")) line.reject("rate_mbit", "is missing: of all its paths together");
  }
  for (const toml::node& node : each(pairs)) {
    Fields pair(node.as_table(), "network.pair", errors);
    std::vector<std::string> between;
    read_between(scenario, pair, between);
    Conditions conditions;
    read_conditions(pair, conditions);
    pair.end();
    if (between.size() != 2) return pair.reject("between", "is missing: two regions");
    std::ranges::sort(between);  // so that each pair can be given once
    for (const RegionPair& other : scenario.pairs) {
      if (other.a == between[0] && other.b == between[1]) pair.reject("between", "is given twice");
    }
    scenario.pairs.push_back({between[0], between[1], conditions});
  }
}

/// When an attack begins: a time, or "settling".
void read_begin(Fields& fields, hostile::Attack& attack) {
  const toml::node* const node = fields.find("from");
  if (node != nullptr && !hostile::can_begin_later(attack.kind)) {
    return fields.reject("from", "does not go with '{}', which lasts from the peer's start",
                         hostile::traits_of(attack.kind).name);
  }
  attack.from_settling = node != nullptr && node->value_exact<std::string>() == "settling";
  if (!attack.from_settling) fields.number("from", attack.from, 0, kSecondsMax);
}

void read_hostile(const toml::node& node, Scenario& scenario, Errors& errors) {
  Fields fields(node.as_table(), "hostile", errors);
  HostileEntry read{.line = fields.line(), .peers = {.region = {}, .numbers = {}}, .attack = {}};
  if (!fields.one_of("attack", read.attack.kind, hostile::kAttackNames)) {
    return fields.reject("attack", "is missing: what the peers do");
  }
  const hostile::AttackTraits& traits = hostile::traits_of(read.attack.kind);
  read.attack.factor = traits.factor;
  if (fields.has("factor") && !traits.has_factor()) {
    return fields.reject("factor", "does not go with '{}'", traits.name);
  }
  fields.number("factor", read.attack.factor, 0, traits.factor_max);
  read_begin(fields, read.attack);
  if (!read_selector(fields, "peers", read.peers)) {
    fields.reject("peers", "is missing: which peers are hostile");
  }
  if (read.peers.kind == Selector::Kind::next) {
    fields.reject("peers", "must be \"first 2\", \"last\", \"random 10%\", ... or numbers");
  }
  if (read.peers.kind == Selector::Kind::region) {
    check_region(scenario, fields, "peers", read.peers.region);
  }
  const Problem problem = scenario.sim.problem;
  const bool has_labels = problem == Problem::model || problem == Problem::small;
  if (read.attack.kind == hostile::AttackKind::label_flip && !has_labels) {
    fields.reject("attack", "'label_flip' needs labels: sim.problem = \"small\" or \"model\"");
  }
  fields.end();
  scenario.hostiles.push_back(std::move(read));
}

void read_hostiles(const toml::table& top, Scenario& scenario, Errors& errors) {
  const toml::node* const node = top.get("hostile");
  if (node == nullptr) return;
  const toml::array* const entries = node->as_array();
  const bool tables = entries != nullptr && std::ranges::all_of(*entries, &toml::node::is_table);
  if (!tables || entries->size() > kHostilesMax) {
    return errors.add(static_cast<int>(node->source().begin.line), "hostile",
                      "must be at most {} [[hostile]] tables", kHostilesMax);
  }
  for (const toml::node& entry : *entries) read_hostile(entry, scenario, errors);
}

void read_timeline(const toml::table& top, Scenario& scenario, Errors& errors) {
  const toml::node* const node = top.get("timeline");
  if (node == nullptr) return;
  const toml::array* const entries = node->as_array();
  const int line = static_cast<int>(node->source().begin.line);
  if (entries == nullptr || entries->size() > kEntriesMax) {
    return errors.add(line, "timeline", "must be at most {} [[timeline]] tables", kEntriesMax);
  }
  for (std::size_t i = 0; i < entries->size() && !errors.first; ++i) {
    read_entry((*entries)[i], i + 1, scenario, errors);
  }
}

/// The pairs that should be linked this way. Each pair has one path.
void read_paths(Fields& expect, LinkPath path, std::vector<ExpectedPath>& paths) {
  const std::string_view key = to_string(path);
  const toml::array* const list = expect.array(key, kPathsMax);
  if (list == nullptr) return;
  for (const toml::node& node : *list) {
    std::vector<std::uint32_t> pair;
    if (!expect.peer_numbers(key, node, pair)) return;
    if (pair.size() != 2) return expect.reject(key, "must hold pairs of peers, like [0, 1]");
    const bool twice = std::ranges::any_of(
        paths, [&](const ExpectedPath& other) { return other.a == pair[0] && other.b == pair[1]; });
    if (twice) return expect.reject(key, "[{}, {}] is given twice", pair[0], pair[1]);
    paths.push_back({pair[0], pair[1], path});
  }
}

void read_expect(const toml::table& top, Scenario& scenario, Errors& errors) {
  Fields expect(section(top, "expect", errors), "expect", errors);
  for (const ExpectationKey& key : kExpectationKeys) {
    double limit = 0;
    if (expect.number(key.name, limit, key.min, key.max)) {
      scenario.expect.push_back({key.measure, limit});
    }
  }
  read_paths(expect, LinkPath::direct, scenario.paths);
  read_paths(expect, LinkPath::circuit, scenario.paths);
  if (expect.has("paths_within_s") == scenario.paths.empty()) {
    expect.reject("paths_within_s",
                  "goes with 'direct' and 'circuit', lists of pairs like [[0, 1], [0, 2]]");
  }
  expect.end();
}

void check_sections(const toml::table& top, Errors& errors) {
  constexpr std::array<std::string_view, 8> kSections{"scenario", "peers",   "run",      "sim",
                                                      "network",  "hostile", "timeline", "expect"};
  for (const auto& [key, node] : top) {
    if (std::ranges::find(kSections, key.str()) != kSections.end()) continue;
    errors.add(static_cast<int>(node.source().begin.line), fmt::format("[{}]", key.str()),
               "unknown section{}", base::suggestion(key.str(), kSections));
  }
}

}  // namespace

base::Result<Scenario> parse_scenario(std::string_view text, const std::string& path) {
  const auto top = runfile::parse_toml(text, path, kScenarioBytesMax);
  if (!top) return fail(top.error());
  Errors errors{.file = path};
  Scenario scenario;
  scenario.file = path;
  check_sections(*top, errors);
  read_head(*top, scenario, errors);
  read_peers(*top, scenario, errors);
  read_run(*top, scenario, errors);
  read_network(*top, scenario, errors);
  read_hostiles(*top, scenario, errors);
  read_timeline(*top, scenario, errors);
  read_expect(*top, scenario, errors);
  if (errors.first) return fail(std::move(*errors.first));
  return scenario;
}

base::Result<Scenario> read_scenario(const std::string& path) {
  const auto bytes = base::read_file(path, kScenarioBytesMax);
  if (!bytes) return fail(ErrorCode::run_file, "{}", bytes.error().text);
  return parse_scenario(base::text_of(*bytes), path);
}

}  // namespace starling::sim
