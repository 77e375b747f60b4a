// The command line of `starling`. This is the only file that includes CLI11, which takes seconds to
// compile.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/parse_number.hpp"
#include "base/result.hpp"
#include "base/suggest.hpp"
#include "command_table.hpp"
#include "commands.hpp"
#include "io/router/map_port.hpp"
#include "reach/limits.hpp"
#include "system.hpp"
#include "version.hpp"

namespace {

using namespace starling::peers;

constexpr int kFailedExit = 1;
constexpr int kUsageExit = 2;
constexpr char kAbout[] = "peers that train one model together, with nobody in charge";
constexpr double kRelayLimitMin = 0.01;  ///< Mbit/s

/// CLI::Range with bounds that exclude NaN.
CLI::Validator number_from(double min, double max) {
  const auto wrong = [min, max](const std::string& text) {
    const auto value = starling::base::parse_number<double>(text);
    if (value && *value >= min && *value <= max) return std::string();
    return fmt::format("{} is not a number from {} to {}", text, min, max);
  };
  return {wrong, fmt::format("in [{} - {}]", min, max)};
}

/// A whole number that fits `Number`: CLI11 reads -1 as the largest one.
template <class Number>
CLI::Validator whole_number() {
  const auto wrong = [](const std::string& text) {
    if (starling::base::parse_number<Number>(text)) return std::string();
    return fmt::format("{} is not a whole number from 0 to {}", text,
                       std::numeric_limits<Number>::max());
  };
  return {wrong, ""};
}

/// An option, with the name of its argument, or a positional argument.
template <class Value>
CLI::Option* add(CLI::App& command, const char* names, const char* argument, Value& value,
                 const char* help) {
  return command.add_option(names, value, help)->type_name(argument);
}

void add_set(CLI::App& command, std::vector<std::string>& set) {
  add(command, "--set", "KEY=VALUE", set,
      "Override a key of the run file: section.key=value (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
}

void add_proxy(CLI::App& command, std::string& proxy) {
  add(command, "--proxy", "URL", proxy,
      "Dial others through this proxy, socks5:// or http:// (default: https_proxy "
      "or all_proxy, except for no_proxy, in the environment)");
}

/// How a peer reaches others and is reached: for any kind of peer.
CLI::Option* add_links(CLI::App& command, starling::runtime::Options& options) {
  add(command, "--join", "ADDRESS", options.join,
      "Address host:port of any peer of the swarm (repeatable)")
      ->allow_extra_args(false);
  auto* listen =
      add(command, "--listen", "ADDRESS", options.listen,
          "Address to listen on, as :7000 (all addresses of this machine, IPv4 and IPv6), "
          "0.0.0.0:7000 (IPv4 only) or [2001:db8::1]:7000; port 0: any free one");
  add_proxy(command, options.proxy);
  command.add_flag("!--no-port-mapping", options.port_mapping,
                   "Do not ask the router to let others in (PCP, NAT-PMP, UPnP)");
  add(command, "--announce", "ADDRESS", options.announce,
      "Address host:port at which others reach this peer, told to them first: a name, "
      "or a router's that passes the port on (repeatable)")
      ->allow_extra_args(false);
  add(command, "--http", "ADDRESS", options.http,
      "Address of the page, /metrics and commands such as `starling status`; anyone who "
      "can reach it may read them")
      ->capture_default_str();
  add(command, "--name", "NAME", options.name,
      "Name of this peer (default: the host's, with a number if other peers run here)");
  return listen;
}

/// How a peer is run: for any training.
void add_peer(CLI::App& command, UpOptions& options) {
  add_links(command, options.peer)->capture_default_str();
  command.add_flag("--lan", options.peer.lan,
                   "Find peers of this run on the local network, by UDP multicast and broadcast");
  add(command, "--dir", kFolderArgument, options.peer.dir,
      "Folder of this peer (default: runs/<run name>/<name>)");
  command.add_flag("--require-peers", options.peer.require_peers,
                   "Exit with 4 when no peer was reached within a minute");
  command.add_flag("--json", options.json, "Print the summary as JSON at the end");
  add_set(command, options.set);
}

void add_up(CLI::App& app, UpOptions& options, int& code) {
  auto* up = app.add_subcommand("up", "Run one peer: find the swarm, train, agree");
  add(*up, "run_file", kFileArgument, options.run_file, "Run file (TOML)")->required();
  add_peer(*up, options);
  up->callback([&options, &code] { code = run_up(options); });
}

void add_join(CLI::App& app, JoinOptions& options, int& code) {
  auto* join = app.add_subcommand(
      "join", "Run one peer of a swarm that hands out its run file; started again, it goes on");
  add(*join, "invite", "INVITE", options.invite,
      "The invite that `starling up` or `starling invite` printed there")
      ->required();
  add(*join, "--secret", kFileArgument, options.secret,
      "File with the swarm's secret, if it has one");
  add_peer(*join, options.up);
  join->callback([&options, &code] { code = run_join(options); });
}

void add_relay(CLI::App& app, RelayOptions& options, int& code) {
  auto* relay = app.add_subcommand("relay",
                                   "Help peers that cannot reach each other, and train nothing: "
                                   "for a machine that all can dial");
  add_links(*relay, options.peer)->required();
  add(*relay, "--dir", kFolderArgument, options.peer.dir,
      "Folder of this relay (default: runs/relay/<name>)");
  add(*relay, "--invite", "INVITE", options.invite,
      "Serve only the run of this invite (default: that of the first peer that "
      "comes, until all are gone)");
  add(*relay, "--secret", kFileArgument, options.relay.secret,
      "File with the swarm's secret: only peers with it are let in");
  add(*relay, "--circuits", "N", options.relay.relay.circuits,
      "Pairs of peers that it relays for at once")
      ->check(CLI::Range(std::size_t{1}, starling::reach::kCircuitsMax))
      ->capture_default_str();
  add(*relay, "--limit", "MBITS", options.relay.relay.limit, "Mbit/s for all of them together")
      ->check(number_from(kRelayLimitMin, starling::reach::kRelayLimitMax))
      ->capture_default_str();
  relay->callback([&options, &code] { code = run_relay(options); });
}

void add_swarm(CLI::App& app, SwarmOptions& options, int& code) {
  auto* swarm = app.add_subcommand(
      "swarm",
      "Run N local peers with one live table. They share the cores: they choose train.threads "
      "and swarm.wait_for, unless --set does");
  add(*swarm, "run_file", kFileArgument, options.run_file, "Run file (TOML)")->required();
  add(*swarm, "-n,--peers", "N", options.peers, "Number of peers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add(*swarm, "--dir", kFolderArgument, options.dir,
      "Folder of the run (default: runs/<run name>)");
  swarm->add_flag("--anew", options.anew,
                  "Delete the folders of a former swarm's peers; without it peers go on from their "
                  "checkpoints");
  swarm->add_flag("--json", options.json, "Print the summary as JSON at the end");
  add_set(*swarm, options.set);
  swarm->callback([&options, &code] { code = run_swarm(options); });
}

void add_queries(CLI::App& app, QueryOptions& options, int& code) {
  const std::pair<const char*, const char*> queries[] = {
      {"status", "Show what a running peer is doing"},
      {"members", "Show who is in the swarm, as a running peer knows it"},
      {"links", "Show the links of a running peer"},
      {"invite", "Print the command by which another machine joins a running peer's swarm"},
      {"leave", "Ask a running peer to save, say goodbye and end"},
      {"checkpoint", "Ask a running peer to save a checkpoint now"}};
  for (const auto& [name, text] : queries) {
    auto* query = app.add_subcommand(name, text);
    add(*query, "--peer", kPeerArgument, options.peer,
        "Folder of the peer, or address of its page, host:port (default: the only "
        "one below runs/)");
    query->add_flag("--json", options.json, "Print JSON");
    query->callback([&options, &code, what = std::string(name)] {
      options.what = what;
      code = run_query(options);
    });
  }
}

void add_check(CLI::App& app, CheckOptions& options, int& code) {
  auto* check = app.add_subcommand("check", "Check a run file: layers, memory, bytes an exchange");
  add(*check, "run_file", kFileArgument, options.run_file, "Run file (TOML)")->required();
  check->add_flag("--json", options.json, "Print JSON");
  check->add_flag_callback(
      "--keys",
      [] {
        print_keys();
        throw CLI::Success();  // no run file is needed
      },
      "Print all keys of run files as Markdown, and check nothing");
  add_set(*check, options.set);
  check->callback([&options, &code] { code = run_check(options); });
}

void add_checkpoint(CLI::App& command, starling::runtime::CheckpointOptions& options) {
  add(command, "checkpoint", kPathArgument, options.path,
      "Folder of a checkpoint or of a peer (its newest one), or safetensors file")
      ->required();
  add(command, "--run", kFileArgument, options.run_file,
      "Run file (default: the checkpoint's; a safetensors file needs it)");
  add_set(command, options.set);
}

void add_eval(CLI::App& app, EvalOptions& options, int& code) {
  auto* eval = app.add_subcommand("eval", "Evaluate trained weights on the whole test set");
  add_checkpoint(*eval, options.checkpoint);
  eval->add_flag("--json", options.json, "Print JSON");
  eval->callback([&options, &code] { code = run_eval(options); });
}

void add_sample(CLI::App& app, SampleOptions& options, int& code) {
  auto* sample = app.add_subcommand("sample", "Write text from a language model");
  add_checkpoint(*sample, options.checkpoint);
  add(*sample, "--prompt", "TEXT", options.prompt, "Beginning of the text");
  add(*sample, "--tokens", "N", options.tokens, "How many tokens are added")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add(*sample, "--temperature", "NUMBER", options.temperature,
      "Below 1: likely tokens come more often; 0: always the likeliest")
      ->check(number_from(0, 100))
      ->capture_default_str();
  add(*sample, "--top-k", "N", options.top_k, "Only this many of the likeliest tokens; 0: all")
      ->check(whole_number<std::uint32_t>())
      ->capture_default_str();
  add(*sample, "--seed", "N", options.seed, "Another seed, another text")
      ->check(whole_number<std::uint64_t>())
      ->capture_default_str();
  sample->callback([&options, &code] { code = run_sample(options); });
}

void add_export(CLI::App& app, ExportOptions& options, int& code) {
  auto* command = app.add_subcommand("export", "Write a checkpoint as a file that PyTorch loads");
  add(*command, "checkpoint", kPathArgument, options.checkpoint,
      "Folder of a checkpoint or of a peer (its newest one)")
      ->required();
  add(*command, "--out", kFileArgument, options.out, "The safetensors file to write")->required();
  command->callback([&options, &code] { code = run_export(options); });
}

void add_sim(CLI::App& app, SimOptions& options, int& code) {
  auto* sim = app.add_subcommand("sim", "Run a scenario in the simulator");
  add(*sim, "scenario", kFileArgument, options.scenario,
      "Scenario (TOML), or 'random': drawn from the seed");
  add(*sim, "--judge", kFileArgument, options.judge,
      "Instead of a scenario: print the verdict on a run of scenarios/run, from its log");
  add(*sim, "--seed", "N", options.seed, "Seed instead of the scenario's")
      ->check(whole_number<std::uint64_t>());
  add(*sim, "--seeds", "A..B", options.seeds, "A..B: once with each of these seeds");
  add_set(*sim, options.set);
  add(*sim, "--json", kFileArgument, options.json, "Write the report as JSON; -: to stdout");
  add(*sim, "--regressions", kFolderArgument, options.regressions,
      "With --seeds: write failing scenarios, made smaller, to this folder");
  sim->add_flag("--plan", options.plan, "Print the resolved scenario as JSON and run nothing");
  sim->add_flag("--trace", options.trace, "Print every event");
  sim->callback([&options, &code] { code = run_sim(options); });
}

void add_data(CLI::App& app, DataOptions& options, int& code) {
  auto* data = app.add_subcommand("data", "Prepare text for training");
  data->require_subcommand(1);
  const char* const texts = "Text files, folders of them, or bible-kjv: Debian's King James text";
  auto* train = data->add_subcommand("train-vocabulary",
                                     "Learn a vocabulary by byte-level byte-pair encoding");
  add(*train, "texts", kPathArgument, options.texts, texts)->required();
  add(*train, "--size", "N", options.size, "Tokens, the 256 bytes included")
      ->required()
      ->check(CLI::Range(257, 1 << 20));
  add(*train, "--out", kFileArgument, options.out, "The vocabulary's file (JSON)")->required();
  auto* encode =
      data->add_subcommand("encode", "Write text as files of tokens, for data.source = \"tokens\"");
  add(*encode, "texts", kPathArgument, options.texts, texts)->required();
  add(*encode, "--vocabulary", kFileArgument, options.vocabulary, "A vocabulary's file")
      ->required();
  add(*encode, "--out", kFolderArgument, options.out, "A folder without such files")->required();
  train->callback([&options] { options.what = "train-vocabulary"; });
  encode->callback([&options] { options.what = "encode"; });
  data->callback([&options, &code] { code = run_data(options); });  // after theirs
}

void add_doctor(CLI::App& app, DoctorOptions& options, int& code) {
  auto* doctor = app.add_subcommand(
      "doctor", "Check what a peer needs: this machine, its links, and peers that it should reach");
  add(*doctor, "--listen", "ADDRESS", options.listen, "Address that a peer would listen on")
      ->capture_default_str();
  add(*doctor, "--join", "ADDRESS", options.join,
      "Address host:port of a peer that this machine should reach; two on different hosts "
      "tell the kind of NAT in between (repeatable)")
      ->allow_extra_args(false);
  add(*doctor, "--peer", kPeerArgument, options.peer,
      "Ask a running peer, too, whether it can be dialed: its folder, or the address "
      "of its page, host:port");
  add(*doctor, "--secret", kFileArgument, options.secret,
      "File with the swarm's secret, if it has one");
  add_proxy(*doctor, options.proxy);
  doctor->add_flag("!--no-port-mapping", options.port_mapping,
                   "Do not try whether the router maps a port");
  doctor->add_flag("!--not-encrypted", options.encrypted, "The swarm has security.mode = \"off\"");
  doctor->add_flag("--json", options.json, "Print JSON");
  doctor->callback([&options, &code] { code = run_doctor(options); });
}

void add_keygen(CLI::App& app, KeygenOptions& options, int& code) {
  auto* keygen = app.add_subcommand("keygen", "Make a secret that peers need to enter a swarm");
  add(*keygen, "file", kFileArgument, options.out, "The file to write, for security.secret")
      ->required();
  keygen->callback([&options, &code] { code = run_keygen(options); });
}

int run_bench(const CLI::App& command, const BenchOptions& options) {
  struct Own {
    const char* option;
    std::vector<std::string> of;
  };
  const Own own[] = {{"--threads", {"compute"}},
                     {"--bf16", {"compute"}},
                     {"--device", {"compute", "codec"}},
                     {"--network", {"carriers"}},
                     {"--listen", {"carriers"}}};
  for (const auto& [option, of] : own) {
    if (command.count(option) == 0 || std::ranges::find(of, options.what) != of.end()) continue;
    std::fprintf(stderr, "starling bench: %s is for %s, not for %s\n", option,
                 fmt::format("{}", fmt::join(of, " and ")).c_str(), options.what.c_str());
    return kUsageExit;
  }
  if (options.what == "compute") return bench_compute(options);
  return options.what == "codec" ? bench_codec(options) : bench_carriers(options);
}

void add_bench(CLI::App& app, BenchOptions& options, int& code) {
  auto* bench = app.add_subcommand("bench", "Measure a part on this machine");
  add(*bench, "what", "WHAT", options.what, "compute, codec or carriers")
      ->required()
      ->check(CLI::IsMember({"compute", "codec", "carriers"}));
  bench->add_flag("--json", options.json, "Print one JSON object a line");
  add(*bench, "--only", "NAME", options.only,
      "compute: one model, cnn, mlp, resnet18 or gpt; on a GPU also resnet50 or gpt2; "
      "codec: one size, 10M or 100M; carriers: one carrier, tcp or ucx");
  add(*bench, "--threads", "N", options.threads, "compute: threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add(*bench, "--device", "DEVICE", options.device, "cpu, or cuda:0 and so on")
      ->capture_default_str();
  bench->add_flag("--bf16", options.bfloat16, "compute: with train.precision = \"bf16\"");
  add(*bench, "--network", kFileArgument, options.network,
      "carriers: file of the network namespace in which the links' other ends are");
  add(*bench, "--listen", "ADDRESS", options.listen,
      "carriers: HOST:PORT where these listen; otherwise on 127.0.0.1");
  add(*bench, "--seconds", "SECONDS", options.seconds, "Time for each figure")
      ->check(number_from(0.1, 600))
      ->capture_default_str();
  bench->callback([bench, &options, &code] { code = run_bench(*bench, options); });
}

/// Used by the peer's own process, not by people.
void add_map_port(CLI::App& app, std::string& listen, int& code) {
  auto* command = app.add_subcommand("map-port", "Keep a port mapped on the router");
  command->group("");
  command->add_option("listen", listen, "Address that is listened on, ip:port")->required();
  command->callback([&listen, &code] { code = starling::io::router::map_port(listen); });
}

// --- the table of the command line ---

/// The text between two brackets, or nothing.
std::string between(const std::string& text, char open, char close) {
  const auto first = text.find(open);
  const auto last = text.find(close);
  return first == std::string::npos || last == std::string::npos
             ? ""
             : text.substr(first + 1, last - first - 1);
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (option.get_positional()) names.push_back(option.get_single_name());
  return names;
}

/// CLI11 has an argument's name and its validators' descriptions in one text: "N:INT in [1 - 64]".
Option option_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::string range = between(type, '[', ']');
  const auto dash = range.find(" - ");
  if (dash != std::string::npos) range.replace(dash, 3, " to ");
  Option out{.names = names_of(option),
             .argument = type.substr(0, type.find(':')),
             .choices = {},
             .range = std::move(range),
             .value = option.get_default_str(),
             .help = option.get_description(),
             .required = option.get_required(),
             .repeatable = option.get_items_expected_max() > 1};
  const std::string choices = between(type, '{', '}');
  if (!choices.empty()) out.choices = CLI::detail::split(choices, ',');
  return out;
}

Command command_of(const CLI::App& app, const std::string& name, const std::string& about) {
  Command command{.name = name, .about = about, .options = {}, .commands = {}};
  for (const CLI::Option* option : app.get_options()) command.options.push_back(option_of(*option));
  const auto is_shown = [](const CLI::App* inner) { return !inner->get_group().empty(); };
  for (const CLI::App* inner : app.get_subcommands(is_shown)) {
    command.commands.push_back(command_of(*inner, inner->get_name(), inner->get_description()));
  }
  return command;
}

void print_table(const CLI::App& app, const std::string& form) {
  const Command program = command_of(app, "starling", kAbout);
  const std::string text = form == "man"    ? manual_page(program, kVersion)
                           : form == "bash" ? bash_completion(program)
                                            : zsh_completion(program);
  std::fputs(text.c_str(), stdout);
}

/// Used by the build, not by people: files installed with the program.
void add_describe(CLI::App& app, std::string& form) {
  auto* command = app.add_subcommand("describe", "Print the table of commands in another form");
  command->group("");
  command->add_option("form", form, "man, bash or zsh")
      ->required()
      ->check(CLI::IsMember({"man", "bash", "zsh"}));
  command->callback([&app, &form] { print_table(app, form); });
}

/// The name of a command as typed, with its subcommand if it has one: "starling data encode".
std::pair<const CLI::App*, std::string> chosen_in(const CLI::App& app) {
  const CLI::App* chosen = &app;
  std::string name = "starling";
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    name += " " + chosen->get_name();
  }
  return {chosen, name};
}

/// Why a command rejects the arguments that it does not know.
std::string about_unknown(const CLI::App& command, const std::vector<std::string>& unknown) {
  const auto is_option = [](const std::string& text) { return text.starts_with('-'); };
  const auto option = std::ranges::find_if(unknown, is_option);
  if (option == unknown.end()) {
    const std::string& first = unknown.front();
    const bool key = first.find('=') != std::string::npos && command.get_option_no_throw("--set");
    return key ? fmt::format(
                     "'{0}' was not expected: each key needs an option of its own, --set {0}",
                     first)
               : fmt::format("'{}' was not expected", first);
  }
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  const std::string wrong = option->substr(0, option->find('='));
  return fmt::format(
      "{} is not an option of this command{}", wrong,
      starling::base::suggestion(wrong, std::vector<std::string_view>(names.begin(), names.end())));
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, name] = chosen_in(app);
  const std::vector<std::string> unknown = command->remaining();
  const bool extra =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !unknown.empty();
  std::fputs(fmt::format("{0}: {1}; `{0} --help` says more\n", name,
                         extra ? about_unknown(*command, unknown) : error.what())
                 .c_str(),
             stderr);
  return kUsageExit;
}

