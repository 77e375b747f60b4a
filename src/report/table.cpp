#include "report/table.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.hpp"
#include "report/format.hpp"

namespace starling::report {
namespace {

constexpr std::size_t kNameMax = 16;
constexpr std::size_t kStateMax = 11;
/// Lines of a table besides the rows of peers: the run, the header, the swarm.
constexpr std::size_t kFrameLines = 3;

/// A column beside the name and the state.
struct Column {
  const char* title;
  std::size_t width;
  bool language;  ///< only for language models
  int rank;       ///< if a terminal is too narrow, columns with the highest rank go first
};

constexpr std::array kColumns{
    Column{"progress", 8, false, 0},  Column{"steps", 8, false, 9},
    Column{"samples/s", 9, false, 8}, Column{"train loss", 10, false, 2},
    Column{"accuracy", 8, false, 1},  Column{"perplexity", 10, true, 6},
    Column{"bits/byte", 9, true, 3},  Column{"drift", 7, false, 4},
    Column{"links", 5, false, 10},    Column{"sent", 9, false, 7},
    Column{"ETA", 12, false, 5},
};
using Cells = std::array<std::string, kColumns.size()>;

std::string optional_percent(const std::optional<double>& value, int decimals) {
  return value ? format_percent(*value, decimals) : "-";
}

/// The layout of a table.
struct Layout {
  std::size_t name_width = 0;
  bool language = false;
  std::array<bool, kColumns.size()> shown{};
};

/// Leaves out whole columns until the rest fits: a cut line would hide values unnoticed.
void choose_columns(Layout& layout, std::size_t columns) {
  std::size_t width = layout.name_width + 1 + kStateMax;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    layout.shown[i] = layout.language || !kColumns[i].language;
    if (layout.shown[i]) width += 1 + kColumns[i].width;
  }
  while (width > columns) {
    const auto rank_of = [&](const Column& column) {
      return layout.shown[static_cast<std::size_t>(&column - kColumns.data())] ? column.rank : -1;
    };
    const auto& last = *std::ranges::max_element(kColumns, {}, rank_of);
    if (rank_of(last) < 0) return;
    layout.shown[static_cast<std::size_t>(&last - kColumns.data())] = false;
    width -= 1 + last.width;
  }
}

std::string line_text(std::string_view name, std::string_view state, const Cells& cells,
                      const Layout& layout) {
  std::string text = fmt::format("{:<{}} {:<{}}", name, layout.name_width, state, kStateMax);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!layout.shown[i]) continue;
    text += fmt::format(" {:>{}}", cells[i], kColumns[i].width);
  }
  return text;
}

std::string header_text(const Layout& layout) {
  Cells titles;
  std::ranges::transform(kColumns, titles.begin(), &Column::title);
  return line_text("peer", "state", titles, layout);
}

std::string row_text(const PeerRow& row, const Layout& layout) {
  const auto& language = row.language;
  return line_text(
      base::printable(row.name, layout.name_width), base::printable(row.state, kStateMax),
      {format_percent(row.progress), format_count(row.steps),
       fmt::format("{:.0f}", row.samples_per_second),
       row.loss ? fmt::format("{:.3f}", *row.loss) : "-", optional_percent(row.accuracy, 2),
       language ? fmt::format("{:.2f}", language->perplexity) : "-",
       language ? fmt::format("{:.3f}", language->bits_per_byte) : "-",
       optional_percent(row.drift, 2), fmt::format("{}", row.links), format_bytes(row.bytes_sent),
       row.eta_seconds ? format_duration(*row.eta_seconds) : "-"},
      layout);
}

