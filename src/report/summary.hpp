// summary.json: how a run ended, for one peer and for the swarm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "report/language.hpp"

namespace starling::report {

inline constexpr char kSummaryFile[] = "summary.json";

/// Bytes on links in one direction, TLS and framing included, by purpose.
struct BytesByPurpose {
  std::uint64_t total = 0;
  std::uint64_t delta = 0;
  std::uint64_t keyframe = 0;
  std::uint64_t membership = 0;
  std::uint64_t reduce = 0;  ///< the sums of rings: gradients, or movements of local rounds
  std::uint64_t other = 0;
  /// Of circuits, not part of any total: passed on for others, or the outer form of bytes that a
  /// link through a relay has counted.
  std::uint64_t relayed = 0;

  friend bool operator==(const BytesByPurpose&, const BytesByPurpose&) = default;
};

/// The purposes, whose sum without `relayed` is the total, by their names in files and metrics.
inline constexpr std::pair<const char*, std::uint64_t BytesByPurpose::*> kPurposes[] = {
    {"delta", &BytesByPurpose::delta},           {"keyframe", &BytesByPurpose::keyframe},
    {"membership", &BytesByPurpose::membership}, {"reduce", &BytesByPurpose::reduce},
    {"other", &BytesByPurpose::other},           {"relayed", &BytesByPurpose::relayed},
};

/// One evaluation on the test set.
struct HistoryPoint {
  double seconds = 0;
  std::uint64_t samples = 0;
  std::optional<double> accuracy;  ///< nothing if samples have no labels
  double loss = 0;                 ///< nats
  std::uint64_t bytes_sent = 0;

  friend bool operator==(const HistoryPoint&, const HistoryPoint&) = default;
};

inline constexpr std::size_t kHistoryMax = 4096;       ///< evaluations in a summary
inline constexpr std::size_t kSummaryPeersMax = 4096;  ///< peers in a swarm's summary
inline constexpr std::size_t kLeftOutMax = 4096;       ///< neighbours left out in a summary

/// A neighbour without which a peer has settled.
struct LeftOut {
  std::string name;
  std::string id;   ///< peer id, 64 hexadecimal digits
  std::string why;  ///< for people

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

/// How one peer's run went. Unknown figures (without an evaluation or a step) and missing ones (an
/// accuracy without labels) have no value and are null in the file.
struct PeerSummary {
  std::string name;
  std::string id;                  ///< peer id, 64 hexadecimal digits
  std::string run;                 ///< run id, 32 hexadecimal digits
  std::string end;                 ///< why it ended: "done", "left", "diverged", ...
  std::optional<double> accuracy;  ///< 0 to 1, final, on the whole test set
  std::optional<double> loss;      ///< nats
  /// Of a language model; "perplexity" and "bits_per_byte" in the file.
  std::optional<LanguageQuality> language;
  std::uint64_t samples = 0;  ///< trained by this peer
  std::uint64_t steps = 0;
  double seconds = 0;  ///< wall time of training
  BytesByPurpose bytes_sent;
  BytesByPurpose bytes_received;
  std::uint64_t exchanges = 0;
  std::optional<double> drift;
  /// Whether it agreed with others at the end, where there were any; nothing: it did not come so
  /// far, or exchanged no deltas.
  std::optional<bool> settled;
  std::vector<LeftOut> left_out;
  std::uint64_t rss_max_bytes = 0;              ///< peak resident memory
  std::optional<double> seconds_to_first_step;  ///< since the program was started
  std::vector<HistoryPoint> history;

  friend bool operator==(const PeerSummary&, const PeerSummary&) = default;
};

/// The ends of a peer that failed.
inline constexpr const char* kEndFailed = "failed";
inline constexpr const char* kEndDiverged = "diverged";

/// The swarm: totals of samples, steps, bytes and exchanges, and means of the rest; for accuracy,
/// loss, drift and the history, only over peers that did not fail. It has settled if each of those
/// has; who is left out by several is named once.
struct SwarmSummary {
  PeerSummary swarm;  ///< name: the run's; id: empty; end: the peers' if all agree, else "mixed"
  /// max |x_i - mean| / |mean| over the final replicas; nothing if it was not measured.
  std::optional<double> distance;
  std::vector<PeerSummary> peers;

  friend bool operator==(const SwarmSummary&, const SwarmSummary&) = default;
};

/// Sums up peers: the k-th point of the history is the mean of every peer's k-th, as far as all
/// have one.
[[nodiscard]] SwarmSummary summarize(std::string name, std::vector<PeerSummary> peers);

[[nodiscard]] std::string to_json(const PeerSummary& summary);
/// The swarm's figures at the top level, and under "peers" one object per peer.
[[nodiscard]] std::string to_json(const SwarmSummary& summary);

/// Reads the output of to_json; for a swarm, only the swarm's own figures. Unknown keys are
/// skipped. Errors (ErrorCode::data) name the key.
[[nodiscard]] base::Result<PeerSummary> peer_summary_from_json(std::string_view json);

inline constexpr std::uint64_t kSummaryBytesMax = 64U << 20;  ///< of a file to read

/// Replaces `dir`/summary.json as a whole: a reader sees the old or the new one. Blocks for the
/// disk.
[[nodiscard]] base::Status write_summary(const std::string& dir, const PeerSummary& summary);
[[nodiscard]] base::Status write_summary(const std::string& dir, const SwarmSummary& summary);
[[nodiscard]] base::Result<PeerSummary> read_peer_summary(const std::string& dir);

}  // namespace starling::report
