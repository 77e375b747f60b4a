// starling swarm: N peers as processes of this machine, with one live table. It only starts and
// watches them: they find each other and train as peers on N machines would.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "base/hash.hpp"
#include "base/time.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "control_client.hpp"
#include "io/proxy.hpp"
#include "reply_text.hpp"
#include "report/format.hpp"
#include "report/peer_file.hpp"
#include "report/summary.hpp"
#include "report/table.hpp"
#include "runfile/run_file.hpp"
#include "runtime/needs.hpp"
#include "runtime/swarm_distance.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using Json = nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view kPeerPrefix = "peer-";  ///< of the names of peers and of their folders
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kAskEvery = std::chrono::milliseconds(1000);
constexpr std::streamoff kSaidMax = 1 << 16;  ///< shown bytes of a peer's output
constexpr int kStoppedExit = 130;             ///< of a peer that was interrupted twice
constexpr double kSlowStart = 5;  ///< seconds after which the reason for a slow start is told

/// Beginnings of a peer's lines that say why it ended.
constexpr std::array<std::string_view, 3> kErrorPrefixes{
    "starling: error: ", "starling up: ", "starling: internal error: "};

volatile sig_atomic_t ctrl_cs = 0;     ///< how many SIGINTs came
volatile sig_atomic_t terminated = 0;  ///< whether a SIGTERM or SIGHUP came, at least once

/// How often the swarm was told to stop: the second time, its peers stop without saving. Two
/// signals of different kinds count as one, since they may be handled in another order than they
/// came.
int interrupts() { return std::max<int>({ctrl_cs, terminated}); }

/// One child process and its last report.
struct Child {
  std::string name;
  std::string dir;
  pid_t pid = 0;
  std::optional<base::FileStamp> summary_before;  ///< of a former life
  bool goes_on = false;                           ///< from a checkpoint
  std::optional<int> status;                      ///< of waitpid, once it has ended
  std::optional<report::PeerSummary> summary;     ///< written in this life
  std::string control;
  report::PeerRow row;
  /// Seconds of training and progress when it first told them: it may have continued from a
  /// checkpoint.
  std::optional<std::pair<double, double>> began;
};

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

/// Starts `starling up`; its output goes to output.txt in its folder.
base::Result<pid_t> start(const Child& child, const SwarmOptions& options, std::uint32_t threads,
                          std::uint32_t wait_for, const std::string& join) {
  std::vector<std::string> arguments{"starling", "up",       options.run_file,
                                     "--name",   child.name, "--dir",
                                     child.dir,  "--listen", "127.0.0.1:0"};
  const auto set = [&](const std::string& assignment) {
    arguments.insert(arguments.end(), {"--set", assignment});
  };
  set(fmt::format("train.threads={}", threads));
  set(fmt::format("swarm.peers={}", options.peers));
  set(fmt::format("swarm.wait_for={}", wait_for));
  for (const std::string& assignment : options.set) set(assignment);
  if (!join.empty()) arguments.insert(arguments.end(), {"--join", join});
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const std::string output = child.dir + "/output.txt";
  const int input_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int output_file =
      open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, base::kNewFileMode);
  if (input_file < 0 || output_file < 0) {
    return fail(ErrorCode::data, "{}: {}", output, std::strerror(errno));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only calls that are safe between fork and exec.
    dup2(input_file, STDIN_FILENO);
    dup2(output_file, STDOUT_FILENO);
    dup2(output_file, STDERR_FILENO);
    // Its own group: Ctrl-C reaches it once, from watch(), and not from the terminal as well.
    setpgid(0, 0);
    // A swarm that is killed leaves no peers behind.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent) execv("/proc/self/exe", argv.data());
    _exit(1);
  }
  const int failed = errno;
  close(input_file);
  close(output_file);
  if (pid < 0) return fail(ErrorCode::internal, "cannot start a peer: {}", std::strerror(failed));
  return pid;
}

std::optional<base::FileStamp> summary_stamp(const Child& child) {
  return base::stamp_of(child.dir + "/" + report::kSummaryFile);
}

void read_summary(Child& child) {
  const auto written = summary_stamp(child);
  if (!written || written == child.summary_before) return;
  if (auto summary = report::read_peer_summary(child.dir)) child.summary = std::move(*summary);
}

