// The commands of `starling`, one file each. Only command_line.cpp reads the command line. Every
// command returns the exit code of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint_options.hpp"
#include "runtime/options.hpp"
#include "sim/conducts.hpp"
#include "wire/messages.hpp"

namespace starling::peers {

/// Runs the program with this command line; returns its exit code. `conduct`: of the peer that it
/// may be, as in runtime::Options.
int run_program(int argc, char** argv, peer::Conduct* conduct = nullptr);

struct UpOptions {
  std::string run_file;
  std::vector<std::string> set;  ///< "section.key=value"
  runtime::Options peer{.port_mapping = true};
  bool json = false;
  std::optional<wire::RunId> invited_to;  ///< it must be this run
  bool is_fetched = false;                ///< the run file just came; removed if of another run
};
int run_up(const UpOptions& options);

struct JoinOptions {
  std::string invite;
  std::string secret;  ///< file with the swarm's secret; empty: it has none
  UpOptions up;        ///< without a run file
};
int run_join(JoinOptions options);

struct RelayOptions {
  runtime::Options peer{.port_mapping = true};
  runtime::RelayOptions relay;
  std::string invite;  ///< empty: any run
};
int run_relay(RelayOptions options);

struct SwarmOptions {
  std::string run_file;
  std::uint32_t peers = 4;
  std::string dir;    ///< empty: runs/<run name>
  bool anew = false;  ///< delete what a former swarm left there, instead of continuing from it
  std::vector<std::string> set;
  bool json = false;
};
int run_swarm(const SwarmOptions& options);

struct QueryOptions {
  std::string what;  ///< "status", "members", "links", "invite", "leave" or "checkpoint"
  /// The address of its control port, or its folder; empty: the only peer that runs here.
  std::string peer;
  bool json = false;
};
int run_query(const QueryOptions& options);

struct CheckOptions {
  std::string run_file;
  std::vector<std::string> set;
  bool json = false;
};
int run_check(const CheckOptions& options);
/// `check --keys`: the reference of run files.
void print_keys();

struct EvalOptions {
  runtime::CheckpointOptions checkpoint;
  bool json = false;
};
int run_eval(const EvalOptions& options);

struct ExportOptions {
  std::string checkpoint;  ///< CheckpointOptions::path, but not a file
  std::string out;
};
int run_export(const ExportOptions& options);

struct SampleOptions {
  runtime::CheckpointOptions checkpoint;
  std::string prompt;  ///< the beginning of the text; empty: the beginning of a line
  std::uint32_t tokens = 512;
  double temperature = 0.8;
  std::uint32_t top_k = 0;  ///< 0: all
  std::uint64_t seed = 1;
};
int run_sample(const SampleOptions& options);

struct SimOptions {
  std::string scenario;                  ///< a file, or "random": drawn from the seed
  std::string judge;                     ///< instead of it: the log of a run with real peers
  std::optional<std::uint64_t> seed;     ///< instead of the scenario's
  std::vector<std::string> set;          ///< keys of the run file, instead of the scenario's
  std::string seeds;                     ///< "A..B": once with each seed
  std::string json;                      ///< file for the report; "-": stdout
  std::string program = "starling sim";  ///< in printed commands
  std::string more;                      ///< options at the end of printed commands
  std::string regressions;  ///< folder for failing scenarios, made smaller; empty: none
  bool plan = false;        ///< print the resolved scenario instead
  bool trace = false;
  sim::MakeConduct make_conduct{};  ///< plays hostile peers; empty: nobody does
};
int run_sim(const SimOptions& options);

struct DataOptions {
  std::string what;                ///< "train-vocabulary" or "encode"
  std::vector<std::string> texts;  ///< files, folders, or the name of a source of text
  std::uint32_t size = 0;          ///< train-vocabulary: tokens
  std::string vocabulary;          ///< encode: file
  std::string out;                 ///< file of the vocabulary, folder for the tokens
};
int run_data(const DataOptions& options);

struct DoctorOptions {
  std::string listen = "[::]:0";
  std::vector<std::string> join;  ///< addresses of peers that should be reached
  std::string secret;             ///< file with the swarm's secret; empty: it has none
  bool encrypted = true;          ///< false: the swarm has security.mode = "off"
  std::string proxy;              ///< as in runtime::Options
  bool port_mapping = true;       ///< test whether the router maps a port
  /// A running peer to be asked, as in QueryOptions.
  std::optional<std::string> peer;
  bool json = false;
};
int run_doctor(const DoctorOptions& options);

struct KeygenOptions {
  std::string out;  ///< the secret's file
};
int run_keygen(const KeygenOptions& options);

struct BenchOptions {
  std::string what;  ///< "compute", "codec" or "carriers"
  bool json = false;
  double seconds = 3.0;       ///< measuring time for each figure
  std::string only;           ///< compute: only this model; codec: this size; carriers: this one
  std::uint32_t threads = 1;  ///< compute
  bool bfloat16 = false;      ///< compute: products of bfloat16
  std::string device = "cpu";
  std::string network;  ///< carriers: file of the network namespace of the links' other ends
  std::string listen;   ///< carriers: host:port where these listen; empty: 127.0.0.1
};
/// `bench codec`: encode and commit compared with memcpy, on a GPU with a plain pass over its
/// memory; one figure per line.
int bench_codec(const BenchOptions& options);

/// `bench carriers`: latency, speed and processor time of a link over TCP and over UCX.
int bench_carriers(const BenchOptions& options);

/// `bench compute`: training throughput of presets.
int bench_compute(const BenchOptions& options);

}  // namespace starling::peers
