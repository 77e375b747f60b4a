// metrics.csv: the course of a peer's training, a row now and then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/result.hpp"
#include "report/thinned.hpp"

namespace starling::report {

/// One row. Samples and steps count over all lives of this peer, the other counters over this one.
struct MetricsRow {
  double seconds = 0;                ///< wall time since training started
  std::uint64_t samples = 0;         ///< trained by this peer
  std::uint64_t steps = 0;           ///< of the optimizer
  std::optional<double> loss;        ///< nats, test set; nothing if it was not evaluated
  std::optional<double> train_loss;  ///< nats, training batches, exponentially smoothed
  std::optional<double> accuracy;    ///< 0 to 1, test set
  double lr = 0;
  std::optional<double> drift;  ///< nothing before the first link
  std::uint32_t links = 0;
  std::uint64_t bytes_sent = 0;  ///< all purposes
  std::uint64_t bytes_received = 0;
  std::uint64_t exchanges = 0;  ///< committed, over all links
};

inline constexpr std::string_view kMetricsColumns =
    "seconds,samples,steps,loss,train_loss,accuracy,lr,drift,links,bytes_sent,bytes_received,"
    "exchanges";

/// After this many rows without an evaluation, over all lives of a peer, only every second one is
/// written, then every fourth, and so on: a run of a year has a file of some megabytes.
inline constexpr std::uint64_t kMetricsRowsDense = 1U << 16;

/// Rows that are kept for a picture of the run: this many with an evaluation, and this many
/// without.
inline constexpr std::size_t kMetricsRowsDrawn = 256;

/// A row as in the file, without the end of line; there, all counters are over all lives.
[[nodiscard]] std::string metrics_line(const MetricsRow& row);

/// Writes `dir`/metrics.csv. One thread at a time.
class MetricsFile {
 public:
  /// `goes_on_from`: samples of the checkpoint from which this peer continues. Rows beyond it are
  /// dropped, since their training is lost, and the others stay; seconds, bytes and exchanges
  /// continue from the last row. Without it, the file is replaced. Error (ErrorCode::data): the
  /// folder or file cannot be written, or has other columns.
  [[nodiscard]] static base::Result<MetricsFile> open(
      const std::string& dir, std::optional<std::uint64_t> goes_on_from = std::nullopt);

  /// Adds a row and passes it to the system, so that it stays if the peer is killed. Returns the
  /// row as in the file, with counters over all lives; nothing if it was left out.
  [[nodiscard]] base::Result<std::optional<MetricsRow>> append(const MetricsRow& row);

  /// The file's rows, thinned to a bounded number for a picture: CSV with the same columns.
  [[nodiscard]] std::string thinned() const;

 private:
  struct NumberedLine {
    std::uint64_t number = 0;
    std::string line;
  };
  void remember(std::string line, bool evaluated);

  MetricsFile(base::AppendedFile file, const MetricsRow& before);

  base::AppendedFile file_;
  MetricsRow before_;          ///< counters of former lives
  std::uint64_t offered_ = 0;  ///< rows without an evaluation, in this life
  std::uint64_t written_ = 0;  ///< written rows of these, and of former lives
  std::uint64_t rows_ = 0;
  Thinned<NumberedLine> evaluated_{kMetricsRowsDrawn};
  Thinned<NumberedLine> others_{kMetricsRowsDrawn};
};

}  // namespace starling::report
