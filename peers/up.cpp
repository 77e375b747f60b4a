// starling up: one peer, from its run file to its summary.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/hash.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "data/held_back.hpp"
#include "data/loader.hpp"
#include "io/address.hpp"
#include "io/port_mapping.hpp"
#include "io/trainer_thread.hpp"
#include "peer/conduct.hpp"
#include "peer/config.hpp"
#include "peer/model_learner.hpp"
#include "report/format.hpp"
#include "runfile/invite.hpp"
#include "runfile/run_file.hpp"
#include "runtime/needs.hpp"
#include "runtime/problem.hpp"
#include "runtime/run.hpp"
#include "system.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::fail;

/// "accuracy 88.46%", for text also in its own units; without labels "loss 0.0123".
std::string quality_text(const report::PeerSummary& summary) {
  if (!summary.loss) return "not evaluated";
  if (!summary.accuracy) return fmt::format("loss {:.4f}", *summary.loss);
  std::string text = "accuracy " + report::format_percent(*summary.accuracy, 2);
  if (summary.language) {
    text += fmt::format(", perplexity {:.2f}, {:.4f} bits a byte", summary.language->perplexity,
                        summary.language->bits_per_byte);
  }
  return text;
}

/// Decides what "auto" means, once, before anything takes long.
base::Status choose_device(runtime::Run& run) {
  const train::Config& config = run.run_file().train;
  const auto device = compute::open_device(config.device);
  if (!device) return fail(device.error());
  run.set_device(device->name);
  const bool rounds =
      config.precision == compute::Precision::bfloat16 && device->backend->has_bfloat16();
  run.log().event(report::Level::info, "device",
                  {{"name", std::string_view(device->name)},
                   {"about", std::string_view(device->about)},
                   {"precision", std::string_view(rounds ? "bf16" : "float32")}});
  return {};
}

/// The training task of the run. `problem` outlives the run.
base::Result<runtime::Task> task_of(const runfile::RunFile& run_file,
                                    const runtime::Problem& problem) {
  auto start = runtime::start_of(run_file, problem.model);
  if (!start) return fail(start.error());
  const compute::Graph& graph = problem.model.graph;
  const std::uint64_t hash = base::xxh3(std::as_bytes(std::span(start->parameters)));
  return runtime::Task{.parameters = std::move(start->parameters),
                       .buffers = std::move(start->buffers),
                       .tensors = graph.tensors,
                       .buffer_tensors = graph.buffers,
                       .identity = {problem.dataset.identity, hash, start->file},
                       .samples = problem.dataset.train->size(),
                       .labels = problem.dataset.train->labels(),
                       .bytes_per_label = problem.dataset.bytes_per_label};
}

/// On the trainer's thread. `run` and its task outlive the worker, and so does `conduct`, which may
/// be null.
base::Result<std::unique_ptr<peer::Worker>> make_worker(runtime::Run& run,
                                                        const runtime::Problem& problem,
                                                        data::Loader& loader,
                                                        data::HeldBack held_back,
                                                        peer::Conduct* conduct) {
  const runfile::RunFile& run_file = run.run_file();
  auto trainer = train::Trainer::create(problem.model.graph, run_file.train);
  if (!trainer) return fail(trainer.error());
  if (const auto slow = trainer->slow_ops(); !slow.empty()) {
    run.log().event(report::Level::warning, "slow_layers",
                    {{"device", std::string_view(run_file.train.device)},
                     {"layers", std::string_view(fmt::format("{}", fmt::join(slow, ", ")))}});
  }
  auto replica = run.make_replica();
  if (!replica) return fail(replica.error());
  if (auto restored = run.restore(trainer->rule()); !restored) return fail(restored.error());
  // Another conduct changes the replica, which it needs in the processor's memory.
  if (conduct == nullptr && runtime::may_train_on_device(run_file)) {
    const auto memory = trainer->move_to_device(run_file.exchange.mirror);
    if (!memory) return fail(memory.error());
    if (*memory != nullptr) replica->move_to(**memory);
    if (!replica->status()) return fail(replica->status().error());
  }
  std::unique_ptr<peer::Learner> learner = std::make_unique<peer::ModelLearner>(
      std::move(*trainer), loader, std::move(held_back), *problem.dataset.test);
  if (conduct != nullptr) learner = conduct->learner(std::move(learner));
  auto worker = std::make_unique<peer::Worker>(
      std::move(learner), std::move(*replica),
      [&run](const peer::Snapshot& snapshot) { return run.save(snapshot); }, run.steps_before(),
      run.samples_before(), nullptr, conduct);
  if (peer::audits(run_file)) worker->begin_audits(peer::samples_are_alike(run_file));
  return worker;
}