/// Mean of a value over the peers that have it.
std::optional<double> mean(const std::vector<PeerRow>& peers,
                           std::optional<double> PeerRow::*value) {
  double sum = 0;
  double count = 0;
  for (const PeerRow& peer : peers) {
    if (!(peer.*value)) continue;
    sum += *(peer.*value);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<LanguageQuality> mean_language(const std::vector<PeerRow>& peers) {
  LanguageQuality sum;
  double count = 0;
  for (const PeerRow& peer : peers) {
    if (!peer.language) continue;
    sum.perplexity += peer.language->perplexity;
    sum.bits_per_byte += peer.language->bits_per_byte;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return LanguageQuality{sum.perplexity / count, sum.bits_per_byte / count};
}

PeerRow swarm_row(const SwarmSnapshot& snapshot) {
  PeerRow swarm{.name = "swarm", .state = ""};
  for (const PeerRow& peer : snapshot.peers) {
    if (peer.progress > swarm.progress || &peer == &snapshot.peers.front()) {
      swarm.progress = peer.progress;
      swarm.eta_seconds = peer.eta_seconds;
    }
    swarm.steps += peer.steps;
    swarm.samples_per_second += peer.samples_per_second;
    swarm.links += peer.links;
    swarm.bytes_sent += peer.bytes_sent;
  }
  swarm.links /= 2;  // both ends counted theirs
  swarm.loss = mean(snapshot.peers, &PeerRow::loss);
  swarm.accuracy = mean(snapshot.peers, &PeerRow::accuracy);
  swarm.language = mean_language(snapshot.peers);
  swarm.drift = mean(snapshot.peers, &PeerRow::drift);
  return swarm;
}

void add_line(std::string& text, std::string_view line, std::size_t columns) {
  const std::size_t end = line.find_last_not_of(' ');
  line = line.substr(0, end == std::string_view::npos ? 0 : end + 1);
  text += line.substr(0, columns);
  text += '\n';
}

}  // namespace

std::string table_text(const SwarmSnapshot& snapshot, TableSize size) {
  Layout layout{.name_width = 5};  // "swarm"
  for (const PeerRow& peer : snapshot.peers) {
    layout.name_width = std::clamp(peer.name.size(), layout.name_width, kNameMax);
    layout.language = layout.language || peer.language;
  }
  choose_columns(layout, size.columns);
  std::string text;
  add_line(text,
           fmt::format("{}: {} peers, {}", base::printable(snapshot.run, 40), snapshot.peers.size(),
                       format_duration(snapshot.seconds)),
           size.columns);
  add_line(text, header_text(layout), size.columns);
  std::size_t shown = snapshot.peers.size();
  const std::size_t room = size.lines > kFrameLines ? size.lines - kFrameLines : 1;
  if (shown > room) shown = room - 1;  // one line says how many are left out
  for (std::size_t i = 0; i < shown; ++i) {
    add_line(text, row_text(snapshot.peers[i], layout), size.columns);
  }
  if (shown < snapshot.peers.size()) {
    add_line(text, fmt::format("... and {} more", snapshot.peers.size() - shown), size.columns);
  }
  add_line(text, row_text(swarm_row(snapshot), layout), size.columns);
  return text;
}

std::string plain_line(double seconds, std::size_t peers, const PeerRow& swarm) {
  const auto plural = [](std::size_t count) { return count == 1 ? "" : "s"; };
  std::string text =
      fmt::format("{}  {} peer{}  {}  {} steps  {:.0f} samples/s", format_duration(seconds), peers,
                  plural(peers), format_percent(swarm.progress), format_count(swarm.steps),
                  swarm.samples_per_second);
  if (swarm.loss) text += fmt::format("  training loss {:.3f}", *swarm.loss);
  if (swarm.accuracy) text += "  accuracy " + format_percent(*swarm.accuracy, 2);
  if (swarm.language) {
    text += fmt::format("  perplexity {:.2f}  {:.3f} bits/byte", swarm.language->perplexity,
                        swarm.language->bits_per_byte);
  }
  if (swarm.drift) text += "  drift " + format_percent(*swarm.drift, 2);
  text += fmt::format("  {} link{}  {} sent", swarm.links, plural(swarm.links),
                      format_bytes(swarm.bytes_sent));
  if (swarm.eta_seconds) text += "  ETA " + format_duration(*swarm.eta_seconds);
  return text + '\n';
}

std::string plain_line(const SwarmSnapshot& snapshot) {
  return plain_line(snapshot.seconds, snapshot.peers.size(), swarm_row(snapshot));
}

TablePrinter TablePrinter::for_stream(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return {stream, !dumb && ::isatty(::fileno(stream)) == 1};
}

TableSize TablePrinter::size() const {
  struct winsize window {};
  if (::ioctl(::fileno(stream_), TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {};
  // The cursor stands on the line below the table, and a full last column may wrap.
  return {.columns = std::max<std::size_t>(window.ws_col, 2) - 1U,
          .lines = std::max<std::size_t>(window.ws_row, 2) - 1U};
}

void TablePrinter::show(const SwarmSnapshot& snapshot, base::Time now) {
  const base::Duration interval = terminal_ ? kTableInterval : kPlainInterval;
  if (drawn_ && now - *drawn_ < interval) return;
  drawn_ = now;
  if (terminal_) {
    redraw(table_text(snapshot, size()));
  } else {
    std::fputs(plain_line(snapshot).c_str(), stream_);
    std::fflush(stream_);
  }
}

void TablePrinter::finish(const SwarmSnapshot& snapshot) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  redraw(table_text(snapshot, {.columns = terminal_ ? size().columns : kAll, .lines = kAll}));
  lines_drawn_ = 0;
}

void TablePrinter::redraw(const std::string& text) {
  // Up to the first line of the last table, then clear to the end of the screen.
  std::string out;
  if (lines_drawn_ > 0) out = fmt::format("\x1b[{}A\r\x1b[J", lines_drawn_);
  out += text;
  std::fwrite(out.data(), 1, out.size(), stream_);
  std::fflush(stream_);
  lines_drawn_ = static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace starling::report
