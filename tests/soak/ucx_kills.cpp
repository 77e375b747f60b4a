// kill -9 of neighbours over UCX, while they connect and while bytes are in flight: the survivor
// goes on, with a neighbour that stays.
//
//   ucx_kills COUNT [SEED]    exit status 0: no abort, no hang, no byte lost or out of order
//
// This program starts itself as the survivor of kRound kills ("--survivor COUNT SEED") and as the
// neighbours: "--neighbour PORT" connects to that port of loopback, or waits for a connection if it
// is 0. Each writes its own port when it listens.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/rng.hpp"
#include "io/loop.hpp"
#include "io/ucx/fabric.hpp"
#include "io/ucx/loader.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::ucx;

namespace {

constexpr unsigned kRound = 20;
constexpr std::size_t kAtOnce = 2;
constexpr std::size_t kMessage = 16UL * 1024;
constexpr unsigned kPeriod = 251;  // of the bytes that are sent
// UCX wires up within the first of these, and is in transfer long before the second is over.
constexpr unsigned kWireUpUs = 4'000;
constexpr unsigned kTransferUs = 200'000;
constexpr unsigned kPatienceS = 60;
constexpr base::Duration kNoticed = std::chrono::seconds(20);
constexpr useconds_t kNapUs = 200;

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "ucx_kills: {}\n", text);
  std::exit(1);
}

template <class T>
T checked(base::Result<T> result) {
  if (!result) fail(result.error().text);
  return std::move(*result);
}

const base::Ip kLoopback = base::Ip::loopback();

/// Sends numbered bytes all the time, and checks those that come.
struct Talk {
  explicit Talk(std::unique_ptr<Carrier> made) : carrier(std::move(made)) {}

  bool turn() {
    bool worked = false;
    while (carrier->readable()) {
      for (const std::byte byte : carrier->take()) {
        if (byte != static_cast<std::byte>(received++ % kPeriod)) fail("bytes are out of order");
      }
      worked = true;
    }
    carrier->send_credit();
    if (carrier->writable() > 0) {
      base::Bytes data(std::min(carrier->writable(), kMessage));
      for (std::byte& byte : data) byte = static_cast<std::byte>(sent++ % kPeriod);
      carrier->send(std::move(data));
      worked = true;
    }
    return worked;
  }
  bool over() const { return carrier->failure() != Carrier::Failure::none || carrier->ended(); }

  std::unique_ptr<Carrier> carrier;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

std::unique_ptr<Fabric> open_fabric(Loop& loop) {
  auto fabric = checked(Fabric::start(loop, {"lo", kLoopback, {}}));
  if (auto status = fabric->allow(std::array{kLoopback}); !status) fail(status.error().text);
  return fabric;
}

// --- a neighbour ---

[[noreturn]] void be_neighbour(std::uint16_t port) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Loop loop = checked(Loop::create());
  const auto fabric = open_fabric(loop);
  std::vector<Talk> talks;
  fmt::print("{}\n", fabric->port());
  std::fflush(stdout);
  if (port != 0) talks.emplace_back(checked(fabric->connect(kLoopback, port)));
  while (true) {
    bool worked = fabric->progress();
    for (auto& carrier : fabric->take_incoming(1)) talks.emplace_back(std::move(carrier));
    for (Talk& talk : talks) worked = talk.turn() || worked;
    if (!worked) usleep(kNapUs);
  }
}

class Neighbour {
 public:
  explicit Neighbour(std::uint16_t port) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("no pipe");
    said_ = base::Descriptor(ends[0]);
    const base::Descriptor out(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    std::string name = "ucx_kills";
    std::string option = "--neighbour";
    std::string number = std::to_string(port);
    std::array<char*, 4> words{name.data(), option.data(), number.data(), nullptr};
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, words.data(), environ) != 0) {
      fail("cannot start a neighbour");
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour() { kill(); }

  /// Its port, once it listens.
  std::optional<std::uint16_t> port() {
    std::array<char, 16> text{};
    const ssize_t size = read(said_.get(), text.data(), text.size() - 1);
    if (size == 0) fail("a neighbour ended by itself");
    if (size < 0) return std::nullopt;
    return static_cast<std::uint16_t>(std::atoi(text.data()));
  }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  base::Descriptor said_{-1};
};

// --- the survivor ---

class Survivor {
 public:
  Survivor(unsigned count, std::uint64_t seed)
      : loop_(checked(Loop::create())), fabric_(open_fabric(loop_)), rng_(seed), count_(count) {}

  void run() {
    Neighbour lasting(fabric_->port());
    while (talks_.empty() || talks_.front().received == 0) turn();
    while (killed_ < count_) {
      while (victims_.size() < kAtOnce && started_ < count_) start_victim();
      kill_those_due();
      turn();
    }
    end(lasting);
  }

 private:
  struct Victim {
    std::unique_ptr<Neighbour> process;
    bool dials = false;  ///< it, and not the survivor
    std::optional<base::Time> dies{};
  };

  void start_victim() {
    const bool dials = started_++ % 2 == 0;
    victims_.push_back(
        {std::make_unique<Neighbour>(dials ? fabric_->port() : std::uint16_t{0}), dials});
  }