bool has_failed(const Child& child) {
  const int status = child.status.value_or(0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

/// Whether a child was told to stop at once, by a second interrupt.
bool was_stopped(const Child& child) {
  return interrupts() > 1 && has_failed(child) && WEXITSTATUS(*child.status) == kStoppedExit;
}

/// "failed", or the signal that killed a child; empty for one that runs or ended well.
std::string misfortune_of(const Child& child) {
  if (was_stopped(child)) return "was stopped";
  if (has_failed(child)) return "failed";
  const int status = child.status.value_or(0);
  if (!WIFSIGNALED(status)) return "";
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/// Records that a child has ended.
void reap(Child& child) {
  int status = 0;
  if (child.status || waitpid(child.pid, &status, WNOHANG) != child.pid) return;
  child.status = status;
  read_summary(child);
  report::PeerRow& row = child.row;
  const double speed = std::exchange(row.samples_per_second, 0);
  row.eta_seconds.reset();
  row.links = 0;
  if (!misfortune_of(child).empty()) {
    row.state = WIFSIGNALED(status)  ? fmt::format("killed ({})", WTERMSIG(status))
                : was_stopped(child) ? "stopped"
                                     : fmt::format("failed ({})", WEXITSTATUS(status));
    // Its replica no longer counts in the swarm's means.
    row.loss.reset();
    row.accuracy.reset();
    row.language.reset();
    row.drift.reset();
    return;
  }
  const auto& summary = child.summary;
  row.state = summary ? summary->end : "ended";
  if (!summary) return;
  if (summary->end == "done") row.progress = 1;
  row.accuracy = summary->accuracy;
  row.language = summary->language;
  row.drift = summary->drift;
  row.steps = summary->steps;
  row.bytes_sent = summary->bytes_sent.total;
  row.samples_per_second = speed;
  // A child that was done at once never reported it. The summary also counts samples of earlier
  // starts.
  if (speed == 0 && summary->seconds > 0 && !child.goes_on) {
    row.samples_per_second = static_cast<double>(summary->samples) / summary->seconds;
  }
}

std::optional<double> optional_number(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

/// Asks a child for its state; keeps the last known one if it does not answer.
void refresh(Child& child) {
  if (child.status) return;
  if (child.control.empty()) {
    const auto file = report::read_peer_file(child.dir);
    if (!file || file->pid != child.pid) return;
    child.control = file->control;
  }
  const auto reply = ask(child.control, "/status");
  if (!reply) return;
  const Json status = Json::parse(*reply, nullptr, false);
  if (status.is_discarded()) return;
  report::PeerRow& row = child.row;
  row.state = status.value("phase", "?");
  row.progress = status.value("progress", 0.0);
  row.steps = status.value("steps", std::uint64_t{0});
  row.samples_per_second = status.value("samples_per_second", 0.0);
  row.loss = optional_number(status.value("train_loss", Json()));
  row.accuracy = optional_number(status.value("accuracy", Json()));
  const auto perplexity = optional_number(status.value("perplexity", Json()));
  const auto bits_per_byte = optional_number(status.value("bits_per_byte", Json()));
  if (perplexity && bits_per_byte) row.language = {*perplexity, *bits_per_byte};
  row.drift = optional_number(status.value("drift", Json()));
  row.links = status.value("links", 0U);
  row.bytes_sent = status.value("bytes_sent", Json::object()).value("total", std::uint64_t{0});
  const double seconds = status.value("seconds", 0.0);
  row.eta_seconds.reset();
  if (seconds > 0 && !child.began) child.began = {seconds, row.progress};
  const auto [began_at, began_with] = child.began.value_or(std::pair(seconds, row.progress));
  if (row.progress > began_with + 0.01 && row.progress < 1) {
    row.eta_seconds = (seconds - began_at) / (row.progress - began_with) * (1 - row.progress);
  }
}

/// The output of a child so far, or its last lines.
std::string said_by(const Child& child) {
  std::ifstream output(child.dir + "/output.txt", std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::streamoff>(output.tellg());
  const bool cut = size > kSaidMax;
  output.seekg(cut ? size - kSaidMax : 0);
  std::string said{std::istreambuf_iterator<char>(output), {}};
  // The first line is incomplete; but a single one is better than nothing.
  if (const auto end = said.find('\n'); cut && end + 1 < said.size()) said.erase(0, end + 1);
  return said.empty() ? "nothing\n" : said;
}

/// ": " and its last line about an error, if there is one.
std::string last_error_of(const Child& child) {
  std::istringstream said(said_by(child));
  std::string last;
  for (std::string line; std::getline(said, line);) {
    const bool tells = std::ranges::any_of(
        kErrorPrefixes, [&](std::string_view prefix) { return line.starts_with(prefix); });
    if (tells) last = ": " + line;
  }
  return last;
}

/// Waits until the first peer listens, so that the others have an address to join. From then on it
/// is a peer like any other. This takes as long as reading all of its data.
base::Result<report::PeerFile> wait_for_first(Child& first) {
  const auto started = SteadyClock::now();
  bool told = false;
  while (interrupts() == 0) {
    const auto file = report::read_peer_file(first.dir);
    if (file && file->pid == first.pid) return *file;
    reap(first);
    if (first.status) break;
    if (!told && seconds_since(started) > kSlowStart) {
      told = true;
      say("{} is not ready yet; it said:\n{}", first.name, said_by(first));
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (!first.status) return fail(ErrorCode::internal, "interrupted while the first peer started");
  const std::string misfortune = misfortune_of(first);
  return fail(ErrorCode::internal, "the first peer {}; it said:\n{}",
              has_failed(first) || misfortune.empty() ? "did not start" : misfortune,
              said_by(first));
}

/// Starts all; each except the first joins the first.
base::Status start_all(std::vector<Child>& children, const SwarmOptions& options,
                       std::uint32_t threads, std::uint32_t wait_for) {
  std::string join;
  for (Child& child : children) {
    child.summary_before = summary_stamp(child);
    const auto pid = start(child, options, threads, wait_for, join);
    if (!pid) return fail(pid.error());
    child.pid = *pid;
    if (!join.empty()) continue;
    const auto reached = wait_for_first(child);
    if (!reached) return fail(reached.error());
    join = reached->address;
    say("how it goes, as {} sees it: http://{}/\n", child.name, reached->control);
  }
  return {};
}

/// Or it was not started.
bool has_ended(const Child& child) { return child.pid == 0 || child.status.has_value(); }

/// Asks the peers that run to save and leave.
void interrupt(const std::vector<Child>& children) {
  for (const Child& child : children) {
    if (!has_ended(child)) kill(child.pid, SIGINT);
  }
}

/// A stopped peer hears an interrupt when it continues.
void wake(const std::vector<Child>& children) {
  for (const Child& child : children) {
    if (!has_ended(child)) kill(child.pid, SIGCONT);
  }
}

/// Passes on the interrupts after the first `passed_on`, and records which children have ended.
/// Returns whether all have.
bool look_after(std::vector<Child>& children, int& passed_on) {
  for (; passed_on < interrupts(); ++passed_on) {
    interrupt(children);
    if (passed_on > 0) wake(children);
  }
  for (Child& child : children) {
    if (!has_ended(child)) reap(child);
  }
  return std::ranges::all_of(children, has_ended);
}

/// Waits until all interrupted peers have ended.
void wait_for_all(std::vector<Child>& children) {
  int passed_on = interrupts();
  while (!look_after(children, passed_on)) std::this_thread::sleep_for(kPoll);
}

void watch(std::vector<Child>& children, report::TablePrinter& printer, const std::string& run) {
  const auto started = SteadyClock::now();
  auto asked = started - kAskEvery;
  const auto snapshot = [&] {
    report::SwarmSnapshot made{run, seconds_since(started), {}};
    for (const Child& child : children) made.peers.push_back(child.row);
    return made;
  };
  int interrupts_passed_on = 0;
  while (!look_after(children, interrupts_passed_on)) {
    if (SteadyClock::now() - asked >= kAskEvery) {
      asked = SteadyClock::now();
      for (Child& child : children) {
        // A stopped peer makes each question wait; an interrupt must not wait.
        if (interrupts() > interrupts_passed_on) break;
        refresh(child);
      }
      printer.show(snapshot(), base::Time(base::from_seconds(seconds_since(started))));
    }
    std::this_thread::sleep_for(kPoll);
  }
  printer.finish(snapshot());
}

/// kStoppedExit if a peer was stopped before it had saved; 0 if a peer completed its run; otherwise
/// the exit code of the first failed one.
int exit_code_of(const std::vector<Child>& children) {
  if (std::ranges::any_of(children, was_stopped)) return kStoppedExit;
  int code = 0;
  bool any_ended_well = false;
  for (const Child& child : children) {
    const int status = child.status.value_or(0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) any_ended_well = true;
    if (has_failed(child) && code == 0) code = WEXITSTATUS(status);
  }
  return any_ended_well ? 0 : std::max(code, 1);
}

/// Whether a peer has made this folder.
bool is_of_a_peer(const std::string& dir) {
  std::error_code failed;
  return fs::exists(dir + "/" + report::kLockFile, failed);
}

/// Makes sure that no peer runs in the folders of a former swarm's peers, and deletes them if
/// `anew`. Deletes none if one with such a name is not a peer's, or if `dir` itself is a peer's.
base::Status take_over(const std::string& dir, bool anew) {
  std::vector<std::string> old;
  std::error_code failed;
  if (is_of_a_peer(dir)) {
    return fail(ErrorCode::usage, "{}: is the folder of one peer; give another --dir", dir);
  }
  for (const auto& entry : fs::directory_iterator(dir, failed)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPeerPrefix)) old.push_back(entry.path());
  }
  std::vector<base::FileLock> locks;
  for (const std::string& folder : old) {
    if (!is_of_a_peer(folder) && !fs::is_empty(folder, failed)) {
      return fail(ErrorCode::usage, "{}: is not the folder of a peer; give another --dir", folder);
    }
    auto lock = base::FileLock::take(folder + "/" + report::kLockFile);
    if (!lock) return fail(lock.error());
    if (!*lock) {
      return fail(ErrorCode::usage, "{}: a peer is running there; give another --dir", folder);
    }
    locks.push_back(std::move(**lock));
  }
  if (!anew) return {};
  for (const std::string& folder : old) {
    fs::remove_all(folder, failed);
    if (failed) return fail(ErrorCode::data, "{}: cannot be deleted: {}", folder, failed.message());
  }
  return {};
}

void print_summary(const report::SwarmSummary& summary, const std::string& dir) {
  const report::PeerSummary& swarm = summary.swarm;
  if (swarm.accuracy && swarm.loss) {
    fmt::print("\n{}: accuracy {} (mean of the replicas' own), test loss {:.4f}\n", swarm.name,
               report::format_percent(*swarm.accuracy, 2), *swarm.loss);
  } else if (swarm.loss) {  // no labels
    fmt::print("\n{}: test loss {:.4f} (mean of the replicas' own)\n", swarm.name, *swarm.loss);
  } else {
    fmt::print("\n{}: not evaluated\n", swarm.name);
  }
  if (swarm.language) {
    fmt::print("perplexity {:.2f}, {:.4f} bits a byte\n", swarm.language->perplexity,
               swarm.language->bits_per_byte);
  }
  for (const report::LeftOut& one : swarm.left_out) {
    fmt::print("settled without {}: {}\n", shown(one.name), one.why);
  }
  if (summary.distance) {
    fmt::print("replicas agree to {} of their norm\n",
               report::format_percent(*summary.distance, 3));
  }
  fmt::print("{} samples; since this start {} of training, {} exchanges, {} sent ({} a peer)\n",
             report::format_count(swarm.samples), report::format_duration(swarm.seconds),
             report::format_count(swarm.exchanges), report::format_bytes(swarm.bytes_sent.total),
             report::format_bytes(swarm.bytes_sent.total /
                                  std::max<std::size_t>(1, summary.peers.size())));
  fmt::print("results are in {}\n", dir);
}

std::vector<Child> children_of(const SwarmOptions& options, const std::string& dir) {
  std::vector<Child> children(options.peers);
  for (std::size_t i = 0; i < children.size(); ++i) {
    children[i].name = fmt::format("{}{}", kPeerPrefix, i + 1);
    children[i].dir = dir + "/" + children[i].name;
    children[i].row.name = children[i].name;
    children[i].row.state = "starting";
  }
  return children;
}

base::Status make_folders(std::vector<Child>& children, const std::string& dir) {
  std::error_code failed;
  for (Child& child : children) child.goes_on = fs::exists(child.dir + "/checkpoints", failed);
  if (children.front().goes_on) {
    say("{}: peers go on from their checkpoints there; with --anew they start from the "
        "beginning\n",
        dir);
  }
  for (const Child& child : children) {
    if (auto made = base::make_folder(child.dir); !made) return made;
  }
  return {};
}

void take_signals() {
  signal(SIGINT, [](int) { ctrl_cs = ctrl_cs + 1; });
  const auto terminate = [](int) { terminated = 1; };
  signal(SIGTERM, terminate);
  // A closed terminal: the peers are in their own groups, so the signal does not reach them. Under
  // nohup it must be ignored.
  if (signal(SIGHUP, SIG_IGN) != SIG_IGN) signal(SIGHUP, terminate);
  // If the parent process ignores it, children end without a trace.
  signal(SIGCHLD, SIG_DFL);
  // The reader of its output may end first, as `tee` does at a Ctrl-C.
  signal(SIGPIPE, SIG_IGN);
}

/// The reports of the peers on their runs, and the distance of their replicas, if known; prints
/// which ones failed.
report::SwarmSummary summary_of(const std::vector<Child>& children, const std::string& run) {
  std::vector<report::PeerSummary> summaries;
  std::vector<std::string> ended;
  std::string run_id;
  for (const Child& child : children) {
    if (const std::string misfortune = misfortune_of(child); !misfortune.empty()) {
      say("{} {}{}\n", child.name, misfortune, was_stopped(child) ? "" : last_error_of(child));
    }
    if (!child.summary) continue;
    // A peer that was done but could not save it has no final checkpoint to compare.
    if (child.summary->end == "done" && !has_failed(child)) {
      ended.push_back(child.dir);
      run_id = child.summary->run;
    }
    summaries.push_back(*child.summary);
  }
  report::SwarmSummary summary = report::summarize(run, std::move(summaries));
  if (const auto id = base::Hash128::parse(run_id); id && ended.size() > 1) {
    const auto distance = runtime::replica_distance(ended, *id);
    if (distance) {
      summary.distance = *distance;
    } else {
      say("starling swarm: {}\n", distance.error().text);
    }
  }
  return summary;
}

base::Result<int> run(const SwarmOptions& options) {
  std::vector<std::string> set{fmt::format("swarm.peers={}", options.peers)};
  set.insert(set.end(), options.set.begin(), options.set.end());
  const auto run_file = runfile::read_run_file(options.run_file, set);
  if (run_file && run_file->data.split == data::Split::private_data) {
    return fail(ErrorCode::usage,
                "data.split = \"private\" is for peers that have different files; these would all "
                "have the same: start each with `starling up` and its own --set data.path");
  }
  if (!run_file) return fail(run_file.error());
  const std::string& name = run_file->run.name;
  const std::string dir = options.dir.empty() ? "runs/" + name : options.dir;
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::uint32_t threads = std::max(1U, cores / options.peers);
  const std::uint32_t wait_for = std::min(runtime::links_of(*run_file), options.peers - 1);

  std::vector<Child> children = children_of(options, dir);
  if (auto taken = take_over(dir, options.anew); !taken) return fail(taken.error());
  if (auto made = make_folders(children, dir); !made) return fail(made.error());
  take_signals();
  if (auto started = start_all(children, options, threads, wait_for); !started) {
    const int code = complain("swarm", started.error());
    const Child& first = children.front();
    const bool did_not_start = has_failed(first);
    // The started peers save now; when this process ends, they are killed.
    interrupt(children);
    wait_for_all(children);
    if (did_not_start) return WEXITSTATUS(*first.status);
    if (std::ranges::any_of(children, was_stopped)) return kStoppedExit;
    return interrupts() > 0 ? 0 : code;  // it was asked to leave, and had nothing to save
  }
  auto printer = report::TablePrinter::for_stream(options.json ? stderr : stdout);
  watch(children, printer, name);

  const report::SwarmSummary summary = summary_of(children, name);
  if (const auto written = report::write_summary(dir, summary); !written) {
    return fail(written.error());
  }
  if (options.json) {
    fmt::print("{}\n", report::to_json(summary));
  } else if (!summary.peers.empty()) {
    print_summary(summary, dir);
  }
  return exit_code_of(children);
}

}  // namespace

int run_swarm(const SwarmOptions& options) {
  // Otherwise each of its peers would report it.
  if (const auto proxy = io::choose_proxy({}); !proxy) return complain("swarm", proxy.error());
  const auto code = run(options);
  if (code) return *code;
  return complain("swarm", code.error());
}

}  // namespace starling::peers
