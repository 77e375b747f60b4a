// Everything around a peer's core in a process: folder, identity, log, metrics, checkpoints, links
// and control port. The caller provides the task and runs the jobs of trainer().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_lock.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "compute/graph.hpp"
#include "data/sharding.hpp"
#include "exchange/buffers.hpp"
#include "exchange/replica.hpp"
#include "io/identity.hpp"
#include "io/node.hpp"
#include "io/proxy.hpp"
#include "io/secret.hpp"
#include "peer/config.hpp"
#include "peer/worker.hpp"
#include "report/log.hpp"
#include "report/status_json.hpp"
#include "report/summary.hpp"
#include "runfile/invite.hpp"
#include "runfile/run_file.hpp"
#include "runtime/belongings.hpp"
#include "runtime/options.hpp"
#include "runtime/progress.hpp"
#include "runtime/recorder.hpp"
#include "train/checkpoint.hpp"

namespace starling::runtime {

/// The parameters to train, and the data. Its views outlive the run.
struct Task {
  std::vector<float> parameters;  ///< initial parameters
  exchange::BufferSpec buffers;
  std::span<const compute::Tensor> tensors;  ///< of the parameters, for checkpoints
  std::span<const compute::Tensor> buffer_tensors;
  runfile::Identity identity;
  std::uint32_t samples = 0;             ///< of the training set
  std::span<const std::int32_t> labels;  ///< of each sample, if samples have one
  double bytes_per_label = 0;            ///< data::Dataset::bytes_per_label
};

/// Error (ErrorCode::run_file): an address in swarm.join cannot be dialed.
[[nodiscard]] base::Status check_join(const runfile::RunFile& run_file);

/// One peer of a process. Opened, prepared and run, in that order. All on one thread, unless stated
/// otherwise.
class Run {
 public:
  /// Makes the peer's folder with its identity and log. Errors: usage (the name, an address, or a
  /// peer runs in this folder), run_file (the secret, swarm.join), data (the folder).
  [[nodiscard]] static base::Result<std::unique_ptr<Run>> open(runfile::RunFile run_file,
                                                               Options options);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  [[nodiscard]] const runfile::RunFile& run_file() const noexcept { return run_file_; }
  /// train.device, once "auto" is decided.
  void set_device(std::string device) { run_file_.train.device = std::move(device); }
  [[nodiscard]] report::Log& log() noexcept { return log_; }
  [[nodiscard]] const std::string& dir() const noexcept { return dir_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const base::PeerId& id() const noexcept { return identity_.id(); }

  /// Reads the newest checkpoint of this run in the folder, writes the run file there, and opens
  /// the metrics, the listener and the control port. Error (usage): the folder is another run's.
  [[nodiscard]] base::Status prepare(Task task);

  [[nodiscard]] const wire::RunId& run_id() const noexcept { return run_id_; }
  [[nodiscard]] const data::Shards& shards() const noexcept { return *shards_; }
  /// "ip:port" at which others could reach this peer when it was prepared.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// For a machine without a run file: has this peer's address, those of `others`, and then this
  /// peer's further addresses, as many as fit. Nothing if this peer does not give out its run file:
  /// another program trains, or the file is too long.
  [[nodiscard]] std::optional<runfile::Invite> invite(
      const std::vector<std::string>& others = {}) const;
  /// "ip:port" of the page, the metrics and the commands, for this machine.
  [[nodiscard]] const std::string& http_address() const { return node_->control_address(); }
  /// The checkpoint from which this peer continues. Its tensors are there until they are used
  /// (below).
  [[nodiscard]] const std::optional<train::Checkpoint>& checkpoint() const noexcept {
    return checkpoint_;
  }
  /// Samples that this peer trained on in its former lives.
  [[nodiscard]] std::uint64_t samples_before() const noexcept;
  [[nodiscard]] base::StepNumber steps_before() const noexcept;

  /// The initial replica: the checkpoint's, or the task's. This frees the checkpoint's model. Error
  /// (ErrorCode::data): its tensors do not match. Once, on any thread.
  [[nodiscard]] base::Result<exchange::Replica> make_replica();
  /// Gives the optimizer the checkpoint's state, if there is one, and frees it. Error
  /// (ErrorCode::data): it belongs to another optimizer. Once, on any thread.
  [[nodiscard]] base::Status restore(train::UpdateRule& rule);
  /// Writes a checkpoint. On the replica's thread.
  [[nodiscard]] base::Status save(const peer::Snapshot& snapshot);

  /// Gives the owner of the replica its jobs.
  [[nodiscard]] io::TrainerPort& trainer() noexcept { return node_->trainer(); }

  /// Runs the peer until it ends. This is the loop thread from now on.
  [[nodiscard]] io::NodeEnd run();

  /// Writes the summary; the log also says if the peer failed. Then another peer may take the
  /// folder.
  report::PeerSummary finish(const io::NodeEnd& end);
  /// The differences between this run and the swarm's, one per line; empty if no swarm refused this
  /// peer.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

 private:
  Run(runfile::RunFile run_file, Options options, Belongings own);
  /// Error (ErrorCode::data): its tensors have other names.
  [[nodiscard]] base::Status load_checkpoint();
  /// Addresses of others, from a former life.
  std::vector<std::string> load_addresses();
  /// For the log and for people.
  void warn(std::string_view event, std::string_view text);
  base::Status open_node();
  [[nodiscard]] peer::Config core_config() const;
  /// The run file to give out; empty: none.
  [[nodiscard]] std::string shared_run_file() const;
  /// Writes unwritten_addresses_.
  base::Status remember();
  void on_report(const peer::Status& status, bool evaluated);
  [[nodiscard]] report::StatusExtra extra(const peer::Status& status, const io::Node& node) const;
  [[nodiscard]] io::ControlReply serve(const io::ControlRequest& request,
                                       const io::Node& node) const;

  const base::Time started_;  ///< when its program was started
  runfile::RunFile run_file_;
  const Options options_;
  const std::string name_;
  const std::string dir_;
  /// Key, log and checkpoints have one writer, until it has finished.
  std::optional<base::FileLock> lock_;
  const std::optional<io::Secret> secret_;
  const std::optional<io::ProxyConfig> proxy_;
  const io::Identity identity_;
  report::Log log_;
  Task task_;
  std::string canonical_;
  wire::RunId run_id_;
  std::optional<data::Shards> shards_;
  std::optional<train::Checkpoint> checkpoint_;
  std::vector<base::StepNumber> damaged_;  // steps of checkpoints that were passed over; save()'s
  std::optional<Recorder> recorder_;
  std::unique_ptr<io::Node> node_;
  std::string address_;
  std::optional<std::vector<std::string>> unwritten_addresses_;  ///< of others
  std::string refusal_;
  ProgressLines progress_lines_;
};

}  // namespace starling::runtime
