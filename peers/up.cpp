// starling up: one peer, from its run file to its summary.
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "commands.hpp"
#include "compute/program.hpp"
#include "control_client.hpp"
#include "data/loader.hpp"
#include "io/interfaces.hpp"
#include "io/node.hpp"
#include "io/record_signer.hpp"
#include "membership/limits.hpp"
#include "needs.hpp"
#include "peer/buffers.hpp"
#include "peer/run_file.hpp"
#include "problem.hpp"
#include "report/format.hpp"
#include "report/log.hpp"
#include "report/metrics.hpp"
#include "report/status_json.hpp"
#include "report/summary.hpp"
#include "train/checkpoint.hpp"
#include "train/weights.hpp"
#include "wire/messages.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

constexpr base::Duration kRequirePeers = std::chrono::minutes(1);
/// Of a frame or a link's queue, beside what grows with the model: scales, headers, small frames.
constexpr std::size_t kPayloadSlack = 64 * 1024;
/// Bytes a parameter that may wait on a link: keyframes and dense deltas, or two parts of a ring
/// of two peers.
constexpr std::size_t kQueuedPerParameter = 3;
constexpr std::size_t kQueuedPerParameterAllReduce = 8;
/// Times that the buffers may wait on a link: with deltas and a keyframe, or parts of a ring.
constexpr std::size_t kQueuedBuffers = 3;

std::string default_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string name = fmt::format("{}-{}", host.data(), getpid());
  return name.substr(0, wire::kNameMax);
}

