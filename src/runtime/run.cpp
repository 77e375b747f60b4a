#include "runtime/run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/port_range.hpp"
#include "io/address.hpp"
#include "peer/conduct.hpp"
#include "report/print_at_once.hpp"
#include "runtime/addresses_file.hpp"
#include "train/optimizer.hpp"
#include "train/weights.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {
namespace {

using base::ErrorCode;
using base::fail;

constexpr base::Duration kRequirePeers = std::chrono::minutes(1);
/// Of a frame or a link's queue, beside the parts that grow with the model: scales, headers, small
/// frames.
constexpr std::size_t kPayloadSlack = 64 * 1024;
/// Bytes per parameter that may wait on a link: keyframes and dense deltas, or two parts of a ring
/// of two peers.
constexpr std::size_t kQueuedPerParameter = 3;
constexpr std::size_t kQueuedPerParameterAllReduce = 8;
/// How many times the buffers may wait on a link: with deltas and a keyframe, or parts of a ring.
constexpr std::size_t kQueuedBuffers = 3;
constexpr std::size_t kRunBrief = 8;  ///< digits of a run id in messages

}  // namespace

base::Status check_join(const runfile::RunFile& run_file) {
  return check_targets(run_file.swarm.join, ErrorCode::run_file, "swarm.join");
}

base::Result<std::unique_ptr<Run>> Run::open(runfile::RunFile run_file, Options options) {
  if (auto checked = check_join(run_file); !checked) return fail(checked.error());
  auto own = take_belongings(run_file.run.name, run_file.secret, options);
  if (!own) return fail(own.error());
  for (const std::string& address : options.join) run_file.swarm.join.push_back(address);
  if (options.conduct != nullptr) options.conduct->arrange(run_file.exchange);
  return std::unique_ptr<Run>(new Run(std::move(run_file), std::move(options), std::move(*own)));
}

Run::Run(runfile::RunFile run_file, Options options, Belongings own)
    : started_(io::Loop::now() - base::from_seconds(options.age)),
      run_file_(std::move(run_file)),
      options_(std::move(options)),
      name_(std::move(own.place.name)),
      dir_(std::move(own.place.dir)),
      lock_(std::move(own.place.lock)),
      secret_(own.secret),
      proxy_(std::move(own.proxy)),
      identity_(std::move(own.identity)),
      log_(std::move(own.log)) {}

Run::~Run() = default;

base::Status Run::prepare(Task task) {
  task_ = std::move(task);
  canonical_ = runfile::canonical(run_file_, task_.identity);
  run_id_ = runfile::run_id(canonical_);
  shards_.emplace(task_.samples, task_.labels, run_file_.data, run_file_.run.seed,
                  peer::audits(run_file_));
  const auto trained = train::checkpointed_runs(dir_ + "/checkpoints");
  if (!trained) return fail(trained.error());
  for (const base::Hash128& other : *trained) {
    if (other == run_id_) continue;
    return fail(ErrorCode::usage,
                "{}: holds checkpoints of another run ({}), this is run {}; give another --name or "
                "--dir, or move what is there away (starling swarm: --anew deletes it)",
                dir_, other.hex().substr(0, kRunBrief), run_id_.hex().substr(0, kRunBrief));
  }
  if (auto loaded = load_checkpoint(); !loaded) return loaded;
  if (auto written = base::replace_file(dir_ + "/run.toml", runfile::to_toml(run_file_));
      !written) {
    return fail(written.error());
  }
  auto recorder = Recorder::open({.dir = dir_,
                                  .name = name_,
                                  .id = id(),
                                  .run = run_id_,
                                  .bytes_per_label = task_.bytes_per_label,
                                  .started = started_},
                                 checkpoint_ ? &checkpoint_->state : nullptr, log_);
  if (!recorder) return fail(recorder.error());
  recorder_.emplace(std::move(*recorder));
  return open_node();
}

