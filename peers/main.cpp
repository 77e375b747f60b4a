// The command line of `starling`: the only file that includes CLI11, which costs seconds to
// compile.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/parse_number.hpp"
#include "commands.hpp"
#include "version.hpp"

namespace {

using namespace starling::peers;

constexpr int kFailedExit = 1;
constexpr int kUsageExit = 2;

/// CLI::Range with bounds that NaN is not within.
CLI::Validator number_from(double min, double max) {
  const auto wrong = [min, max](const std::string& text) {
    const auto value = starling::base::parse_number<double>(text);
    if (value && *value >= min && *value <= max) return std::string();
    return fmt::format("{} is no number from {} to {}", text, min, max);
  };
  return {wrong, fmt::format("in [{} - {}]", min, max)};
}

/// A whole number that `Number` holds: CLI11 reads -1 as the largest one.
template <class Number>
CLI::Validator whole_number() {
  const auto wrong = [](const std::string& text) {
    if (starling::base::parse_number<Number>(text)) return std::string();
    return fmt::format("{} is no whole number from 0 to {}", text,
                       std::numeric_limits<Number>::max());
  };
  return {wrong, ""};
}

void add_set(CLI::App& command, std::vector<std::string>& set) {
  command
      .add_option("--set", set, "Override a key of the run file: section.key=value (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
}

/// How a peer is run, whatever it trains.
void add_peer(CLI::App& command, UpOptions& options) {
  command
      .add_option("--join", options.peer.join,
                  "Address host:port of any peer of the swarm (repeatable)")
      ->allow_extra_args(false);
  command.add_flag("--lan", options.peer.lan,
                   "Find peers of this run on the local network, by UDP multicast and broadcast");
  command.add_option("--listen", options.peer.listen, "Address to listen on; port 0: any free one")
      ->capture_default_str();
  command
      .add_option("--http", options.peer.http,
                  "Address of the page, /metrics and commands such as `starling status`; whoever "
                  "reaches it may read them")
      ->capture_default_str();
  command.add_option(
      "--name", options.peer.name,
      "Name of this peer (default: that of the host, with a number where others run)");
  command.add_option("--dir", options.peer.dir,
                     "Folder of this peer (default: runs/<run name>/<name>)");
  command.add_flag("--require-peers", options.peer.require_peers,
                   "Exit with 4 when no peer was reached within a minute");
  command.add_flag("--json", options.json, "Print the summary as JSON at the end");
  add_set(command, options.set);
}

void add_up(CLI::App& app, UpOptions& options) {
  auto* up = app.add_subcommand("up", "Run one peer: find the swarm, train, agree");
  up->add_option("run_file", options.run_file, "Run file (TOML)")->required();
  add_peer(*up, options);
}

void add_join(CLI::App& app, JoinOptions& options) {
  auto* join = app.add_subcommand(
      "join", "Run one peer of a swarm that hands out its run file; started again, it goes on");
  join->add_option("invite", options.invite,
                   "What `starling up` printed there, or `starling invite`")
      ->required();
  join->add_option("--secret", options.secret, "File with the swarm's secret, if it has one");
  add_peer(*join, options.up);
}

void add_swarm(CLI::App& app, SwarmOptions& options) {
  auto* swarm = app.add_subcommand(
      "swarm",
      "Run N local peers with one live table. They share out the cores: train.threads and "
      "swarm.wait_for are theirs to decide, but for --set");
  swarm->add_option("run_file", options.run_file, "Run file (TOML)")->required();
  swarm->add_option("-n,--peers", options.peers, "Number of peers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  swarm->add_option("--dir", options.dir, "Folder of the run (default: runs/<run name>)");
  swarm->add_flag("--anew", options.anew,
                  "Delete the folders of a former swarm's peers; without it peers go on from their "
                  "checkpoints");
  swarm->add_flag("--json", options.json, "Print the summary as JSON at the end");
  add_set(*swarm, options.set);
}

void add_queries(CLI::App& app, QueryOptions& options) {
  const std::pair<const char*, const char*> queries[] = {
      {"status", "What a running peer is doing"},
      {"members", "Who is in the swarm, as a running peer knows it"},
      {"links", "The links of a running peer"},
      {"invite", "What to type on another machine to join the swarm of a running peer"},
      {"leave", "Ask a running peer to save, say goodbye and end"},
      {"checkpoint", "Ask a running peer to save a checkpoint now"}};
  for (const auto& [name, text] : queries) {
    auto* query = app.add_subcommand(name, text);
    query->add_option("--peer", options.peer,
                      "Folder of the peer, or host:port of its control port (default: the only "
                      "one below runs/)");
    query->add_flag("--json", options.json, "Print JSON");
  }
}

void add_check(CLI::App& app, CheckOptions& options) {
  auto* check = app.add_subcommand("check", "Check a run file: layers, memory, bytes an exchange");
  check->add_option("run_file", options.run_file, "Run file (TOML)")->required();
  check->add_flag("--json", options.json, "Print JSON");
  add_set(*check, options.set);
}

void add_checkpoint(CLI::App& command, CheckpointOptions& options) {
  command
      .add_option("checkpoint", options.path,
                  "Folder of a checkpoint or of a peer (its newest one), or safetensors file")
      ->required();
  command.add_option("--run", options.run_file,
                     "Run file (default: the checkpoint's; a safetensors file needs it)");
  add_set(command, options.set);
}

void add_eval(CLI::App& app, EvalOptions& options) {
  auto* eval = app.add_subcommand("eval", "Evaluate trained weights on the whole test set");
  add_checkpoint(*eval, options.checkpoint);
  eval->add_flag("--json", options.json, "Print JSON");
}

void add_sample(CLI::App& app, SampleOptions& options) {
  auto* sample = app.add_subcommand("sample", "Write text from a language model");
  add_checkpoint(*sample, options.checkpoint);
  sample->add_option("--prompt", options.prompt, "What the text begins with");
  sample->add_option("--tokens", options.tokens, "How many tokens are added")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  sample
      ->add_option("--temperature", options.temperature,
                   "Below 1: likely tokens come more often; 0: always the likeliest")
      ->check(number_from(0, 100))
      ->capture_default_str();
  sample->add_option("--top-k", options.top_k, "Only so many of the likeliest tokens; 0: all")
      ->check(whole_number<std::uint32_t>())
      ->capture_default_str();
  sample->add_option("--seed", options.seed, "Another seed, another text")
      ->check(whole_number<std::uint64_t>())
      ->capture_default_str();
}

void add_export(CLI::App& app, ExportOptions& options) {
  auto* command = app.add_subcommand("export", "Write a checkpoint as a file that PyTorch loads");
  command
      ->add_option("checkpoint", options.checkpoint,
                   "Folder of a checkpoint or of a peer (its newest one)")
      ->required();
  command->add_option("--out", options.out, "The safetensors file to write")->required();
}

void add_sim(CLI::App& app, SimOptions& options) {
  auto* sim = app.add_subcommand("sim", "Run a scenario in the simulator");
  sim->add_option("scenario", options.scenario, "Scenario (TOML), or 'random': drawn from the seed")
      ->required();
  sim->add_option("--seed", options.seed, "Seed in place of the scenario's")
      ->check(whole_number<std::uint64_t>());
  sim->add_option("--seeds", options.seeds, "A..B: once with each of these seeds");
  sim->add_option("--json", options.json, "Write the report as JSON; -: to stdout");
  sim->add_option("--regressions", options.regressions,
                  "With --seeds: write failing scenarios, made smaller, to this folder");
  sim->add_flag("--plan", options.plan, "Print the resolved scenario as JSON and run nothing");
  sim->add_flag("--trace", options.trace, "Print every event");
}

void add_data(CLI::App& app, DataOptions& options) {
  auto* data = app.add_subcommand("data", "Prepare text for training");
  data->require_subcommand(1);
  const char* const texts = "Text files, folders of them, or bible-kjv: Debian's King James text";
  auto* train = data->add_subcommand("train-vocabulary",
                                     "Learn a vocabulary by byte-level byte-pair encoding");
  train->add_option("texts", options.texts, texts)->required();
  train->add_option("--size", options.size, "Tokens, the 256 bytes included")
      ->required()
      ->check(CLI::Range(257, 1 << 20));
  train->add_option("--out", options.out, "The vocabulary's file (JSON)")->required();
  auto* encode =
      data->add_subcommand("encode", "Write text as files of tokens, for data.source = \"tokens\"");
  encode->add_option("texts", options.texts, texts)->required();
  encode->add_option("--vocabulary", options.vocabulary, "A vocabulary's file")->required();
  encode->add_option("--out", options.out, "A folder without such files")->required();
  train->callback([&options] { options.what = "train-vocabulary"; });
  encode->callback([&options] { options.what = "encode"; });
}

void add_doctor(CLI::App& app, DoctorOptions& options) {
  auto* doctor = app.add_subcommand(
      "doctor", "Check what a peer needs: this machine, its links, and peers that it should reach");
  doctor->add_option("--listen", options.listen, "Address that a peer would listen on")
      ->capture_default_str();
  doctor
      ->add_option("--join", options.join,
                   "Address host:port of a peer that this machine should reach (repeatable)")
      ->allow_extra_args(false);
  doctor->add_option("--secret", options.secret, "File with the swarm's secret, if it has one");
  doctor->add_flag("!--not-encrypted", options.encrypted, "The swarm has security.mode = \"off\"");
  doctor->add_flag("--json", options.json, "Print JSON");
}

void add_keygen(CLI::App& app, KeygenOptions& options) {
  auto* keygen = app.add_subcommand("keygen", "Make a secret that alone lets peers into a swarm");
  keygen->add_option("file", options.out, "The file to write, for security.secret")->required();
}

int run_bench(const CLI::App& command, const BenchOptions& options) {
  if (options.what == "compute") return bench_compute(options);
  for (const char* option : {"--only", "--threads", "--bf16"}) {
    if (command.count(option) == 0) continue;
    std::fprintf(stderr, "starling bench: %s is for compute, not for codec\n", option);
    return kUsageExit;
  }
  return bench_codec(options);
}

void add_bench(CLI::App& app, BenchOptions& options) {
  auto* bench = app.add_subcommand("bench", "Measure a part on this machine");
  bench->add_option("what", options.what, "compute or codec")
      ->required()
      ->check(CLI::IsMember({"compute", "codec"}));
  bench->add_flag("--json", options.json, "Print one JSON object a line");
  bench->add_option(
      "--only", options.only,
      "compute: one model, cnn, mlp, resnet18 or gpt; on a GPU also resnet50 or gpt2");
  bench->add_option("--threads", options.threads, "compute: threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  bench->add_option("--device", options.device, "cpu, or cuda:0 and so on")->capture_default_str();
  bench->add_flag("--bf16", options.bfloat16, "compute: with train.precision = \"bf16\"");
  bench->add_option("--seconds", options.seconds, "Time for each figure")
      ->check(number_from(0.1, 600))
      ->capture_default_str();
}

int run(int argc, char** argv) {
  CLI::App app("Starling: peers that train one model together, with nobody in charge");
  app.set_version_flag("--version", std::string("starling ") + kVersion);
  app.require_subcommand(1);
  UpOptions up;
  JoinOptions join;
  SwarmOptions swarm;
  QueryOptions query;
  CheckOptions check;
  EvalOptions eval;
  ExportOptions exported;
  SampleOptions sample;
  SimOptions sim;
  DataOptions data;
  DoctorOptions doctor;
  KeygenOptions keygen;
  BenchOptions bench;
  add_up(app, up);
  add_join(app, join);
  add_swarm(app, swarm);
  add_queries(app, query);
  add_check(app, check);
  add_eval(app, eval);
  add_export(app, exported);
  add_sample(app, sample);
  add_sim(app, sim);
  add_data(app, data);
  add_doctor(app, doctor);
  add_keygen(app, keygen);
  add_bench(app, bench);
  // CLI11 would only say that a command is required.
  const auto is_asked_for = [&](CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_asked_for).empty()) {
    std::fprintf(stderr, "starling: '%s' is not a command; `starling --help` lists them\n",
                 argv[1]);
    return kUsageExit;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageExit;
  }
  const CLI::App& chosen = *app.get_subcommands().front();
  const std::string command = chosen.get_name();
  if (command == "up") return run_up(up);
  if (command == "join") return run_join(join);
  if (command == "swarm") return run_swarm(swarm);
  if (command == "check") return run_check(check);
  if (command == "eval") return run_eval(eval);
  if (command == "export") return run_export(exported);
  if (command == "sample") return run_sample(sample);
  if (command == "sim") return run_sim(sim);
  if (command == "data") return run_data(data);
  if (command == "doctor") return run_doctor(doctor);
  if (command == "keygen") return run_keygen(keygen);
  if (command == "bench") return run_bench(chosen, bench);
  query.what = command;
  return run_query(query);
}

/// The exit code, once all that was printed has been taken: by a full disk it is not.
int finish(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("starling: what it printed could not be written (is the disk full?)\n", stderr);
  return code == 0 ? kFailedExit : code;
}

/// What is opened first must not get the number of stdout, and what is printed with it.
void open_missing_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_missing_streams();
  try {
    return finish(run(argc, argv));
  } catch (const std::exception& error) {  // no memory, above all
    std::fprintf(stderr, "starling: %s\n", error.what());
    return kFailedExit;
  }
}