/// Seconds since this process was started, counted by the kernel in hundredths.
double process_age() {
  const auto stat = base::read_file("/proc/self/stat", 1 << 16);
  timespec now{};
  if (!stat || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const std::string text(reinterpret_cast<const char*>(stat->data()), stat->size());
  // Field 22; the second one, in parentheses, may hold anything.
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const double started =
      std::strtod(text.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

report::BytesByPurpose by_purpose(const io::Bytes& bytes) {
  const auto of = [&](wire::Purpose purpose) { return bytes[static_cast<std::size_t>(purpose)]; };
  report::BytesByPurpose result{.delta = of(wire::Purpose::delta),
                                .keyframe = of(wire::Purpose::keyframe),
                                .membership = of(wire::Purpose::membership),
                                .reduce = of(wire::Purpose::reduce),
                                .other = of(wire::Purpose::other)};
  for (const std::uint64_t count : bytes) result.total += count;
  return result;
}

/// "accuracy 88.46%", for text also in its units.
std::string quality_text(const report::PeerSummary& summary) {
  if (!summary.accuracy) return "not evaluated";
  std::string text = "accuracy " + report::format_percent(*summary.accuracy, 2);
  if (summary.language) {
    text += fmt::format(", perplexity {:.2f}, {:.4f} bits a byte", summary.language->perplexity,
                        summary.language->bits_per_byte);
  }
  return text;
}

/// Everything that a peer's run needs, in the order in which it is made.
struct Run {
  const UpOptions& options;
  peer::RunFile run_file{};
  std::string name{};
  std::string dir{};
  std::optional<io::Identity> identity{};
  std::optional<Problem> problem{};
  train::Weights initial{};
  exchange::BufferSpec buffers{};
  std::string canonical{};
  wire::RunId run_id{};
  std::optional<data::Shards> shards{};
  std::optional<train::Checkpoint> checkpoint{};
  std::optional<report::Log> log{};
  std::optional<report::MetricsFile> metrics{};
  std::unique_ptr<io::Node> node{};
  base::Time created{};  ///< when `age` was measured
  double age = 0;        ///< of the process, seconds
  std::vector<report::HistoryPoint> history{};

  base::Status prepare();
  base::Status open_folder();
  base::Status choose_device();
  void load_checkpoint();
  base::Status open_node();
  peer::Config core_config() const;
  io::TrainerThread::MakeWorker make_worker(data::Loader& loader);
  base::Status save(const peer::Snapshot& snapshot) const;
  base::Status restore(exchange::Replica& replica, train::UpdateRule& rule) const;
  void on_report(const peer::Status& status);
  report::StatusExtra extra(const peer::Status& status, const io::Node& node) const;
  io::ControlReply serve(const io::ControlRequest& request, const io::Node& node) const;
  report::PeerSummary summary(const io::NodeEnd& end) const;
  int finish(const io::NodeEnd& end);
};

base::Status Run::prepare() {
  auto read = peer::read_run_file(options.run_file, options.set);
  if (!read) return fail(read.error());
  run_file = std::move(*read);
  for (const std::string& address : options.join) run_file.swarm.join.push_back(address);
  if (exchange::uses_ring(run_file.exchange.mode)) {
    if (run_file.peers == 0) {
      return fail(ErrorCode::run_file,
                  "{}: an all-reduce needs its number of peers: set "
                  "swarm.peers",
                  options.run_file);
    }
    run_file.swarm.degree = std::max(1U, run_file.peers - 1);
  }
  if (auto opened = open_folder(); !opened) return opened;
  if (auto chosen = choose_device(); !chosen) return chosen;
  auto loaded = load_problem(run_file, options.run_file, fs::path(dir).parent_path() / ".cache");
  if (!loaded) return fail(loaded.error());
  problem.emplace(std::move(*loaded));
  auto start = train::initial_weights(problem->model, run_file.run.seed, run_file.init);
  if (!start) return fail(start.error());
  initial = std::move(start->weights);
  auto spec = peer::buffer_spec(problem->model.graph, initial.buffers);
  if (!spec) return fail(spec.error().in("model.init"));
  buffers = std::move(*spec);
  const std::uint64_t parameters = base::xxh3(std::as_bytes(std::span(initial.parameters)));
  canonical = peer::canonical(run_file, {problem->dataset.identity, parameters, start->file});
  run_id = peer::run_id(canonical);
  const data::SampleSet& train = *problem->dataset.train;
  shards.emplace(train.size(), train.labels(), run_file.data, run_file.run.seed);
  load_checkpoint();
  return open_node();
}

base::Status Run::open_folder() {
  name = options.name.empty() ? default_name() : options.name;
  if (name.size() > wire::kNameMax) {
    return fail(ErrorCode::usage, "--name: at most {} bytes", wire::kNameMax);
  }
  dir = options.dir.empty() ? "runs/" + run_file.run.name + "/" + name : options.dir;
  if (dir.ends_with('/')) dir.pop_back();
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) return fail(ErrorCode::data, "cannot create {}: {}", dir, failed.message());
  const std::string toml = peer::to_toml(run_file);
  const base::ByteView parts[] = {base::bytes_of(toml.data(), toml.size())};
  if (auto written = base::replace_file(dir + "/run.toml", parts); !written) return written;
  auto own = io::Identity::load_or_create(dir);
  if (!own) return fail(own.error());
  identity.emplace(std::move(*own));
  auto opened = report::Log::open(dir);
  if (!opened) return fail(opened.error());
  log.emplace(std::move(*opened));
  return {};
}

/// What "auto" comes to is decided once, before anything takes long.
base::Status Run::choose_device() {
  const auto device = compute::open_device(run_file.train.device);
  if (!device) return fail(device.error());
  run_file.train.device = device->name;
  const bool rounds =
      run_file.train.precision == compute::Precision::bfloat16 && device->backend->has_bfloat16();
  log->event(report::Level::info, "device",
             {{"name", std::string_view(device->name)},
              {"about", std::string_view(device->about)},
              {"precision", std::string_view(rounds ? "bf16" : "float32")}});
  return {};
}

base::Status Run::open_node() {
  const std::size_t per_parameter = exchange::uses_ring(run_file.exchange.mode)
                                        ? kQueuedPerParameterAllReduce
                                        : kQueuedPerParameter;
  const std::size_t buffer_bytes = initial.buffers.size() * sizeof(float);
  io::Node::Options made;
  made.transport = {
      .listen = options.listen,
      .tls = run_file.security == peer::Security::tls,
      .link_memory = std::max<std::size_t>(run_file.limits.link_memory,
                                           per_parameter * initial.parameters.size() +
                                               kQueuedBuffers * buffer_bytes + kPayloadSlack),
      .payload_max = 2 * initial.parameters.size() + buffer_bytes + kPayloadSlack};
  made.observer = {
      .note =
          [this](peer::Level level, const std::string& text) {
            log->event(level == peer::Level::warning ? report::Level::warning : report::Level::info,
                       "note", {{"text", std::string_view(text)}});
          },
      .report = [this](const peer::Status& status) { on_report(status); },
      .refused =
          [this](const peer::Refused& refused) {
            fmt::print(stderr, "starling up: the swarm at {} trains another run:\n{}",
                       refused.address, peer::diff(canonical, refused.canonical));
          }};
  if (options.lan) made.lan = run_id;
  made.serve = [this](const io::ControlRequest& request, const io::Node& asked) {
    return serve(request, asked);
  };
  auto opened = io::Node::create(*identity, std::move(made));
  if (!opened) return fail(opened.error());
  node = std::move(*opened);
  return write_peer_file(dir, {.name = name,
                               .address = io::reachable_addresses(node->address(), 1).front(),
                               .control = node->control_address(),
                               .pid = getpid()});
}

base::Status Run::save(const peer::Snapshot& snapshot) const {
  const compute::Graph& graph = problem->model.graph;
  const auto& tensors = graph.tensors;
  std::vector<train::TensorView> model = train::tensor_views(tensors, snapshot.parameters);
  for (auto& view : train::tensor_views(graph.buffers, snapshot.buffers)) {
    model.push_back(std::move(view));
  }
  std::vector<train::TensorView> state;
  const auto pieces = snapshot.rule->state();
  if (!pieces) return fail(pieces.error());
  for (const train::UpdateRule::State& piece : *pieces) {
    state.push_back({piece.name, piece.shape, std::span<const float>(piece.values)});
  }
  static_assert(membership::kRememberedMax <= train::kCheckpointAddressesMax);
  static_assert(wire::kAddressMax <= train::kCheckpointAddressBytesMax);
  return train::save_checkpoint(
      dir + "/checkpoints",
      {.run = run_id,
       .step = snapshot.step,
       .optimizer_steps = snapshot.rule->steps(),
       .samples = snapshot.samples,
       .progress = snapshot.progress,
       .addresses = {snapshot.addresses.begin(), snapshot.addresses.end()}},
      model, state, run_file.checkpoint.keep);
}

void Run::load_checkpoint() {
  auto loaded = train::load_latest_checkpoint(dir + "/checkpoints", run_id);
  for (const std::string& note : loaded.notes) {
    log->event(report::Level::warning, "checkpoint_passed_over",
               {{"text", std::string_view(note)}});
  }
  checkpoint = std::move(loaded.checkpoint);
}

/// Puts the checkpoint's tensors in place.
base::Status Run::restore(exchange::Replica& replica, train::UpdateRule& rule) const {
  const compute::Graph& graph = problem->model.graph;
  const auto& tensors = graph.tensors;
  auto read = train::read_tensors(checkpoint->model, tensors, replica.trained());
  std::vector<float> statistics(graph.buffer_count);
  if (read) read = train::read_tensors(checkpoint->model, graph.buffers, statistics);
  if (read) read = replica.buffers().set(statistics, ErrorCode::data);
  if (!read) return read;
  return rule.restore(checkpoint->optimizer, checkpoint->state.optimizer_steps);
}

io::TrainerThread::MakeWorker Run::make_worker(data::Loader& loader) {
  return [this, &loader]() -> base::Result<std::unique_ptr<peer::Worker>> {
    auto trainer = train::Trainer::create(problem->model.graph, run_file.train);
    if (!trainer) return fail(trainer.error());
    exchange::Replica replica =
        exchange::make_replica(initial.parameters, run_file.exchange, buffers);
    base::StepNumber step;
    if (checkpoint) {
      if (auto restored = restore(replica, trainer->rule()); !restored) {
        return fail(restored.error());
      }
      step = checkpoint->state.step;
    }
    if (may_reside(run_file)) {
      const auto memory = trainer->reside(run_file.exchange.mirror);
      if (!memory) return fail(memory.error());
      if (*memory != nullptr) replica.move_to(**memory);
      if (!replica.status()) return fail(replica.status().error());
    }
    return std::make_unique<peer::Worker>(
        std::move(*trainer), std::move(replica), loader, *problem->dataset.test,
        [this](const peer::Snapshot& snapshot) { return save(snapshot); }, step);
  };
}

peer::Config Run::core_config() const {
  const std::uint64_t epoch = problem->dataset.train->size();
  peer::Config config{.run = run_id,
                      .canonical = canonical,
                      .parameters_hash = base::xxh3(std::as_bytes(std::span(initial.parameters))),
                      .parameter_count = initial.parameters.size(),
                      .buffer_count = initial.buffers.size(),
                      .target_samples = peer::target_samples(run_file, epoch),
                      .exchange = run_file.exchange,
                      .membership = run_file.swarm,
                      .train = run_file.train,
                      .peers = run_file.peers,
                      .report_every = static_cast<std::uint64_t>(run_file.report.every *
                                                                 static_cast<double>(epoch)),
                      .report_samples = run_file.report.samples,
                      .require_peers = options.require_peers ? kRequirePeers : base::Duration{},
                      .checkpoint_every = run_file.checkpoint.every};
  if (run_file.limits.steps_per_second > 0) {
    config.step_interval = base::from_seconds(1 / run_file.limits.steps_per_second);
  }
  if (run_file.run.target_accuracy > 0) config.target_accuracy = run_file.run.target_accuracy;
  const bool expects_others = options.lan || !config.membership.join.empty();
  if (config.membership.wait_for == 0 && expects_others) config.membership.wait_for = 1;
  return config;
}

void Run::on_report(const peer::Status& status) {
  const io::LinkTraffic traffic = node->traffic();
  const double seconds =
      status.training_since ? base::seconds(io::Loop::now() - *status.training_since) : 0;
  if (status.accuracy && history.size() < report::kHistoryMax) {
    history.push_back({.seconds = seconds,
                       .samples = status.samples,
                       .accuracy = *status.accuracy,
                       .loss = *status.loss,
                       .bytes_sent = traffic.sent_total()});
  }
  const auto written = metrics->append({.seconds = seconds,
                                        .samples = status.samples,
                                        .steps = status.steps,
                                        .loss = status.loss,
                                        .train_loss = status.train_loss,
                                        .accuracy = status.accuracy,
                                        .lr = status.learning_rate,
                                        .drift = status.drift,
                                        .links = static_cast<std::uint32_t>(status.links.size()),
                                        .bytes_sent = traffic.sent_total(),
                                        .bytes_received = traffic.received_total(),
                                        .exchanges = status.exchanges});
  if (!written) {
    log->event(report::Level::warning, "metrics_not_written",
               {{"text", std::string_view(written.error().text)}});
  }
}

report::StatusExtra Run::extra(const peer::Status& status, const io::Node& asked) const {
  report::StatusExtra made{.address = asked.address(),
                           .bytes_per_label = problem->dataset.bytes_per_label};
  if (status.training_since) {
    made.seconds = base::seconds(io::Loop::now() - *status.training_since);
    const double trained =
        status.last_step ? base::seconds(*status.last_step - *status.training_since) : 0;
    if (trained > 0) {
      const std::uint64_t before = checkpoint ? checkpoint->state.samples : 0;
      made.samples_per_second = static_cast<double>(status.samples - before) / trained;
    }
  }
  const io::LinkTraffic all = asked.traffic();
  made.bytes_sent = by_purpose(all.sent);
  made.bytes_received = by_purpose(all.received);
  for (const peer::LinkStatus& link : status.links) {
    const io::LinkTraffic one = asked.traffic(link.link);
    made.link_sent.push_back(by_purpose(one.sent));
    made.link_received.push_back(by_purpose(one.received));
  }
  return made;
}

io::ControlReply Run::serve(const io::ControlRequest& request, const io::Node& asked) const {
  const peer::Status status = asked.status();
  if (request.path == "/status") return {200, report::status_json(status, extra(status, asked))};
  if (request.path == "/members") return {200, report::members_json(status)};
  if (request.path == "/links") return {200, report::links_json(status, extra(status, asked))};
  return {404, "{\"error\":\"no such path\"}\n"};
}

report::PeerSummary Run::summary(const io::NodeEnd& end) const {
  const peer::Status& status = end.status;
  const io::LinkTraffic& traffic = end.traffic;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report::PeerSummary made{.name = name,
                           .id = identity->id().hex(),
                           .run = run_id.hex(),
                           .end = end.reason == peer::EndReason::done     ? "done"
                                  : end.reason == peer::EndReason::left   ? "left"
                                  : end.error.code == ErrorCode::diverged ? "diverged"
                                                                          : "failed",
                           .accuracy = status.whole_test_set ? status.accuracy : std::nullopt,
                           .loss = status.whole_test_set ? status.loss : std::nullopt,
                           .samples = status.samples,
                           .steps = status.steps,
                           .bytes_sent = by_purpose(traffic.sent),
                           .bytes_received = by_purpose(traffic.received),
                           .exchanges = status.exchanges,
                           .rss_max_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024,
                           .history = history};
  made.language = report::language_quality(made.loss, problem->dataset.bytes_per_label);
  made.drift = status.drift;
  if (status.training_since && status.last_step) {
    made.seconds = base::seconds(*status.last_step - *status.training_since);
  }
  if (status.first_step) {
    made.seconds_to_first_step = age + base::seconds(*status.first_step - created);
  }
  return made;
}

int Run::finish(const io::NodeEnd& end) {
  const report::PeerSummary made = summary(end);
  if (const auto written = report::write_summary(dir, made); !written) {
    fmt::print(stderr, "starling up: {}\n", written.error().text);
  }
  if (end.reason == peer::EndReason::failed) {
    log->event(report::Level::error, "failed", {{"text", std::string_view(end.error.text)}});
    return base::exit_code(end.error.code);
  }
  if (options.json) {
    fmt::print("{}", report::to_json(made));
  } else {
    fmt::print("{}: {} after {} steps, {} samples, {}; sent {}\n", name, made.end, made.steps,
               made.samples, quality_text(made), report::format_bytes(made.bytes_sent.total));
    fmt::print("results are in {}\n", dir);
  }
  return 0;
}

base::Result<int> run(const UpOptions& options) {
  Run run{options};
  run.age = process_age();
  run.created = io::Loop::now();
  if (auto prepared = run.prepare(); !prepared) return fail(prepared.error());
  auto metrics =
      report::MetricsFile::open(run.dir, run.checkpoint ? report::MetricsFile::Start::continued
                                                        : report::MetricsFile::Start::fresh);
  if (!metrics) return fail(metrics.error());
  run.metrics.emplace(std::move(*metrics));

  const base::PeerId& id = run.identity->id();
  wire::MemberRecord self{
      .id = id,
      .name = run.name,
      .addresses = io::reachable_addresses(run.node->address(), wire::kAddressesMax),
      // A restarted peer must be newer than what others know of it.
      .incarnation = static_cast<std::uint64_t>(time(nullptr))};
  if (!options.json) {
    fmt::print("peer {} ({}), run {}; others join with:\n  starling up {} --join {}\n", run.name,
               id.brief(), run.run_id.hex().substr(0, 8), options.run_file, self.addresses.front());
    std::fflush(stdout);
  }
  run.log->event(
      report::Level::info, "started",
      {{"name", std::string_view(run.name)}, {"address", std::string_view(run.node->address())}});
  io::RecordSigner signer(*run.identity);
  peer::Resume resume;
  if (run.checkpoint) {
    const train::CheckpointState& state = run.checkpoint->state;
    resume = {state.step, state.samples, state.progress, state.addresses};
  }
  data::Loader loader(*run.problem->dataset.train, *run.shards, run.run_file.train.batch,
                      data::Loader::peer_seed(run.run_file.run.seed, id, resume.samples), {},
                      run.run_file.data.augmentation);
  auto core = std::make_unique<peer::Core>(run.core_config(), std::move(self), *run.shards, resume,
                                           signer, base::Rng(id.prefix() ^ run.run_file.run.seed));
  const io::NodeEnd end = run.node->run(std::move(core), run.make_worker(loader));
  loader.stop();
  return run.finish(end);
}

}  // namespace

int run_up(const UpOptions& options) {
  const auto code = run(options);
  if (code) return *code;
  fmt::print(stderr, "starling up: {}\n", code.error().text);
  return base::exit_code(code.error().code);
}

}  // namespace starling::peers