base::Status Run::load_checkpoint() {
  auto loaded = train::load_latest_checkpoint(dir_ + "/checkpoints", run_id_);
  for (const std::string& note : loaded.notes) warn("checkpoint_passed_over", note);
  checkpoint_ = std::move(loaded.checkpoint);
  damaged_ = std::move(loaded.damaged);
  if (!checkpoint_) return {};
  // Names are not part of the run's id. If this were reported later, run.toml would already have
  // the new ones.
  for (const auto tensors : {task_.tensors, task_.buffer_tensors}) {
    if (auto there = train::check_has(checkpoint_->model, tensors); !there) {
      return fail(ErrorCode::data,
                  "{}; give the layers (model.layers: name) the names that they had, or train in "
                  "another --dir",
                  there.error().text);
    }
  }
  const train::CheckpointState& state = checkpoint_->state;
  log_.event(
      report::Level::info, "resumed",
      {{"step", state.step.value}, {"samples", state.samples}, {"progress", state.progress}});
  if (state.progress >= 1) {
    warn("run_is_over",
         fmt::format("{}: this run is over, and has been trained here; another --name or --dir "
                     "trains anew",
                     dir_));
  }
  return {};
}

std::vector<std::string> Run::load_addresses() {
  auto loaded = read_addresses(dir_);
  if (loaded) return std::move(*loaded);
  warn("addresses_passed_over", loaded.error().text + "; the file is passed over");
  return {};
}

void Run::warn(std::string_view event, std::string_view text) {
  log_.event(report::Level::warning, event, {{"text", text}});
}

std::uint64_t Run::samples_before() const noexcept {
  return checkpoint_ ? checkpoint_->state.samples : 0;
}

base::StepNumber Run::steps_before() const noexcept {
  return checkpoint_ ? checkpoint_->state.step : base::StepNumber{};
}

base::Status Run::open_node() {
  const std::size_t per_parameter = exchange::uses_ring(run_file_.exchange.mode)
                                        ? kQueuedPerParameterAllReduce
                                        : kQueuedPerParameter;
  const std::size_t buffer_bytes = task_.buffers.initial.size() * sizeof(float);
  io::Node::Options made = node_options(options_, log_);
  made.transport = {
      .listen = options_.listen,
      .tls = run_file_.security == runfile::Security::tls,
      .secret = secret_,
      .fabric = run_file_.links.fabric,
      // The run file was checked.
      .fabric_ports =
          base::parse_port_range(run_file_.links.fabric_ports, runfile::kFabricPortsMin).value(),
      .proxy = proxy_,
      .link_memory = std::max<std::size_t>({run_file_.limits.link_memory, io::kLinkMemoryMin,
                                            per_parameter * task_.parameters.size() +
                                                kQueuedBuffers * buffer_bytes + kPayloadSlack}),
      .payload_max =
          exchange::payload_bytes_max(task_.parameters.size()) + buffer_bytes + kPayloadSlack,
      .relay_limit = static_cast<std::uint64_t>(run_file_.relay.limit * 1e6 / 8)};
  made.observer.report = [this](const peer::Status& status, const peer::Report& report) {
    on_report(status, report.evaluated);
  };
  made.observer.remember = [this](const std::vector<std::string>& addresses) {
    unwritten_addresses_ = addresses;
    if (auto written = remember(); !written) {
      warn("addresses_not_written", written.error().text);
    }
  };
  made.observer.refused = [this](const peer::Refused& refused) {
    refusal_ = runfile::diff(canonical_, refused.canonical);
  };
  if (options_.lan) made.lan = run_id_;
  made.serve = [this](const io::ControlRequest& request, const io::Node& asked) {
    return serve(request, asked);
  };
  auto opened = runtime::open_node(dir_, name_, identity_, std::move(made));
  if (!opened) return fail(opened.error());
  node_ = std::move(*opened);
  address_ = node_->addresses().front();
  return {};
}

base::Result<exchange::Replica> Run::make_replica() {
  exchange::Replica replica = exchange::make_replica(
      task_.parameters, run_file_.exchange, task_.buffers, peer::samples_are_alike(run_file_));
  if (!checkpoint_) return replica;
  const train::TensorFile model = std::exchange(checkpoint_->model, {});
  auto read = train::read_tensors(model, task_.tensors, replica.trained());
  std::vector<float> buffers(task_.buffers.initial.size());
  if (read) read = train::read_tensors(model, task_.buffer_tensors, buffers);
  if (read) read = replica.buffers().set(buffers, ErrorCode::data);
  if (!read) return fail(read.error());
  return replica;
}

