// The live table of a swarm: one row per peer, redrawn in place on a terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "report/language.hpp"

namespace starling::report {

/// The last figures of one peer.
struct PeerRow {
  std::string name;
  std::string state;    ///< one word: "training", "settling", "done", "killed", ...
  double progress = 0;  ///< of the run, as this peer sees it, 0 to 1
  std::uint64_t steps = 0;
  double samples_per_second = 0;
  std::optional<double> loss;               ///< nats, training
  std::optional<double> accuracy;           ///< 0 to 1, test set
  std::optional<LanguageQuality> language;  ///< test set
  std::optional<double> drift;
  std::uint32_t links = 0;
  std::uint64_t bytes_sent = 0;
  std::optional<double> eta_seconds;
};

/// The swarm at one moment, in the order of the rows.
struct SwarmSnapshot {
  std::string run;
  double seconds = 0;  ///< since the swarm was started
  std::vector<PeerRow> peers;
};

struct TableSize {
  std::size_t columns = 100;  ///< longer lines are cut
  std::size_t lines = 24;     ///< rows that do not fit are counted in one line instead
};

/// The table: a line on the run, a header, a row for each peer and a row for the swarm (sums, and
/// means over the peers that have a value; progress and ETA of the peer that is furthest). It has
/// columns for the quality of a language model if a peer has one. If lines would be too long, whole
/// columns are left out. Each line ends with '\n'; plain ASCII.
[[nodiscard]] std::string table_text(const SwarmSnapshot& snapshot, TableSize size);

/// A row as one line of text, for a log or a pipe, after `seconds` in a swarm of `peers` peers.
/// Ends with '\n'.
[[nodiscard]] std::string plain_line(double seconds, std::size_t peers, const PeerRow& row);
/// The same for the swarm's row.
[[nodiscard]] std::string plain_line(const SwarmSnapshot& snapshot);

/// The shortest time between two drawings of show().
inline constexpr base::Duration kTableInterval = std::chrono::milliseconds(500);
inline constexpr base::Duration kPlainInterval = std::chrono::seconds(5);

/// Shows snapshots on a stream. One thread; the stream must outlive it.
class TablePrinter {
 public:
  /// `terminal`: redraws the table in place; otherwise adds a plain line now and then.
  TablePrinter(std::FILE* stream, bool terminal) : stream_(stream), terminal_(terminal) {}
  /// A terminal if the stream is one that can move its cursor.
  [[nodiscard]] static TablePrinter for_stream(std::FILE* stream);

  /// Draws, unless it did so within the interval.
  void show(const SwarmSnapshot& snapshot, base::Time now);
  /// Draws the last state, always as a table, and leaves it standing: all rows, and all columns
  /// that a terminal has room for.
  void finish(const SwarmSnapshot& snapshot);

 private:
  void redraw(const std::string& text);
  [[nodiscard]] TableSize size() const;

  std::FILE* stream_;
  bool terminal_;
  std::optional<base::Time> drawn_;
  std::size_t lines_drawn_ = 0;
};

}  // namespace starling::report