/// Trains until the peer ends.
io::NodeEnd train(runtime::Run& run, const runtime::Problem& problem, peer::Conduct* conduct) {
  const runfile::RunFile& run_file = run.run_file();
  const data::SampleSet& own = *problem.dataset.train;
  const data::SampleSet& samples = conduct != nullptr ? conduct->samples(own) : own;
  const std::uint64_t seed =
      data::Loader::peer_seed(run_file.run.seed, run.id(), run.samples_before());
  data::Loader loader(samples, run.shards(), run_file.train.batch, seed, {},
                      run_file.data.augmentation);
  const io::TrainerThread trainer(run.trainer(), [&] {
    return make_worker(run, problem, loader, data::HeldBack(samples, run.shards(), seed), conduct);
  });
  io::NodeEnd end = run.run();
  loader.stop();  // a trainer that waits for a batch continues
  return end;
}

int print_end(runtime::Run& run, const io::NodeEnd& end, bool json) {
  const report::PeerSummary made = run.finish(end);
  if (json) fmt::print("{}\n", report::to_json(made));
  if (end.reason == peer::EndReason::failed) {
    say("{}", run.refusal());
    return base::exit_code(end.error.code);
  }
  if (!json) {
    fmt::print("{}: {} after {} steps, {} samples, {}; sent {}\n", run.name(), made.end, made.steps,
               made.samples, quality_text(made), report::format_bytes(made.bytes_sent.total));
    fmt::print("results are in {}\n", run.dir());
  }
  return end.error.text.empty() ? 0 : base::exit_code(end.error.code);
}

/// The address of the page for others. A page that is served at all addresses of this machine has
/// the peer's address.
std::string page_of(const runtime::Run& run, const std::string& wanted) {
  const auto asked = io::parse_address(wanted);
  const auto at = asked ? io::numeric_address(*asked) : std::nullopt;
  const auto peer = io::parse_address(run.address());
  const auto page = io::parse_address(run.http_address());
  if (!at || !at->ip.is_any() || !peer || !page) return run.http_address();
  return io::to_string(io::HostPort{peer->host, page->port});
}

/// Prints how others join, and where the page is.
void print_start(const runtime::Run& run, const UpOptions& options) {
  const bool secret = !run.run_file().secret.empty();
  const auto invite = run.invite();
  const auto own = io::numeric_address(io::parse_address(run.address()).value());
  const std::string command =
      invite ? fmt::format("join {}{}", runfile::invite_word(runfile::to_string(*invite)),
                           secret ? " --secret FILE" : "")
             : fmt::format("up {}{} --join {}{}", runfile::shell_word(options.run_file),
                           runfile::shared_settings(run.run_file(), options.set),
                           runfile::invite_word(run.address()),
                           secret ? " --set security.secret=FILE" : "");
  fmt::print(
      "peer {} ({}), run {}; {} joins with:\n  starling {}\n"
      "how it goes: http://{}/\n",
      run.name(), run.id().brief(), run.run_id().hex().substr(0, 8),
      own && own->ip.is_loopback() ? "listening only for this machine; another peer here"
                                   : "another machine",
      command, page_of(run, options.peer.http));
}

base::Result<int> run_peer(const UpOptions& options) {
  auto run_file = runfile::read_run_file(options.run_file, options.set);
  if (!run_file) return fail(run_file.error());
  runtime::Options peer = options.peer;
  peer.age = process_age();
  peer.port_mapper = io::kOwnProgram;
  peer.progress = !options.json && isatty(STDOUT_FILENO) == 1;
  auto opened = runtime::Run::open(std::move(*run_file), std::move(peer));
  if (!opened) return fail(opened.error());
  runtime::Run& run = **opened;
  if (auto chosen = choose_device(run); !chosen) return fail(chosen.error());
  const auto problem = runtime::load_problem(
      run.run_file(), options.run_file,
      {.folder = fs::path(run.dir()).parent_path() / ".cache", .on_long_read = tell_of_long_read});
  if (!problem) return fail(problem.error());
  auto task = task_of(run.run_file(), *problem);
  if (!task) return fail(task.error());
  if (auto prepared = run.prepare(std::move(*task)); !prepared) return fail(prepared.error());
  if (options.invited_to && *options.invited_to != run.run_id()) {
    return fail(
        base::ErrorCode::run_file,
        "the invite is for run {}, but {}, this machine's data and --set make run {}: is it "
        "the same data? {}",
        options.invited_to->hex(),
        options.is_fetched ? "the run file that was handed out" : options.run_file,
        run.run_id().hex(),
        options.is_fetched ? "Or does one of the invite's addresses hand out another run's?"
                           : "Without the file, it is asked for again");
  }
  if (!options.json) {
    print_start(run, options);
    if (const auto& checkpoint = run.checkpoint()) {
      fmt::print("goes on from {}, {} of the run\n", checkpoint->folder,
                 report::format_percent(checkpoint->state.progress, 1));
    }
    std::fflush(stdout);
  }
  return print_end(run, train(run, *problem, options.peer.conduct), options.json);
}

}  // namespace

int run_up(const UpOptions& options) {
  allow_open_files();
  const auto code = run_peer(options);
  if (code) return *code;
  // It was not shown that the file belongs to the invite's run: the next start asks all addresses
  // again.
  std::error_code error;
  if (options.is_fetched) fs::remove(options.run_file, error);
  return complain("up", code.error());
}

}  // namespace starling::peers