base::Status Run::restore(train::UpdateRule& rule) {
  if (!checkpoint_) return {};
  return rule.restore(std::exchange(checkpoint_->optimizer, {}),
                      checkpoint_->state.optimizer_steps);
}

base::Status Run::save(const peer::Snapshot& snapshot) {
  std::vector<train::TensorView> model = train::tensor_views(task_.tensors, snapshot.parameters);
  for (auto& view : train::tensor_views(task_.buffer_tensors, snapshot.buffers)) {
    model.push_back(std::move(view));
  }
  base::Result<std::vector<train::UpdateRule::State>> pieces;
  if (snapshot.rule != nullptr) pieces = snapshot.rule->state();
  if (!pieces) return fail(pieces.error());
  std::vector<train::TensorView> state;
  for (const train::UpdateRule::State& piece : *pieces) {
    state.push_back({piece.name, piece.shape, std::span<const float>(piece.values)});
  }
  auto saved = train::save_checkpoint(
      dir_ + "/checkpoints",
      {.run = run_id_,
       .step = snapshot.step,
       .optimizer_steps = snapshot.rule == nullptr ? 0 : snapshot.rule->steps(),
       .samples = snapshot.samples,
       .progress = snapshot.progress,
       .weight = snapshot.weight,
       .counters = {snapshot.counters.begin(), snapshot.counters.end()}},
      model, state, run_file_.checkpoint.keep, damaged_);
  if (saved) damaged_.clear();  // they are gone, and their steps will come again
  if (snapshot.rule != nullptr) snapshot.rule->free_copy();
  return saved;
}

io::NodeEnd Run::run() {
  return run_node(*node_, name_, identity_, log_,
                  [this](wire::MemberRecord self, membership::Signer& signer, base::Rng rng) {
                    peer::Resume resume{.addresses = load_addresses()};
                    if (checkpoint_) {
                      resume.step = checkpoint_->state.step;
                      resume.samples = checkpoint_->state.samples;
                      resume.progress = checkpoint_->state.progress;
                      resume.weight = checkpoint_->state.weight.value_or(wire::kNoWeight);
                      resume.counters = checkpoint_->state.counters;
                    }
                    return std::make_unique<peer::Core>(core_config(), std::move(self), *shards_,
                                                        resume, signer, rng);
                  });
}

peer::Config Run::core_config() const {
  peer::Config config = peer::core_config(run_file_, canonical_,
                                          {.parameters_hash = task_.identity.parameters,
                                           .parameters = task_.parameters.size(),
                                           .buffers = task_.buffers.initial.size(),
                                           .training_set = task_.samples});
  config.shared_run_file = shared_run_file();
  config.require_peers = options_.require_peers ? kRequirePeers : base::Duration{};
  if (run_file_.limits.steps_per_second > 0) {
    config.step_interval = base::from_seconds(1 / run_file_.limits.steps_per_second);
  }
  config.lan = options_.lan;
  if (options_.conduct != nullptr) options_.conduct->arrange(config);
  return config;
}

base::Status Run::remember() {
  auto written = write_addresses(dir_, *unwritten_addresses_);
  if (written) unwritten_addresses_.reset();
  return written;
}

void Run::on_report(const peer::Status& status, bool evaluated) {
  if (unwritten_addresses_) static_cast<void>(remember());  // a full disk may have room again
  const io::LinkTraffic traffic = node_->traffic();
  const base::Time now = io::Loop::now();
  recorder_->add(status, evaluated, traffic, now);
  if (!options_.progress) return;
  const base::Duration trained =
      status.training_since ? now - *status.training_since : base::Duration{};
  const std::string text = progress_lines_.tell(status, trained, traffic.sent_total(), now);
  report::print_at_once(stdout, text);
}

report::PeerSummary Run::finish(const io::NodeEnd& end) {
  report::PeerSummary made = recorder_->finish(end);
  lock_.reset();
  return made;
}

}  // namespace starling::runtime
