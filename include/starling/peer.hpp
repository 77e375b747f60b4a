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
  double loss = 0;      ///< nats a label
};

/// Called in next_step(). `samples`: how many of the test set are enough; 0: all of them.
using Evaluate = std::function<Evaluation(std::span<const float> parameters,
                                          std::span<const float> buffers, std::uint32_t samples)>;

/// All have defaults, so that an initializer may name some of them without a warning.
struct PeerOptions {
  std::string run_file{};          ///< path of the TOML file
  std::vector<std::string> set{};  ///< "section.key=value": in place of what it says

  /// That the run starts with; the same at every peer. At least one.
  std::vector<float> parameters{};
  /// The parameters' parts, in order; empty: one part, "parameters".
  std::vector<Tensor> tensors{};
  std::vector<Buffer> buffers{};  ///< the same at every peer, too

  /// Samples of the training set, numbered from 0, which all peers have. A peer is told which of
  /// them are its own.
  std::uint32_t samples = 0;
  /// Says which data that is, for people and for peers: those that say something else are of
  /// another run.
  std::string dataset{};
  /// Without it there is no accuracy in status, metrics and summary.
  Evaluate evaluate{};

  std::vector<std::string> join{};   ///< "host:port" of any peer of the swarm
  std::string listen = "0.0.0.0:0";  ///< "ip:port"; port 0: any free one
  bool lan = false;                  ///< look for peers on the local network
  std::string name{};                ///< empty: the host's, with a number where others run there
  std::string dir{};                 ///< empty: runs/<run name>/<peer name>
  bool require_peers = false;        ///< end with `unreachable` where none is met in a minute
  bool quiet = false;                ///< warnings go to the log alone, not to stderr, too
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
/// thread that made it, except leave(). The constructor and next_step() throw Error; those that are
/// called out of turn std::logic_error.
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

  /// Where to train: next_step() moves them, the program changes them between next_step() and
  /// step_done(). They lie in one place for the peer's life.
  [[nodiscard]] std::span<float> parameters() noexcept;
  /// The same for the buffers, one after the other.
  [[nodiscard]] std::span<float> buffers() noexcept;
  /// Writes what the swarm agrees on to `out`, which is as long as the parameters, at any time.
  /// While exchanges go on parameters() differs from it by what is held back until they are done.
  /// To evaluate and to keep.
  void read(std::span<float> out) const;

  /// Exchanges, evaluates and saves what is due, waits where nothing is, and returns the next step.
  /// Nothing once the run has ended or this peer has left. Throws once it has failed.
  [[nodiscard]] std::optional<Step> next_step();
  /// Tells that the step was made, with the mean loss of its samples in nats. A loss that is not
  /// finite ends the peer: next_step() then throws `diverged`.
  void step_done(float loss);

  /// Asks the peer to save, say goodbye and end. Any thread; not a signal's handler.
  void leave();

  /// Once next_step() has returned nothing.
  [[nodiscard]] Summary summary() const;

 private:
  struct [[gnu::visibility("hidden")]] Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace starling
