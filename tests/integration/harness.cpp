#include "harness.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "control_client.hpp"
#include "report/peer_file.hpp"
#include "runtime/swarm_distance.hpp"

namespace starling::integration {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr auto kRateTime = 3s;
constexpr std::uint64_t kSamplesWarm = 10'000;  ///< of a swarm that has started up
/// Three passes over the training set, enough for kUsualAccuracy.
constexpr std::uint64_t kSamplesMin = 180'000;
/// A command that watches others ends them before it ends; after that it is killed.
constexpr auto kEndPatience = 5s;

/// Becomes the program; the kernel kills it when the test dies. Never returns.
[[noreturn]] void execute(const std::string& program, const std::vector<char*>& argv,
                          const std::string& output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto redirect = [](const std::string& path, int flags, int to) {
    const int from = open(path.c_str(), flags, base::kNewFileMode);
    if (from < 0 || dup2(from, to) < 0) _exit(127);
    close(from);
  };
  redirect("/dev/null", O_RDONLY, STDIN_FILENO);
  redirect(output + ".out", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  redirect(output + ".err", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  execv(program.c_str(), argv.data());
  _exit(127);
}

Arguments up_arguments(const std::string& name, const std::string& dir, const std::string& join,
                       const Arguments& set, const std::string& listen) {
  Arguments arguments{"up", mlp_run_file(), "--name", name, "--dir", dir, "--listen", listen};
  for (const std::string& assignment : set) {
    arguments.insert(arguments.end(), {"--set", assignment});
  }
  if (!join.empty()) arguments.insert(arguments.end(), {"--join", join});
  return arguments;
}

/// The samples of four peers in a second.
struct Rate {
  double samples = 0;  ///< of all
  double steps = 0;    ///< of one
};

Rate measure_rate() {
  Swarm swarm(4, {"run.samples=1000000000"});
  const auto now = [&] { return swarm[0].status().value_or(Status{}); };
  BOOST_TEST_REQUIRE(eventually([&] { return now().swarm_samples >= kSamplesWarm; }),
                     "a swarm does not start: " << swarm[0].process().err());
  const Status before = now();
  const auto start = Clock::now();
  (void)eventually([&] { return Clock::now() - start >= kRateTime; });
  const Status after = now();
  BOOST_TEST_REQUIRE(after.steps > before.steps, "the swarm stands still");
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {static_cast<double>(after.swarm_samples - before.swarm_samples) / seconds,
          static_cast<double>(after.steps - before.steps) / seconds};
}

}  // namespace

bool eventually(const std::function<bool()>& condition, Duration patience, Duration pause) {
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::string program() { return STARLING_PROGRAM; }

std::string mlp_run_file() { return STARLING_RUNS "/fashion-mlp.toml"; }

std::string long_run_file(const testing::TemporaryFolder& folder) {
  std::string text = text_of(mlp_run_file());
  const std::string layer = "  { type = \"relu\" },\n";
  const auto at = text.find(layer);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  for (int i = 0; i < 600; ++i) {
    const std::string name = std::string(56, 'x') + std::to_string(1000 + i);
    text.insert(at, "  { type = \"relu\", name = \"" + name + "\" },\n");
  }
  folder.write("a long one.toml", text);
  return folder / "a long one.toml";
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::uint64_t> checkpoints_of(const std::string& dir) {
  constexpr std::string_view kPrefix = "step-";
  std::vector<std::uint64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(dir + "/checkpoints", none)) {
    const std::string name = entry.path().filename().string();
    // Under any other name it is not finished.
    if (!name.starts_with(kPrefix)) continue;
    steps.push_back(std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10));
  }
  std::ranges::sort(steps);
  return steps;
}

// --- processes ---

Process::Process(const Arguments& arguments, const std::string& output)
    : Process(STARLING_PROGRAM, arguments, output) {}

Process::Process(const std::string& program, const Arguments& arguments, const std::string& output)
    : output_(output) {
  Arguments words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  BOOST_REQUIRE_GE(pid_, 0);
  if (pid_ == 0) execute(program, argv, output_);
}

Process::~Process() {
  if (exit_code()) return;
  // SIGCONT: a stopped process takes no other signal.
  kill(pid_, SIGCONT);
  kill(pid_, SIGTERM);
  if (wait(kEndPatience)) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!exit_code_) kill(pid_, number);
}

std::optional<int> Process::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  return exit_code_;
}

std::optional<int> Process::wait(Duration patience) {
  (void)eventually([&] { return exit_code().has_value(); }, patience);
  return exit_code_;
}

Ended run(const testing::TemporaryFolder& folder, const Arguments& arguments, Duration patience) {
  Process process(arguments, folder / "command");
  const auto code = process.wait(patience);
  return {code, process.out(), process.err()};
}

