// Real peers as processes of this machine, on loopback and ports that the system picks.
// Whatever a test starts is killed when its owner goes, and by the kernel when the test dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "report/summary.hpp"
#include "tests/temporary_folder.hpp"

namespace starling::integration {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;
using Arguments = std::vector<std::string>;

/// For events that must happen in the end. Only a failing test waits this long, so it is generous:
/// the machine may be busy.
inline constexpr Duration kPatience = std::chrono::seconds(120);

inline constexpr Duration kPoll = std::chrono::milliseconds(20);

/// Asks every `pause` until `condition` holds; false when that took longer than `patience`.
[[nodiscard]] bool eventually(const std::function<bool()>& condition, Duration patience = kPatience,
                              Duration pause = kPoll);

/// The path of `starling`.
[[nodiscard]] std::string program();

/// The run file that most tests train: a small MLP on Fashion-MNIST.
[[nodiscard]] std::string mlp_run_file();

/// The same run with a run file that is too long for a peer to hand it out.
[[nodiscard]] std::string long_run_file(const testing::TemporaryFolder& folder);

[[nodiscard]] inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A file's whole text; empty if there is no such file.
[[nodiscard]] std::string text_of(const std::string& path);

/// The step numbers of the checkpoints in a peer's folder, the oldest first.
[[nodiscard]] std::vector<std::uint64_t> checkpoints_of(const std::string& dir);

/// `starling` with some arguments, or another program. Its output goes to files.
class Process {
 public:
  /// Starts it with the output in `output`.out and `output`.err.
  Process(const Arguments& arguments, const std::string& output);
  Process(const std::string& program, const Arguments& arguments, const std::string& output);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// Its exit code, or minus the signal that killed it; nothing while it runs.
  [[nodiscard]] std::optional<int> exit_code();
  /// Waits for its end; nothing when that took longer than `patience`.
  [[nodiscard]] std::optional<int> wait(Duration patience = kPatience);
  [[nodiscard]] std::string out() const { return text_of(output_ + ".out"); }
  [[nodiscard]] std::string err() const { return text_of(output_ + ".err"); }

 private:
  std::string output_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

/// The output of an ended command.
struct Ended {
  std::optional<int> code;  ///< nothing: it did not end in time and was killed
  std::string out;
  std::string err;
};

/// Runs `starling` to its end.
[[nodiscard]] Ended run(const testing::TemporaryFolder& folder, const Arguments& arguments,
                        Duration patience = kPatience);

/// A peer's status from its control port.
struct Status {
  std::string phase;
  std::uint64_t steps = 0;
  std::uint64_t swarm_samples = 0;
  double progress = 0;
  std::uint64_t links = 0;
  std::uint64_t exchanges = 0;
};

/// `starling up` with a folder of its own, or another program that is a peer.
class Peer {
 public:
  /// `join`: an address, or empty. `set`: keys of the run file.
  Peer(const testing::TemporaryFolder& folder, const std::string& name, const std::string& join,
       const Arguments& set, const std::string& listen = "127.0.0.1:0");
  /// `arguments` are the program's; its folder must be the one of that name in `folder`.
  Peer(const std::string& program, const Arguments& arguments,
       const testing::TemporaryFolder& folder, const std::string& name);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& dir() const noexcept { return dir_; }
  [[nodiscard]] Process& process() noexcept { return process_; }
  [[nodiscard]] bool runs() { return !process_.exit_code(); }
  /// Where others reach it; waits until it listens. Empty: it never did.
  [[nodiscard]] std::string address();
  /// Where `starling status` asks it: "host:port", after address().
  [[nodiscard]] const std::string& control() const noexcept { return control_; }
  /// Nothing when it does not answer.
  [[nodiscard]] std::optional<Status> status();
  /// Its view of a member: "alive", "dead", ...; "unknown", or "" when it does not answer.
  [[nodiscard]] std::string state_of(const std::string& member);
  /// From its summary.json; fails the test if there is none.
  [[nodiscard]] report::PeerSummary summary() const;

 private:
  [[nodiscard]] std::optional<std::string> ask(const std::string& path);
  bool find();

  std::string name_;
  std::string dir_;
  Process process_;
  std::string address_;
  std::string control_;
};

/// Keys of a run that takes a swarm of four about this long on this machine at its current load, so
/// that a fault in its middle is always in the middle: no peer becomes faster if others are gone or
/// the machine is less busy later. There are always enough samples for kUsualAccuracy. Measured
/// once per program, which takes some seconds.
[[nodiscard]] Arguments run_of(Duration length);

/// The MLP's accuracy on the test set in such a run (0.86 to 0.88), with room for chance.
inline constexpr double kUsualAccuracy = 0.84;

/// Peers "peer-1", "peer-2", ... of one run; the others join at the first one.
class Swarm {
 public:
  /// Every peer waits for links to all others before its first step.
  Swarm(std::uint32_t peers, Arguments set);

  [[nodiscard]] const testing::TemporaryFolder& folder() const noexcept { return folder_; }
  [[nodiscard]] Peer& operator[](std::size_t index) { return *peers_[index]; }
  [[nodiscard]] std::size_t size() const noexcept { return peers_.size(); }
  /// One more peer, or one that runs again in its old folder, which joins at `address`.
  Peer& add(const std::string& name, const std::string& address);
  /// Whether the swarm gets this far, as this peer knows it.
  [[nodiscard]] bool reaches(Peer& peer, double progress);
  /// SIGKILL, and waits until it is gone.
  void kill(std::size_t index);
  /// Requires that all peers but some end with exit code 0.
  void require_end(std::initializer_list<std::size_t> but = {});
  /// max |x_i - mean| / |mean| over the final replicas of all but some peers.
  [[nodiscard]] double distance(std::initializer_list<std::size_t> but = {}) const;

 private:
  testing::TemporaryFolder folder_;
  Arguments set_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace starling::integration
