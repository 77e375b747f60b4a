// A peer's record of its run on disk: metrics.csv, TensorBoard's file, summary.json.
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
  /// The peer whose run it is.
  struct Subject {
    std::string dir;  ///< the peer's folder
    std::string name;
    base::PeerId id;
    wire::RunId run;
    double bytes_per_label = 0;  ///< data::Dataset::bytes_per_label
    base::Time started;          ///< when its program was started
  };

  /// `goes_on_from`: the state of the checkpoint from which the peer continues, or nullptr; the
  /// files' rows of later steps are dropped. `log` outlives this. Error (ErrorCode::data): a file
  /// cannot be written.
  [[nodiscard]] static base::Result<Recorder> open(Subject subject,
                                                   const train::CheckpointState* goes_on_from,
                                                   report::Log& log);

  /// Adds a row, and a point to the summary's history if `evaluated`: the status has an evaluation
  /// that no earlier one had. Does not fail: if rows cannot be written, the log says so once.
  void add(const peer::Status& status, bool evaluated, const io::LinkTraffic& traffic,
           base::Time now);

  /// Like report::MetricsFile::thinned.
  [[nodiscard]] std::string thinned() const { return metrics_.thinned(); }

  /// Writes the summary; the log says if that fails, or if the peer failed.
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
  report::Thinned<report::HistoryPoint> history_{report::kHistoryMax - 1};  // plus the newest
  bool rows_fail_ = false;                                                  ///< and was reported
};

}  // namespace starling::runtime
