// Audits: a peer has each neighbour's whole replica, the mirror, and tries it on samples of its
// own. Where a neighbour's replica does much worse than this peer's, again and again, its pull on
// this peer is narrowed, then ends, and then the link does. Where this peer's own replica is much
// worse than the best of its neighbours', this peer heals: it counts nothing in averages, so that
// it goes to them and they do not come to it.
//
// Two replicas are compared by the loss on the same few samples, on which nobody trains. Where the
// peers train on different kinds of samples, all neighbours do worse on this peer's own: then a
// neighbour is compared with the others, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/peer_id.hpp"
#include "exchange/clip.hpp"
#include "exchange/jobs.hpp"

namespace starling::peer {

/// Samples on which replicas are tried at once.
inline constexpr std::uint32_t kAuditSamples = 16;
/// Samples on which a replica is tried before it is taken.
inline constexpr std::uint32_t kJudgeSamples = 128;
/// Part of the time for training that audits may take, where a step on a sample takes as long as
/// trying three.
inline constexpr double kAuditShare = 0.025;

/// A neighbour's replica as it was tried.
struct Tried {
  base::PeerId peer;
  double loss = 0;              ///< its mean loss, in nats
  std::uint64_t exchanges = 0;  ///< that its link had committed
  /// Its replica by itself does well, and only the way there does not: both trained apart.
  bool trained_apart = false;
};

class Audits {
 public:
  /// `interchangeable`: all peers train on the same kind of samples.
  explicit Audits(bool interchangeable) : interchangeable_(interchangeable) {}

  /// So many samples were trained on.
  void trained(std::uint32_t samples) noexcept;
  /// The neighbours to try now: those that are in doubt, new or pull hard before others, and one
  /// whose turn it is; all, where neighbours are compared with each other. None: it is not time
  /// yet. `pulling`: all neighbours; of others, the last are remembered.
  [[nodiscard]] std::vector<exchange::Pulling> due(std::span<const exchange::Pulling> pulling);
  /// How many times as bad a replica with the loss `other` is as one with `own`, within bounds.
  [[nodiscard]] static double times_worse(double own, double other) noexcept;
  /// Whether that would be held against a neighbour: its replica is to be tried by itself, too.
  [[nodiscard]] bool is_suspicious(double own, double other) const noexcept;
  /// Judges neighbours that were tried, on the same samples as the own replica with the loss `own`.
  [[nodiscard]] exchange::Audited judge(double own, std::span<const Tried> tried);

 private:
  /// As logarithms of a ratio of losses: what is far worse, and what one audit counts at most.
  struct Limits {
    double far_worse = 0;
    double most = 0;

    [[nodiscard]] double alike() const noexcept { return far_worse / 2; }
  };
  struct Record {
    double worse = 0;  ///< moving mean of how much worse than usual it is
    int strikes = 0;   ///< for audits in which it was far worse, the further the more
    exchange::Trust trust = exchange::Trust::unknown;
    std::uint64_t round = 0;                   ///< the last in which it was tried
    std::optional<std::uint64_t> exchanges{};  ///< as Tried, then; nothing: it was not yet noted

    /// It was so much worse `now`, beyond what is usual, after so many exchanges.
    void note(double now, std::uint64_t exchanges_now, const Limits& limits);
    /// It is not to be judged by the way to it.
    void clear(double now, std::uint64_t exchanges_now);
  };

  [[nodiscard]] Limits limits() const noexcept;
  void forget_oldest_gone(std::span<const exchange::Pulling> pulling);
  [[nodiscard]] bool is_doubted_anew(const exchange::Pulling& one) const;
  [[nodiscard]] bool has_time(std::size_t neighbours, bool hurries) const noexcept;
  [[nodiscard]] double usual(std::span<const double> worse) const;
  void look_at_itself(std::span<const double> worse);

  bool interchangeable_;
  double credit_ = 0;  ///< samples that may be tried
  std::uint64_t round_ = 0;
  int behind_ = 0;  ///< audits in a row in which a neighbour was far better; very far counts twice
  bool heals_ = false;
  std::map<base::PeerId, Record> records_;
};

}  // namespace starling::peer
