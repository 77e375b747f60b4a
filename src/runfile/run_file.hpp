// The run file: the TOML file that describes a run, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "data/config.hpp"
#include "exchange/config.hpp"
#include "membership/config.hpp"
#include "membership/limits.hpp"
#include "model/spec.hpp"
#include "reach/config.hpp"
#include "train/config.hpp"

namespace starling::runfile {

inline constexpr std::uint64_t kRunFileBytesMax = 1 << 20;
/// Peers of a ring: each is a neighbour of all others from the start.
inline constexpr std::uint32_t kFixedPeersMax = membership::kDegreeMax + 1;
/// Of the algorithm and of its deltas' format: peers that would not read each other's, or whose
/// mirrors would come out differently, must not meet.
inline constexpr std::uint32_t kExchangeVersion = 5;
/// And in a ring.
inline constexpr std::uint32_t kRingVersion = 2;

/// Letters, digits, '.', '_' and '-': of names that folders have.
[[nodiscard]] bool may_be_in_name(char c) noexcept;

/// [run]: what the run is called and how long it is. One of epochs and samples is given.
struct RunConfig {
  std::string name = "run";    ///< letters, digits, '.', '_' and '-': part of folder names
  std::uint64_t seed = 1;      ///< of initial parameters, shards and orders
  double epochs = 0;           ///< passes over the training set, over the swarm; 0: not given
  std::uint64_t samples = 0;   ///< over the swarm; 0: not given
  double target_accuracy = 0;  ///< 0 to 1: ends the run when reached; 0: no target

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

enum class Security { off, tls };

/// [checkpoint]
struct CheckpointConfig {
  base::Duration every = std::chrono::seconds(60);  ///< between two checkpoints; 0: only at the end
  std::uint32_t keep = 2;                           ///< newest checkpoints that are kept

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// [report]
struct ReportConfig {
  double every = 1.0;  ///< epochs of the swarm between two evaluations; 0: only at the end
  /// Test samples of an evaluation on the way, 0: all. The last evaluation takes all.
  std::uint32_t samples = 2000;

  friend bool operator==(const ReportConfig&, const ReportConfig&) = default;
};

inline constexpr char kFabricAuto[] = "auto";
inline constexpr char kFabricNone[] = "none";
/// A peer listens on so many ports of a fabric: one of UCX's connection manager, one for data.
inline constexpr unsigned kFabricPortsMin = 2;

/// [links]
struct LinksConfig {
  /// Whether links may go over UCX: kFabricAuto, between peers of one machine and user, or of one
  /// private subnet of a closed swarm; kFabricNone; or the name of a fabric, at both ends the same.
  std::string fabric = kFabricAuto;
  /// Where UCX may listen, "LO-HI"; empty: on any port. As base::parse_port_range reads it.
  std::string fabric_ports;

  friend bool operator==(const LinksConfig&, const LinksConfig&) = default;
};

/// [limits]
struct LimitsConfig {
  std::uint64_t link_memory = std::uint64_t{16} << 20;  ///< bytes a link may buffer
  /// Of this peer, on whole batches, to leave the machine usable: 1e-5 or more; 0: no limit.
  double steps_per_second = 0;

  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

/// A whole run file, checked: every value is in its range.
struct RunFile {
  RunConfig run;
  model::Spec model;
  std::string init;  ///< model.init: safetensors file to start from; empty: drawn from run.seed
  data::Config data;
  train::Config train;
  exchange::Config exchange;
  membership::Config swarm;
  /// swarm.peers: how many a ring (exchange::uses_ring) has, 2 to kFixedPeersMax; 0: any number.
  std::uint32_t peers = 0;
  Security security = Security::tls;
  /// security.secret: file with what peers must have to get in; empty: all may.
  std::string secret;
  LinksConfig links;
  CheckpointConfig checkpoint;
  ReportConfig report;
  reach::Config relay;
  LimitsConfig limits;
  /// Another program trains, which embeds this peer: its model, data and optimizer are its own.
  bool embedded = false;

  friend bool operator==(const RunFile&, const RunFile&) = default;
};

/// Reads and checks a run file. `overrides` ("section.key=value", later ones win) replace what it
/// says; a value is TOML, and what is not TOML is taken as a string. run.epochs and run.samples
/// replace each other. `embedded`: as RunFile has it. Errors name the place (file and line, or the
/// override), what is wrong, what is allowed and, for an unknown key, the most similar one:
/// ErrorCode::run_file, or usage for an override without '='. A key of earlier versions
/// (runfile/removed_keys.hpp) is passed over where its value asks for nothing. Another value is an
/// error; in a file that a peer wrote, for which `notes` is given, a line is added there instead.
[[nodiscard]] base::Result<RunFile> read_run_file(const std::string& path,
                                                  std::span<const std::string> overrides = {},
                                                  bool embedded = false,
                                                  std::vector<std::string>* notes = nullptr);

/// The same for a text, `name` standing for the path in messages.
[[nodiscard]] base::Result<RunFile> parse_run_file(std::string_view text, const std::string& name,
                                                   std::span<const std::string> overrides = {},
                                                   bool embedded = false,
                                                   std::vector<std::string>* notes = nullptr);

/// The run file as TOML with every key that has a meaning in it; parse_run_file makes an equal
/// RunFile of it.
[[nodiscard]] std::string to_toml(const RunFile& run_file);

/// Samples over the swarm after which the run ends, for a training set of that size; at least 1.
[[nodiscard]] std::uint64_t target_samples(const RunFile& run_file, std::uint64_t training_set);

/// Values that must agree across the swarm besides the run file.
struct Identity {
  base::Hash128 dataset;                ///< data::Dataset::identity
  std::uint64_t parameters = 0;         ///< XXH3 of the initial parameters' float32 bytes
  std::optional<base::Hash128> init{};  ///< of the file that they come from, if they do
  /// Of an embedding program's buffers, if it has any; those of a model follow from it.
  std::optional<std::uint64_t> buffers{};
};

/// Lines "section.key = value", sorted, of what must agree across the swarm. Not in it: device,
/// threads, addresses, limits, folders, cadence, density; and how an optimizer is set, except in a
/// ring, whose peers must take the same steps and end at the same one.
[[nodiscard]] std::string canonical(const RunFile& run_file, const Identity& identity);

/// Names the run: XXH3-128 of its canonical form.
[[nodiscard]] base::Hash128 run_id(std::string_view canonical);

/// The differences of two canonical forms, a line each: "train.optimizer: sgd here, adamw
/// there"; empty if nothing does. `there` may come from a stranger: at most kDiffLinesMax lines
/// of kDiffTextMax printable characters a value come out. Where it has wire::kCanonicalMax bytes,
/// it was cut to them on its way: its whole lines are compared, and a last line says so.
[[nodiscard]] std::string diff(std::string_view here, std::string_view there);

inline constexpr std::size_t kDiffLinesMax = 64;
inline constexpr std::size_t kDiffTextMax = 80;

}  // namespace starling::runfile
