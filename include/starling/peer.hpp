// A peer in a program of yours: the program trains as it likes, with whatever it likes, and
// Starling keeps its parameters in agreement with those of the other peers.
//
//     starling::Peer peer({.run_file = "swarm.toml", .parameters = initial, .samples = 60'000});
//     while (const auto step = peer.next_step()) {
//       const float loss = train(peer.parameters(), step->samples, step->learning_rate);
//       peer.step_done(loss);
//     }
//     peer.read(result);  // what the swarm has agreed on
//
// The run file has no [model], of [data] only `shards`, and of [train] only batch, batch_min and
// what schedules the learning rate. All else is as `starling up` has it: the folder with log,
// metrics, checkpoints and summary, and `starling status | members | links | leave | checkpoint`.
//
// Types of the standard library cross this interface, and it has no version of its own: compile the
// program against the headers of the very library that it runs with. Programs that must not be
// compiled again use starling/peer.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace starling {

/// What kind of thing went wrong.
enum class ErrorKind {
  internal,     ///< a bug, or a library that broke its promise
  usage,        ///< the options
  run_file,     ///< the run file, or a swarm that trains another run
  data,         ///< a checkpoint or another file that is missing or damaged
  unreachable,  ///< no peer answers, where one was required
  diverged,     ///< a value that is not finite
  device,       ///< a compute device; not met here, since the program has it
  network,      ///< sockets, addresses, TLS
};

/// What went wrong, in words for the user: what, where and what to do.
class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// A part of a vector, by its name in checkpoints, which are safetensors files.
struct Tensor {
  std::string name;
  std::vector<std::uint32_t> shape;  ///< its product is the number of elements
};

/// What training keeps beside the parameters, like the running statistics of batch norms. Buffers
/// are averaged whole between peers, so they should be small beside the parameters.
struct Buffer {
  Tensor tensor;
  std::vector<float> initial;
  bool never_negative = false;  ///< as a variance: others' values below 0 are refused
};

/// How good the parameters are, on data that is not trained on.
struct Evaluation {
  double accuracy = 0;  ///< 0 to 1; NaN: there is none
  double loss = 0;      ///< nats a label; one that is not finite ends the peer as diverged
};

/// Called in next_step(). `samples`: how many of the test set are enough; 0: all of them.
using Evaluate = std::function<Evaluation(std::span<const float> parameters,
                                          std::span<const float> buffers, std::uint32_t samples)>;

/// All have defaults, so that an initializer may name some of them without a warning.
struct PeerOptions {
  std::string run_file{};          ///< path of the TOML file
  std::vector<std::string> set{};  ///< "section.key=value": in place of what it says

  /// Initial parameters, one flat float32 vector. Must be non-empty and bit-identical at every
  /// peer.
  std::vector<float> parameters{};
  /// Names and shapes of the parts of `parameters`, in order, for checkpoints. Empty: one part,
  /// "parameters".
  std::vector<Tensor> tensors{};
  /// Buffers with their initial values. Must be bit-identical at every peer, too.
  std::vector<Buffer> buffers{};

  /// Size of the training set. Samples are numbered 0 ... samples-1; each step names the ones to
  /// train on.
  std::uint32_t samples = 0;
  /// Free-form identity of the data set. Part of the run id: peers whose value differs refuse each
  /// other.
  std::string dataset{};
  /// Measures the replica on data that is not trained on. Without it status, metrics and summary
  /// have neither accuracy nor test loss.
  Evaluate evaluate{};

