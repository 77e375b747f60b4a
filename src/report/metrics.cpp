#include "report/metrics.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace starling::report {
namespace {

using base::ErrorCode;
using base::fail;

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : std::string();
}

/// Makes a file that a crash left in the middle of a row end with the last whole one.
/// Returns whether it has a header.
base::Result<bool> mend(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::string line;
  std::getline(file, line);
  // A file without one whole line is one that was just made.
  if (file.eof()) return false;
  if (line != kMetricsColumns) {
    return fail(ErrorCode::data,
                "{}: has other columns than this version writes; move it away or start in "
                "another folder",
                path);
  }
  auto end = static_cast<std::uintmax_t>(file.tellg());
  while (std::getline(file, line)) {
    if (file.eof()) break;
    end = static_cast<std::uintmax_t>(file.tellg());
  }
  std::error_code error;
  std::filesystem::resize_file(path, end, error);
  if (error) return fail(ErrorCode::data, "{}: cannot be mended: {}", path, error.message());
  return true;
}

}  // namespace

std::string metrics_line(const MetricsRow& row) {
  return fmt::format("{:.3f},{},{},{},{:.6g},{},{:.6g},{:.6g},{},{},{},{}", row.seconds,
                     row.samples, row.steps, number(row.loss), row.train_loss, number(row.accuracy),
                     row.lr, row.drift, row.links, row.bytes_sent, row.bytes_received,
                     row.exchanges);
}

MetricsFile::MetricsFile(std::string path, std::ofstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

base::Result<MetricsFile> MetricsFile::open(const std::string& dir, Start start) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return fail(ErrorCode::data, "{}: cannot be created: {}", dir, error.message());
  const std::string path = dir + "/metrics.csv";
  bool continued = false;
  if (start == Start::continued) {
    const base::Result<bool> mended = mend(path);
    if (!mended) return fail(mended.error());
    continued = *mended;
  }
  std::ofstream file(path, continued ? std::ios::app : std::ios::trunc);
  if (!continued) file << kMetricsColumns << '\n' << std::flush;
  if (!file) return fail(ErrorCode::data, "{}: cannot be written", path);
  return MetricsFile(path, std::move(file));
}

base::Status MetricsFile::append(const MetricsRow& row) {
  if (!row.accuracy && !row.loss) {
    const std::uint64_t stride = std::uint64_t{1} << (written_ / kMetricsRowsDense);
    if (offered_++ % stride != 0) return {};
    ++written_;
  }
  file_ << metrics_line(row) << '\n' << std::flush;
  if (file_) return {};
  file_.clear();
  return fail(ErrorCode::data, "{}: cannot be written (is the disk full?)", path_);
}

}  // namespace starling::report
