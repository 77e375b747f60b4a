#include "sim/language/scenario.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/language/scenario_names.hpp"

namespace starling::sim {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A path from the current folder, as named from another folder.
std::string beside(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  if (fs::path(path).is_absolute()) return path;
  std::error_code error;
  const fs::path from = fs::absolute(folder.empty() ? "." : folder, error).lexically_normal();
  const fs::path to = fs::absolute(path, error).lexically_normal();
  return error ? path : to.lexically_relative(from).string();
}

std::string list_of(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  all.reserve(texts.size());
  for (const std::string& text : texts) all.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string selector_text(const Selector& selector) {
  using enum Selector::Kind;
  switch (selector.kind) {
    case all:
      return "\"all\"";
    case first:
      return fmt::format("\"first {}\"", selector.count);
    case last:
      return fmt::format("\"last {}\"", selector.count);
    case next:
      return fmt::format("\"next {}\"", selector.count);
    case random:
      if (selector.percent > 0) return fmt::format("\"random {}%\"", selector.percent);
      return fmt::format("\"random {}\"", selector.count);
    case region:
      return quoted("region " + selector.region);
    case numbers:
      break;
  }
  return fmt::format("[{}]", fmt::join(selector.numbers, ", "));
}

std::string conditions_text(const Conditions& conditions) {
  std::string out;
  visit_conditions(conditions,
                   [&](const char* key, const std::optional<double>& value, double, double) {
                     if (value) out += fmt::format("{} = {}\n", key, *value);
                   });
  return out;
}

std::string nat_text(const NatEntry& entry) {
  const NatSettings& settings = entry.settings;
  std::string out = fmt::format("\n[[network.nat]]\nkind = \"{}\"\n{}\n", to_string(settings.kind),
                                entry.peers.empty() ? "region = " + quoted(entry.region)
                                                    : fmt::format("peers = {}", entry.peers));
  if (settings.mapping > 0) out += fmt::format("mapping = {}\n", settings.mapping);
  if (settings.pcp) out += "pcp = true\n";
  if (settings.shared) out += "shared = true\n";
  if (settings.mtu_black_hole > 0) {
    out += fmt::format("mtu_black_hole = {}\n", settings.mtu_black_hole);
  }
  return out + fmt::format("ipv6 = \"{}\"\nproxy = \"{}\"\n", to_string(settings.ipv6),
                           to_string(settings.proxy));
}

std::string hostile_text(const HostileEntry& entry) {
  const hostile::Attack& attack = entry.attack;
  const hostile::AttackTraits& traits = hostile::traits_of(attack.kind);
  std::string out = fmt::format("\n[[hostile]]\npeers = {}\nattack = \"{}\"\n",
                                selector_text(entry.peers), traits.name);
  if (traits.has_factor()) out += fmt::format("factor = {}\n", attack.factor);
  if (attack.from_settling) return out + "from = \"settling\"\n";
  return attack.from > 0 ? out + fmt::format("from = {}\n", attack.from) : out;
}

/// The pairs that are expected to be linked this way, as a key; no pairs: no key.
std::string paths_text(const std::vector<ExpectedPath>& paths, LinkPath of) {
  std::vector<std::string> pairs;
  for (const ExpectedPath& path : paths) {
    if (path.path == of) pairs.push_back(fmt::format("[{}, {}]", path.a, path.b));
  }
  if (pairs.empty()) return {};
  return fmt::format("{} = [{}]\n", to_string(of), fmt::join(pairs, ", "));
}

std::string entry_text(const Entry& entry) {
  std::string out =
      fmt::format("\n[[timeline]]\nkind = \"{}\"\nat = {}\n", to_string(entry.kind), entry.at);
  const auto line = [&](std::string_view key, const auto& value) {
    if (entry_takes(entry.kind, key)) out += fmt::format("{} = {}\n", key, value);
  };
  if (entry.every) out += fmt::format("every = {}\n", *entry.every);
  if (entry.until) out += fmt::format("until = {}\n", *entry.until);
  if (entry.peers) line("peers", selector_text(*entry.peers));
  if (entry.duration) line("for", *entry.duration);
  if (entry.kind != Kind::kill || entry.duration) {
    line("disk", fmt::format("\"{}\"", to_string(entry.disk)));
    line("address", fmt::format("\"{}\"", to_string(entry.address)));
  }
  line("count", entry.count);
  line("spacing", entry.spacing);
  if (!entry.region.empty()) line("region", quoted(entry.region));
  line("shape", fmt::format("\"{}\"", to_string(entry.shape)));
  if (entry.shape == Shape::groups) line("groups", fmt::format("{}", entry.groups));
  line("period", entry.period);
  line("speed", entry.speed);
  line("rate", entry.rate);
  if (!entry.between.empty()) line("between", list_of(entry.between));
  line("direction", fmt::format("\"{}\"", base::name_of(entry.direction, kDirectionNames)));
  return out + conditions_text(entry.conditions);
}

}  // namespace

bool Conditions::empty() const { return *this == Conditions{}; }

bool expects(const Scenario& scenario, Measure measure) {
  return std::ranges::count(scenario.expect, measure, &Expectation::measure) > 0;
}

std::string_view to_string(Kind kind) noexcept { return base::name_of(kind, kKindNames); }
std::string_view to_string(Shape shape) noexcept { return base::name_of(shape, kShapeNames); }
std::string_view to_string(Disk disk) noexcept { return base::name_of(disk, kDiskNames); }
std::string_view to_string(Address address) noexcept {
  return base::name_of(address, kAddressNames);
}
std::string_view to_string(Problem problem) noexcept {
  return base::name_of(problem, kProblemNames);
}
std::string_view to_string(NatKind kind) noexcept { return base::name_of(kind, kNatKindNames); }
std::string_view to_string(Ipv6 ipv6) noexcept { return base::name_of(ipv6, kIpv6Names); }
std::string_view to_string(Proxy proxy) noexcept { return base::name_of(proxy, kProxyNames); }
std::string_view to_string(LinkPath path) noexcept { return base::name_of(path, kLinkPathNames); }

std::string to_toml(const Scenario& scenario, const std::string& folder) {
  std::string out =
      fmt::format("[scenario]\nname = {}\nabout = {}\nseed = {}\nduration = {}\n",
                  quoted(scenario.name), quoted(scenario.about), scenario.seed, scenario.duration);
  out += fmt::format("\n[peers]\ncount = {}\nregions = {}\nspeeds = [{}]\nspacing = {}\nvia = {}\n",
                     scenario.count, list_of(scenario.regions), fmt::join(scenario.speeds, ", "),
                     scenario.spacing, selector_text(scenario.via));
  if (!scenario.relays.empty())
    out += fmt::format("relays = [{}]\n", fmt::join(scenario.relays, ", "));
  out += "\n[run]\n";
  if (!scenario.run_file.empty()) {
    out += fmt::format("file = {}\n", quoted(beside(scenario.run_file, folder)));
  }
  if (!scenario.set.empty()) out += fmt::format("set = {}\n", list_of(scenario.set));
  out += fmt::format(
      "\n[sim]\nproblem = \"{}\"\nstep_ms = {}\nelements = {}\nbuffers = {}\nbuggify = {}\n",
      to_string(scenario.sim.problem), scenario.sim.step_ms, scenario.sim.elements,
      scenario.sim.buffers, scenario.sim.buggify);
  out += "\n[network]\n" + conditions_text(scenario.network);
  for (const RegionPair& pair : scenario.pairs) {
    out += fmt::format("\n[[network.pair]]\nbetween = {}\n{}", list_of({pair.a, pair.b}),
                       conditions_text(pair.conditions));
  }
  for (const Line& line : scenario.lines) {
    out += fmt::format("\n[[network.line]]\nregion = {}\nrate_mbit = {}\n", quoted(line.region),
                       line.rate_mbit);
  }
  for (const NatEntry& entry : scenario.nats) out += nat_text(entry);
  for (const HostileEntry& entry : scenario.hostiles) out += hostile_text(entry);
  for (const Entry& entry : scenario.timeline) out += entry_text(entry);
  if (!scenario.expect.empty()) out += "\n[expect]\n";
  for (const Expectation& expectation : scenario.expect) {
    out += fmt::format("{} = {}\n", key_of(expectation.measure).name, expectation.limit);
  }
  for (const LinkPath path : {LinkPath::direct, LinkPath::circuit}) {
    out += paths_text(scenario.paths, path);
  }
  return out;
}

}  // namespace starling::sim
