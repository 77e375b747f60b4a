// What a peer leaves on disk of how its run went: metrics.csv, TensorBoard's file, summary.json.
#pragma once

#include <string>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/node.hpp"
#include "io/traffic.hpp"
#include "peer/status.hpp"
#include "report/log.hpp"
#include "report/metrics.hpp"
#include "report/summary.hpp"
#include "report/tensorboard.hpp"
#include "report/thinned.hpp"
#include "train/checkpoint_state.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {

/// One thread at a time.
class Recorder {
 public:
  /// Whose run it is.
  struct Subject {
    std::string dir;  ///< the peer's folder
    std::string name;
    base::PeerId id;
    wire::RunId run;
    double bytes_per_label = 0;  ///< data::Dataset::bytes_per_label
    base::Time started;          ///< when its program was
  };

  /// `goes_on_from`: of the checkpoint that the peer goes on from, else nullptr; what the files
  /// have of later steps is dropped. `log` outlives this. Error (ErrorCode::data): a file cannot be
  /// written.
  [[nodiscard]] static base::Result<Recorder> open(Subject subject,
                                                   const train::CheckpointState* goes_on_from,
                                                   report::Log& log);

  /// Adds a row, and a point to the summary's history if `evaluated`: the status has an evaluation
  /// that no earlier one had. Does not fail: rows that cannot be written are told in the log, once.
  void add(const peer::Status& status, bool evaluated, const io::LinkTraffic& traffic,
           base::Time now);

  /// As report::MetricsFile::thinned.
  [[nodiscard]] std::string thinned() const { return metrics_.thinned(); }

  /// Writes the summary; the log is told of it where that fails, and of a peer that failed.
  report::PeerSummary finish(const io::NodeEnd& end);

 private:
  Recorder(Subject subject, report::Log& log, report::MetricsFile metrics,
           report::TensorBoardFile tensorboard);
  [[nodiscard]] base::Status write(const report::MetricsRow& row);
  [[nodiscard]] report::PeerSummary summary(const io::NodeEnd& end) const;

  Subject subject_;
  report::Log& log_;
  report::MetricsFile metrics_;
  report::TensorBoardFile tensorboard_;
  report::Thinned<report::HistoryPoint> history_{report::kHistoryMax - 1};  // and the newest
  bool rows_fail_ = false;                                                  ///< and that was told
};

}  // namespace starling::runtime