  void kill_those_due() {
    const base::Time now = Loop::now();
    for (Victim& victim : victims_) {
      if (victim.dies) continue;
      const auto port = victim.process->port();
      if (!port) continue;
      const unsigned within = rng_.below(2) == 0 ? kWireUpUs : kTransferUs;
      victim.dies = now + std::chrono::microseconds(rng_.below(within));
      if (!victim.dials) talks_.emplace_back(checked(fabric_->connect(kLoopback, *port)));
    }
    std::erase_if(victims_, [&](Victim& victim) {
      if (!victim.dies || now < *victim.dies) return false;
      victim.process->kill();
      alarm(kPatienceS);
      ++killed_;
      return true;
    });
  }

  void turn() {
    bool worked = false;
    for (int i = 0; i < 100 && fabric_->progress(); ++i) worked = true;
    for (auto& carrier : fabric_->take_incoming(kAtOnce + 1))
      talks_.emplace_back(std::move(carrier));
    for (Talk& talk : talks_) {
      if (!talk.over()) worked = talk.turn() || worked;
    }
    for (std::size_t i = talks_.size(); i-- > 0;) {
      if (!talks_[i].over()) continue;
      if (i == 0) fail("the neighbour that stays is lost: " + talks_[0].carrier->failure_text());
      ++(talks_[i].received > 0 ? in_transfer_ : at_wire_up_);
      talks_[i].carrier->abort();
      closing_.push_back(std::move(talks_[i].carrier));
      talks_.erase(talks_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::erase_if(closing_, [](const auto& carrier) { return carrier->closed(); });
    if (!worked) usleep(kNapUs);
  }

  void end(Neighbour& lasting) {
    const base::Time late = Loop::now() + kNoticed;
    while (talks_.size() > 1 || !closing_.empty()) {
      if (Loop::now() > late)
        fail(fmt::format("{} of the dead are not noticed", talks_.size() - 1));
      turn();
    }
    const std::uint64_t before = talks_.front().received;
    while (talks_.front().received < before + 16 * kMessage) turn();
    fmt::print(
        "{} killed over UCX {}: {} links in transfer ended, {} at wire-up; the neighbour "
        "that stays sent {} MB\n",
        killed_, to_string(fabric_->version()), in_transfer_, at_wire_up_,
        talks_.front().received / 1'000'000);
    talks_.front().carrier->abort();
    while (!talks_.front().carrier->closed()) fabric_->progress();
    talks_.clear();
    lasting.kill();
    if (auto status = fabric_->allow({}); !status) fail(status.error().text);
  }

  Loop loop_;
  std::unique_ptr<Fabric> fabric_;
  base::Rng rng_;
  unsigned count_;
  unsigned started_ = 0;
  unsigned killed_ = 0;
  unsigned in_transfer_ = 0;
  unsigned at_wire_up_ = 0;
  std::vector<Victim> victims_;
  std::deque<Talk> talks_;  ///< the first is that of the neighbour that stays
  std::vector<std::unique_ptr<Carrier>> closing_;
};

// --- all rounds ---

struct Ended {
  int status = 0;
  std::string said;  ///< to stderr
};

Ended run_survivor(unsigned count, std::uint64_t seed) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> errors(std::tmpfile(), std::fclose);
  if (!errors) fail("no temporary file");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(errors.get()), STDERR_FILENO);
  std::string name = "ucx_kills";
  std::string option = "--survivor";
  std::string number = std::to_string(count);
  std::string seeded = std::to_string(seed);
  std::array<char*, 5> words{name.data(), option.data(), number.data(), seeded.data(), nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, words.data(), environ) != 0) {
    fail("cannot start a survivor");
  }
  posix_spawn_file_actions_destroy(&actions);
  Ended ended;
  waitpid(pid, &ended.status, 0);
  std::rewind(errors.get());
  std::array<char, 4096> part{};
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), errors.get())) {
    ended.said.append(part.data(), size);
  }
  return ended;
}

int run_rounds(unsigned count, std::uint64_t seed) {
  const unsigned rounds = std::max(1U, (count + kRound - 1) / kRound);
  for (unsigned round = 0; round < rounds; ++round) {
    const Ended ended = run_survivor(std::min(kRound, count - round * kRound), seed + round);
    if (ended.status == 0) continue;
    fmt::print(stderr, "seed {}: status {:#x}\n{}", seed + round, ended.status, ended.said);
    return 1;
  }
  return 0;
}

void on_alarm(int) {
  constexpr std::string_view kText = "ucx_kills: hangs\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "--neighbour") {
    be_neighbour(static_cast<std::uint16_t>(std::atoi(argv[2])));
  }
  if (words.size() == 3 && words[0] == "--survivor") {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGALRM, on_alarm);
    std::signal(SIGPIPE, SIG_IGN);
    alarm(kPatienceS);
    Survivor(static_cast<unsigned>(std::atoi(argv[2])), std::strtoull(argv[3], nullptr, 10)).run();
    return 0;
  }
  if (words.empty() || words.size() > 2 || std::atoi(argv[1]) <= 0) {
    fail("usage: ucx_kills COUNT [SEED]");
  }
  return run_rounds(static_cast<unsigned>(std::atoi(argv[1])),
                    words.size() == 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
}