  std::vector<std::string> join{};  ///< "host:port" of some peers of the swarm; one is enough
  std::string listen = "[::]:0";    ///< "ip:port", ":port" for both families; port 0: any free one
  /// "host:port" at which others reach this peer, told to them first; a DNS name as it is.
  std::vector<std::string> announce{};
  bool lan = false;            ///< look for peers on the local network
  std::string name{};          ///< empty: the host's, with a number where others run there
  std::string dir{};           ///< empty: runs/<run name>/<peer name>
  bool require_peers = false;  ///< end with `unreachable` where none is met in a minute
  bool quiet = false;          ///< warnings go to the log alone, not to stderr, too
  /// URL of a proxy to dial others through, socks5:// or http://; empty: as https_proxy, all_proxy
  /// and no_proxy say in the environment.
  std::string proxy{};
  /// Ask the router to let others in. It needs the program `starling`: beside this one, or named in
  /// STARLING_PROGRAM; the log says where it is missing.
  bool port_mapping = true;
};

/// A step that is due.
struct Step {
  std::uint64_t number = 0;  ///< from 1; goes on where a checkpoint left off
  float learning_rate = 0;   ///< of the schedule, at the progress of the swarm
  /// What to train on: train.batch of the training set, or fewer. A program whose data the others
  /// do not have takes as many of its own. Valid until the next next_step() or step_done().
  std::span<const std::uint32_t> samples;
};

/// How a run ended for this peer.
struct Summary {
  bool left = false;  ///< before the run was over
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t exchanges = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

/// One peer of a swarm. It looks after links and other peers on a thread of its own; all that
/// touches the parameters is done within next_step(), on the caller's. Call every method on the
/// thread that made it, except leave(). The constructor and next_step() throw Error; next_step(),
/// step_done(), read() and summary() throw std::logic_error where they are called wrongly, which
/// changes nothing.
///
/// A child of fork() may only destroy its copy of a peer, or end: the peer is its parent's, and
/// goes on there.
class [[gnu::visibility("default")]] Peer {
 public:
  /// Reads the run file and, where the peer's folder has one of this run, a checkpoint; listens.
  explicit Peer(PeerOptions options);
  /// Ends the peer at once, without a checkpoint, where it has not ended: its neighbours are told
  /// so. To save and say goodbye, leave() and call next_step() until it returns nothing.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// "ip:port" that others reach this peer at.
  [[nodiscard]] const std::string& address() const noexcept;
  [[nodiscard]] const std::string& dir() const noexcept;
  /// Whether parameters, buffers and steps come from a checkpoint. The program's optimizer then
  /// starts from what the program has kept of it, if anything.
  [[nodiscard]] bool resumed() const noexcept;

  /// The vector to train in place. Written by next_step(); the program may write it only between
  /// next_step() and step_done(). The address is stable for the peer's life.
  [[nodiscard]] std::span<float> parameters() noexcept;
  /// The values of all buffers, one buffer after the other, under the same rules.
  [[nodiscard]] std::span<float> buffers() noexcept;
  /// Copies the agreed replica to `out`, at any time. Use this, not parameters(), to evaluate or
  /// save: parameters() lacks what is held back from training until the next exchange. Throws
  /// std::logic_error where `out` is not as long as parameters().
  void read(std::span<float> out) const;

  /// Exchanges, evaluates and saves what is due, waits where nothing is, and returns the next step;
  /// nothing once the run has ended or this peer has left: 4 s later where a page of this peer is
  /// open, so that it shows the end. Throws Error once the peer has failed,
  /// what `evaluate` throws, and std::logic_error where the last step is not done.
  [[nodiscard]] std::optional<Step> next_step();
  /// Reports that the step was made, with the mean loss of its samples in nats. A loss that is not
  /// finite ends the peer: next_step() then throws Error (diverged). So do parameters or buffers
  /// that are not finite at the end; no checkpoint has such. Throws std::logic_error where no step
  /// is under way.
  void step_done(float loss);

  /// Asks the peer to save, say goodbye and end. Any thread; not a signal's handler.
  void leave();

  /// How the run ended here. Throws std::logic_error before next_step() has returned nothing or
  /// thrown Error.
  [[nodiscard]] Summary summary() const;

 private:
  struct [[gnu::visibility("hidden")]] Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
