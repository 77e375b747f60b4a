#include "report/summary.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/file.hpp"

namespace starling::report {
namespace {

using base::fail;

/// The mean of those peers that have a value.
class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  [[nodiscard]] std::optional<double> value() const {
    if (count_ == 0) return std::nullopt;
    return sum_ / count_;
  }

 private:
  double sum_ = 0;
  double count_ = 0;
};

/// The final replica of such a peer does not count for the swarm.
bool has_failed(const PeerSummary& peer) {
  return peer.end == kEndFailed || peer.end == kEndDiverged;
}

void add(BytesByPurpose& sum, const BytesByPurpose& bytes) {
  sum.total += bytes.total;
  for (const auto& [name, part] : kPurposes) sum.*part += bytes.*part;
}

std::vector<HistoryPoint> mean_history(std::span<const PeerSummary* const> peers) {
  std::size_t length = kHistoryMax;
  for (const PeerSummary* peer : peers) length = std::min(length, peer->history.size());
  if (peers.empty()) length = 0;
  std::vector<HistoryPoint> mean(length);
  const auto count = static_cast<double>(peers.size());
  for (std::size_t k = 0; k < length; ++k) {
    Mean accuracy;
    for (const PeerSummary* peer : peers) {
      const HistoryPoint& point = peer->history[k];
      mean[k].seconds += point.seconds / count;
      mean[k].samples += point.samples;
      accuracy.add(point.accuracy);
      mean[k].loss += point.loss / count;
      mean[k].bytes_sent += point.bytes_sent;
    }
    mean[k].accuracy = accuracy.value();
  }
  return mean;
}

/// Whether all peers have settled, as far as they tell, and who is left out by any of them.
void add_settling(const PeerSummary& peer, PeerSummary& swarm) {
  if (peer.settled) swarm.settled = swarm.settled.value_or(true) && *peer.settled;
  for (const LeftOut& one : peer.left_out) {
    const bool is_named = std::ranges::any_of(
        swarm.left_out, [&](const LeftOut& other) { return other.id == one.id; });
    if (!is_named && swarm.left_out.size() < kLeftOutMax) swarm.left_out.push_back(one);
  }
}

base::Status write_text(const std::string& dir, std::string text) {
  if (auto made = base::make_folder(dir); !made) return made;
  text += '\n';
  return base::replace_file(dir + "/" + kSummaryFile, text);
}

}  // namespace

SwarmSummary summarize(std::string name, std::vector<PeerSummary> peers) {
  SwarmSummary result;
  PeerSummary& swarm = result.swarm;
  swarm.name = std::move(name);
  Mean accuracy, loss, perplexity, bits_per_byte, seconds, drift, memory, first_step;
  std::vector<const PeerSummary*> sound;
  for (const PeerSummary& peer : peers) {
    if (!has_failed(peer)) sound.push_back(&peer);
  }
  for (const PeerSummary* peer : sound) {
    accuracy.add(peer->accuracy);
    loss.add(peer->loss);
    if (peer->language) {
      perplexity.add(peer->language->perplexity);
      bits_per_byte.add(peer->language->bits_per_byte);
    }
    drift.add(peer->drift);
    add_settling(*peer, swarm);
  }
  for (const PeerSummary& peer : peers) {
    seconds.add(peer.seconds);
    memory.add(static_cast<double>(peer.rss_max_bytes));
    first_step.add(peer.seconds_to_first_step);
    swarm.samples += peer.samples;
    swarm.steps += peer.steps;
    swarm.exchanges += peer.exchanges;
    add(swarm.bytes_sent, peer.bytes_sent);
    add(swarm.bytes_received, peer.bytes_received);
    const bool first = &peer == &peers.front();
    swarm.end = first || swarm.end == peer.end ? peer.end : "mixed";
    swarm.run = first || swarm.run == peer.run ? peer.run : "mixed";
  }
  swarm.accuracy = accuracy.value();
  swarm.loss = loss.value();
  if (perplexity.value()) swarm.language = {*perplexity.value(), *bits_per_byte.value()};
  swarm.seconds = seconds.value().value_or(0);
  swarm.drift = drift.value();
  swarm.rss_max_bytes = static_cast<std::uint64_t>(memory.value().value_or(0));
  swarm.seconds_to_first_step = first_step.value();
  swarm.history = mean_history(sound);
  result.peers = std::move(peers);
  return result;
}

base::Status write_summary(const std::string& dir, const PeerSummary& summary) {
  return write_text(dir, to_json(summary));
}

base::Status write_summary(const std::string& dir, const SwarmSummary& summary) {
  return write_text(dir, to_json(summary));
}

base::Result<PeerSummary> read_peer_summary(const std::string& dir) {
  const std::string path = dir + "/" + kSummaryFile;
  const base::Result<base::Bytes> bytes = base::read_file(path, kSummaryBytesMax);
  if (!bytes) return fail(bytes.error());
  auto summary = peer_summary_from_json(base::text_of(*bytes));
  if (!summary) return fail(summary.error().in(path));
  return summary;
}

}  // namespace starling::report