// --- peers ---

Peer::Peer(const testing::TemporaryFolder& folder, const std::string& name, const std::string& join,
           const Arguments& set, const std::string& listen)
    : name_(name),
      dir_(folder / name),
      process_(up_arguments(name, dir_, join, set, listen), folder / name) {}

Peer::Peer(const std::string& program, const Arguments& arguments,
           const testing::TemporaryFolder& folder, const std::string& name)
    : name_(name), dir_(folder / name), process_(program, arguments, folder / name) {}

Peer::~Peer() {
  process_.signal(SIGKILL);
  (void)process_.wait();
}

// Looks for the file of this process, not of an earlier one.
bool Peer::find() {
  if (!control_.empty()) return true;
  const auto file = report::read_peer_file(dir_);
  if (!file || file->pid != process_.pid()) return false;
  address_ = file->address;
  control_ = file->control;
  return true;
}

std::string Peer::address() {
  (void)eventually([&] { return find() || !runs(); });
  return address_;
}

std::optional<std::string> Peer::ask(const std::string& path) {
  if (!find()) return std::nullopt;
  auto reply = peers::ask(control_, path);
  if (!reply) return std::nullopt;
  return std::move(*reply);
}

std::optional<Status> Peer::status() {
  const auto reply = ask("/status");
  if (!reply) return std::nullopt;
  const Json json = Json::parse(*reply);
  return Status{.phase = json.at("phase"),
                .steps = json.at("steps"),
                .swarm_samples = json.at("swarm_samples"),
                .progress = json.at("progress"),
                .links = json.at("links"),
                .exchanges = json.at("exchanges")};
}

std::string Peer::state_of(const std::string& member) {
  const auto reply = ask("/members");
  if (!reply) return "";
  for (const Json& record : Json::parse(*reply)) {
    if (record.at("name") == member) return record.at("state");
  }
  return "unknown";
}

report::PeerSummary Peer::summary() const {
  auto read = report::read_peer_summary(dir_);
  BOOST_TEST_REQUIRE(read.has_value(), name_ << " left no summary: " << process_.err());
  return std::move(*read);
}

// --- swarms ---

Arguments run_of(Duration length) {
  static const Rate rate = measure_rate();
  const double samples = rate.samples * std::chrono::duration<double>(length).count();
  return {
      "run.samples=" + std::to_string(std::max(kSamplesMin, static_cast<std::uint64_t>(samples))),
      "limits.steps_per_second=" + std::to_string(rate.steps)};
}

Swarm::Swarm(std::uint32_t peers, Arguments set) : set_(std::move(set)) {
  const std::string others = std::to_string(peers - 1);
  set_.insert(set_.begin(), {"train.threads=1", "swarm.wait_for=" + others,
                             "swarm.peers=" + std::to_string(peers)});
  std::string join;
  for (std::uint32_t i = 1; i <= peers; ++i) {
    Peer& added = add("peer-" + std::to_string(i), join);
    if (!join.empty()) continue;
    join = added.address();
    BOOST_TEST_REQUIRE(!join.empty(), "the first peer does not listen: " << added.process().err());
  }
}

Peer& Swarm::add(const std::string& name, const std::string& address) {
  peers_.push_back(std::make_unique<Peer>(folder_, name, address, set_));
  return *peers_.back();
}

bool Swarm::reaches(Peer& peer, double progress) {
  return eventually([&] {
           const auto status = peer.status();
           return (status && status->progress >= progress) || !peer.runs();
         }) &&
         peer.runs();
}

void Swarm::kill(std::size_t index) {
  peers_[index]->process().signal(SIGKILL);
  BOOST_TEST_REQUIRE(peers_[index]->process().wait().value_or(0) == -SIGKILL);
}

void Swarm::require_end(std::initializer_list<std::size_t> but) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (std::ranges::find(but, i) != but.end()) continue;
    Peer& peer = *peers_[i];
    const auto code = peer.process().wait();
    BOOST_TEST_REQUIRE(code.has_value(), peer.name() << " does not end");
    BOOST_TEST_REQUIRE(*code == 0, peer.name()
                                       << ": exit code " << *code << ", " << peer.process().err());
  }
}

double Swarm::distance(std::initializer_list<std::size_t> but) const {
  std::vector<std::string> dirs;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (std::ranges::find(but, i) == but.end()) dirs.push_back(peers_[i]->dir());
  }
  const auto run = base::Hash128::parse(report::read_peer_summary(dirs.front())->run);
  const auto distance = runtime::replica_distance(dirs, *run);
  BOOST_TEST_REQUIRE(distance.has_value(), distance.error().text);
  return *distance;
}

}  // namespace starling::integration
