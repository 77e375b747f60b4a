// The metrics for TensorBoard: records of TensorFlow's TFRecord format that hold its Event messages
// (github.com/tensorflow/tensorflow: core/lib/io/record_writer.cc, core/util/event.proto).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "base/result.hpp"
#include "report/metrics.hpp"

namespace starling::report {

/// Writes `dir`/tb/events.out.tfevents.*, a file for each start of a peer. One thread at a time.
class TensorBoardFile {
 public:
  /// `first_step`: the optimizer's step that the first row may have; TensorBoard drops rows of
  /// earlier starts from there on, since their training is lost. `seconds`: since 1970, in the
  /// file's name. Error (ErrorCode::data): the folder or file cannot be written.
  [[nodiscard]] static base::Result<TensorBoardFile> open(const std::string& dir,
                                                          const std::string& peer,
                                                          std::uint64_t first_step, double seconds);

  /// Adds a row for the optimizer's step, and passes it to the system. `seconds`: since 1970.
  [[nodiscard]] base::Status append(const MetricsRow& row, double seconds);

 private:
  explicit TensorBoardFile(base::AppendedFile file) : file_(std::move(file)) {}

  base::AppendedFile file_;
};

}  // namespace starling::report
