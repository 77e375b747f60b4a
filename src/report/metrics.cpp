#include "report/metrics.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace starling::report {
namespace {

using base::ErrorCode;
using base::fail;

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : std::string();
}

/// The whole rows of a file whose last row a crash may have cut off.
struct OldRows {
  std::vector<std::string> kept;
  MetricsRow last;  ///< the last row's counters, whether it is kept or not
};

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> values;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    values.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return values;
}

/// The position of a column in a row.
std::size_t place_of(std::string_view column) {
  const auto columns = split(kMetricsColumns);
  return static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin());
}

/// The number there; 0 if there is none.
template <class Number>
Number number_at(std::size_t place, const std::vector<std::string_view>& values) {
  Number number{};
  if (place < values.size()) {
    std::from_chars(values[place].data(), values[place].data() + values[place].size(), number);
  }
  return number;
}

base::Result<OldRows> read_rows(const std::string& path, std::uint64_t samples_max) {
  OldRows rows;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  // A file without a whole line was just made.
  if (!file || file.eof()) return rows;
  if (line != kMetricsColumns) {
    return fail(ErrorCode::data,
                "{}: has other columns than this version writes; move it away or start in "
                "another folder",
                path);
  }
  const std::size_t seconds = place_of("seconds");
  const std::size_t samples = place_of("samples");
  const std::size_t sent = place_of("bytes_sent");
  const std::size_t received = place_of("bytes_received");
  const std::size_t exchanges = place_of("exchanges");
  while (std::getline(file, line) && !file.eof()) {
    const auto values = split(line);
    rows.last = {.seconds = number_at<double>(seconds, values),
                 .bytes_sent = number_at<std::uint64_t>(sent, values),
                 .bytes_received = number_at<std::uint64_t>(received, values),
                 .exchanges = number_at<std::uint64_t>(exchanges, values)};
    if (number_at<std::uint64_t>(samples, values) <= samples_max) rows.kept.push_back(line);
  }
  return rows;
}

}  // namespace

std::string metrics_line(const MetricsRow& row) {
  return fmt::format("{:.3f},{},{},{},{},{},{:.6g},{},{},{},{},{}", row.seconds, row.samples,
                     row.steps, number(row.loss), number(row.train_loss), number(row.accuracy),
                     row.lr, number(row.drift), row.links, row.bytes_sent, row.bytes_received,
                     row.exchanges);
}

MetricsFile::MetricsFile(base::AppendedFile file, const MetricsRow& before)
    : file_(std::move(file)), before_(before) {}

base::Result<MetricsFile> MetricsFile::open(const std::string& dir,
                                            std::optional<std::uint64_t> goes_on_from) {
  if (auto made = base::make_folder(dir); !made) return fail(made.error());
  const std::string path = dir + "/metrics.csv";
  OldRows rows;
  if (goes_on_from) {
    auto read = read_rows(path, *goes_on_from);
    if (!read) return fail(read.error());
    rows = std::move(*read);
  }
  std::string text = fmt::format("{}\n", kMetricsColumns);
  for (const std::string& row : rows.kept) text += row + '\n';
  if (auto written = base::replace_file(path, text); !written) return fail(written.error());
  auto file = base::AppendedFile::open(path);
  if (!file) return fail(file.error());
  MetricsFile made(std::move(*file), rows.last);
  const std::size_t loss = place_of("loss");
  for (std::string& row : rows.kept) {
    const auto values = split(row);
    const bool evaluated = loss < values.size() && !values[loss].empty();
    if (!evaluated) ++made.written_;
    made.remember(std::move(row), evaluated);
  }
  return made;
}

void MetricsFile::remember(std::string line, bool evaluated) {
  (evaluated ? evaluated_ : others_).push({rows_++, std::move(line)});
}

std::string MetricsFile::thinned() const {
  std::vector<NumberedLine> lines = evaluated_.values();
  for (NumberedLine& line : others_.values()) lines.push_back(std::move(line));
  std::ranges::sort(lines, {}, &NumberedLine::number);
  std::string text = fmt::format("{}\n", kMetricsColumns);
  for (const NumberedLine& line : lines) text += line.line + '\n';
  return text;
}

base::Result<std::optional<MetricsRow>> MetricsFile::append(const MetricsRow& row) {
  if (!row.accuracy && !row.loss) {
    const std::uint64_t stride = std::uint64_t{1} << (written_ / kMetricsRowsDense);
    if (offered_++ % stride != 0) return std::nullopt;
    ++written_;
  }
  MetricsRow whole = row;
  whole.seconds += before_.seconds;
  whole.bytes_sent += before_.bytes_sent;
  whole.bytes_received += before_.bytes_received;
  whole.exchanges += before_.exchanges;
  std::string line = metrics_line(whole);
  const auto added = file_.append(line + '\n');
  remember(std::move(line), row.accuracy || row.loss);
  if (!added) return fail(added.error());
  return whole;
}

}  // namespace starling::report
