// A peer in your own program: the program trains in its own way, and Starling keeps its parameters
// in agreement with those of the other peers.
//
//     starling::Peer peer({.run_file = "swarm.toml", .parameters = initial, .samples = 60'000});
//     while (const auto step = peer.next_step()) {
//       const float loss = train(peer.parameters(), step->samples, step->learning_rate);
//       peer.step_done(loss);
//     }
//     peer.read(result);  // the parameters that the swarm has agreed on
//
// The run file has no [model], of [data] only `shards`, and of [train] only batch, batch_min and
// the keys of the learning rate's schedule. Everything else is as with `starling up`: the folder
// with log, metrics, checkpoints and summary, and `starling status | members | links | leave |
// checkpoint`.
//
// Types of the standard library cross this interface, and it has no version of its own: compile the
// program against the headers of the library that it runs with. Programs that cannot be compiled
// again use starling/peer.h.
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

/// The kind of an error.
enum class ErrorKind {
  internal,     ///< a bug, or a library that broke its promise
  usage,        ///< the options
  run_file,     ///< the run file, or a swarm that trains another run
  data,         ///< a checkpoint or another file is missing or damaged
  unreachable,  ///< no peer answers, although one was required
  diverged,     ///< a value that is not finite
  device,       ///< a compute device; not used here, since the program has the device
  network,      ///< sockets, addresses, TLS
};

/// An error, with a text for the user: what is wrong, where, and what to do.
class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// A part of a vector, with its name in checkpoints, which are safetensors files.
struct Tensor {
  std::string name;
  std::vector<std::uint32_t> shape;  ///< its product is the number of elements
};

/// State that training keeps beside the parameters, like the running statistics of batch norms.
/// Buffers are averaged whole between peers, so they should be much smaller than the parameters.
struct Buffer {
  Tensor tensor;
  std::vector<float> initial;
  bool never_negative = false;  ///< like a variance: values below 0 from others are refused
};

/// The quality of the parameters, on data that is not trained on.
struct Evaluation {
  double accuracy = 0;  ///< 0 to 1; NaN: there is none
  double loss = 0;      ///< nats a label; one that is not finite ends the peer as diverged
};

/// Called in next_step(). `samples`: how many samples of the test set are enough; 0: all of them.
using Evaluate = std::function<Evaluation(std::span<const float> parameters,
                                          std::span<const float> buffers, std::uint32_t samples)>;

/// All have defaults, so that an initializer may name some of them without a warning.
struct PeerOptions {
  std::string run_file{};          ///< path of the TOML file
  std::vector<std::string> set{};  ///< "section.key=value": replaces this key

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
  /// Measures the replica on data that is not trained on. Without it, status, metrics and summary
  /// have neither accuracy nor test loss.
  Evaluate evaluate{};

  std::vector<std::string> join{};  ///< "host:port" of some peers of the swarm; one is enough
  std::string listen = "[::]:0";    ///< "ip:port", ":port" for both families; port 0: any free one
  /// "host:port" at which others reach this peer, told to them first; DNS names are passed on as
  /// they are.
  std::vector<std::string> announce{};
  bool lan = false;            ///< look for peers on the local network
  std::string name{};          ///< empty: the host's, with a number if others run there
  std::string dir{};           ///< empty: runs/<run name>/<peer name>
  bool require_peers = false;  ///< end with `unreachable` if none is met within a minute
  bool quiet = false;          ///< warnings go only to the log, not to stderr
  /// URL of a proxy to dial others through, socks5:// or http://; empty: as https_proxy, all_proxy
  /// and no_proxy in the environment say.
  std::string proxy{};
  /// Ask the router to let others in. This needs the program `starling`, beside this one or named
  /// in STARLING_PROGRAM; the log says if it is missing.
  bool port_mapping = true;
};

/// A step that is due.
struct Step {
  std::uint64_t number = 0;  ///< from 1; continues after a checkpoint's
  float learning_rate = 0;   ///< of the schedule, at the progress of the swarm
  /// The samples to train on: train.batch of the training set, or fewer. A program whose data the
  /// others do not have takes the same number of its own. Valid until the next next_step() or
  /// step_done().
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

/// One peer of a swarm. It handles links and other peers on its own thread; everything that touches
/// the parameters is done within next_step(), on the caller's thread. Call every method except
/// leave() on the thread that made the peer. The constructor and next_step() throw Error;
/// next_step(), step_done(), read() and summary() throw std::logic_error if they are called
/// wrongly, and then change nothing. A child of fork() may only destroy its copy of a peer, or end:
/// the peer belongs to its parent, and continues there.
class [[gnu::visibility("default")]] Peer {
 public:
  /// Reads the run file, and a checkpoint if the peer's folder has one of this run; listens.
  explicit Peer(PeerOptions options);
  /// Ends the peer at once, without a checkpoint, unless it has ended; its neighbours are told. To
  /// save and say goodbye, call leave() and then next_step() until it returns nothing.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// "ip:port" at which others reach this peer.
  [[nodiscard]] const std::string& address() const noexcept;
  [[nodiscard]] const std::string& dir() const noexcept;
  /// Whether parameters, buffers and steps come from a checkpoint. The program's optimizer then
  /// starts from the state that the program has kept, if any.
  [[nodiscard]] bool resumed() const noexcept;

  /// The vector to train in place. next_step() writes it; the program may write it only between
  /// next_step() and step_done(). The address is stable for the peer's life.
  [[nodiscard]] std::span<float> parameters() noexcept;
  /// The values of all buffers, one buffer after the other, under the same rules.
  [[nodiscard]] std::span<float> buffers() noexcept;
  /// Copies the agreed replica to `out`, at any time. Use this, not parameters(), to evaluate or
  /// save: parameters() lacks the part that is held back from training until the next exchange.
  /// Throws std::logic_error if `out` is not as long as parameters().
  void read(std::span<float> out) const;

  /// Runs the exchanges, evaluations and saves that are due, waits if nothing is due, and returns
  /// the next step. Returns nothing once the run has ended or this peer has left: 4 s later if a
  /// page of this peer is open, so that it shows the end. Throws Error once the peer has failed,
  /// whatever `evaluate` throws, and std::logic_error if the last step is not done.
  [[nodiscard]] std::optional<Step> next_step();
  /// Reports that the step was made, with the mean loss of its samples in nats. A loss that is not
  /// finite ends the peer: next_step() then throws Error (diverged). So do parameters or buffers
  /// that are not finite at the end; checkpoints never contain such values. Throws std::logic_error
  /// if no step is under way.
  void step_done(float loss);

  /// Asks the peer to save, say goodbye and end. Any thread; not from a signal handler.
  void leave();

  /// How the run ended here. Throws std::logic_error before next_step() has returned nothing or
  /// thrown Error.
  [[nodiscard]] Summary summary() const;

 private:
  struct [[gnu::visibility("hidden")]] Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
