// metrics.csv: how a peer's training went, a row every so often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/result.hpp"
#include "report/thinned.hpp"

namespace starling::report {

/// One row. Samples and steps are of all lives of this peer, its other counters of this one.
struct MetricsRow {
  double seconds = 0;                ///< wall time since training started
  std::uint64_t samples = 0;         ///< trained by this peer
  std::uint64_t steps = 0;           ///< of the optimizer
  std::optional<double> loss;        ///< nats, test set; nothing where it was not evaluated
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

/// Rows without an evaluation that all lives of a peer write before only every second one is, then
/// every fourth, and so on: a run of a year has a file of some megabytes.
inline constexpr std::uint64_t kMetricsRowsDense = 1U << 16;

/// Rows that are remembered for a picture of the run: as many with an evaluation, as many without.
inline constexpr std::size_t kMetricsRowsDrawn = 256;

/// A row as it stands in the file, without the end of line; there all counters are of all lives.
[[nodiscard]] std::string metrics_line(const MetricsRow& row);

/// Writes `dir`/metrics.csv. One thread at a time.
class MetricsFile {
 public:
  /// `goes_on_from`: samples of a checkpoint that this peer goes on from. Rows that are beyond it
  /// are dropped, since what they tell of is lost, and the others stay; seconds, bytes and
  /// exchanges go on from the last one. Without it what was there is replaced. Error
  /// (ErrorCode::data): the folder or file cannot be written, or has other columns.
  [[nodiscard]] static base::Result<MetricsFile> open(
      const std::string& dir, std::optional<std::uint64_t> goes_on_from = std::nullopt);

  /// Adds a row and hands it to the system, so that a killed peer leaves it behind. The row as it
  /// stands in the file, with counters of all lives; nothing where it was left out.
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
  std::uint64_t written_ = 0;  ///< of these, and of those of former lives
  std::uint64_t rows_ = 0;
  Thinned<NumberedLine> evaluated_{kMetricsRowsDrawn};
  Thinned<NumberedLine> others_{kMetricsRowsDrawn};
};

}  // namespace starling::report