int run(int argc, char** argv, starling::peer::Conduct* conduct) {
  CLI::App app(std::string("Starling: ") + kAbout);
  app.set_version_flag("--version", std::string("starling ") + kVersion);
  app.require_subcommand(1);
  int code = 0;
  UpOptions up;
  up.peer.conduct = conduct;
  add_up(app, up, code);
  JoinOptions join;
  join.up.peer.conduct = conduct;
  add_join(app, join, code);
  RelayOptions relay;
  add_relay(app, relay, code);
  SwarmOptions swarm;
  add_swarm(app, swarm, code);
  QueryOptions query;
  add_queries(app, query, code);
  CheckOptions check;
  add_check(app, check, code);
  EvalOptions eval;
  add_eval(app, eval, code);
  ExportOptions exported;
  add_export(app, exported, code);
  SampleOptions sample;
  add_sample(app, sample, code);
  SimOptions sim;
  add_sim(app, sim, code);
  DataOptions data;
  add_data(app, data, code);
  DoctorOptions doctor;
  add_doctor(app, doctor, code);
  KeygenOptions keygen;
  add_keygen(app, keygen, code);
  BenchOptions bench;
  add_bench(app, bench, code);
  std::string mapped;
  add_map_port(app, mapped, code);
  std::string form;
  add_describe(app, form);
  // CLI11 would only say that a command is required.
  const auto is_asked_for = [&](CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_asked_for).empty()) {
    std::fprintf(stderr, "starling: '%s' is not a command; `starling --help` lists them\n",
                 argv[1]);
    return kUsageExit;
  }
  try {
    app.parse(argc, argv);  // and runs the command
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error);
  }
  return code;
}

/// The exit code, after all printed output has been written: a full disk does not take it.
int finish(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("starling: what it printed could not be written (is the disk full?)\n", stderr);
  return code == 0 ? kFailedExit : code;
}

}  // namespace

int starling::peers::run_program(int argc, char** argv, peer::Conduct* conduct) {
  open_missing_streams();
  take_bus_errors();
  try {
    return finish(run(argc, argv, conduct));
  } catch (const std::exception& error) {  // mostly out of memory
    std::fprintf(stderr, "starling: %s\n", error.what());
    return kFailedExit;
  }
}
