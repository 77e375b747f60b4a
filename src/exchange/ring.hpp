// Ring all-reduce of gradients, the baseline: a fixed set of peers in order of id, each sending to
// the next one. Bucketed and pipelined after the scatter-reduce and all-gather of P. Patarasuk and
// X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
//
// The gradient is cut in N chunks. Chunk c starts at peer c, collects every peer's part on its way
// round (scatter), is divided by N where it is complete, and goes round again as it is (gather): so
// all peers get the same bits. Each peer sends 2 (N-1) / N of the gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

inline constexpr std::size_t kBucketElements = 64 * 1024;  ///< elements of one message: 256 KiB
inline constexpr std::size_t kRingPeersMax = 1024;

/// One peer's place in the ring. Deterministic, no time; one thread.
class Ring {
 public:
  // Events.
  struct GradientReady {
    base::StepNumber step;
    std::uint64_t samples = 0;  ///< own samples, sent along
    std::vector<float> gradient;
  };
  struct Received {
    wire::Reduce message;  ///< message from the predecessor
  };
  using Event = std::variant<GradientReady, Received>;

  // Actions.
  struct SendToSuccessor {
    wire::Reduce message;
  };
  struct Reduced {
    base::StepNumber step;
    std::vector<float> mean;
  };
  /// The predecessor breaks the protocol: the mean can not be had, the run ends.
  struct Failed {
    base::Error error;
  };
  using Action = std::variant<SendToSuccessor, Reduced, Failed>;

  /// `peers`: all of the ring, `self` among them, each once, at most kRingPeersMax. `first`: the
  /// step of the first gradient; steps then count up by one. `elements` of the gradient, > 0.
  Ring(std::vector<base::PeerId> peers, const base::PeerId& self, std::size_t elements,
       base::StepNumber first);

  [[nodiscard]] const base::PeerId& successor() const;
  [[nodiscard]] const base::PeerId& predecessor() const;
  /// That is being reduced, or comes next.
  [[nodiscard]] base::StepNumber step() const noexcept { return step_; }
  /// The own gradient is here, and messages of others are to come.
  [[nodiscard]] bool is_waiting() const noexcept { return ready_ && to_come_ > 0; }

  /// A gradient may come only when the mean of the one before is out (ASSERT). Messages for a step
  /// whose gradient is not ready wait: those of one step, at most 4 bytes an element in all. After
  /// Failed, nothing is taken any more.
  void handle(Event event, std::vector<Action>& out);

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };

  void on(GradientReady& event, std::vector<Action>& out);
  void on(Received& event, std::vector<Action>& out);
  [[nodiscard]] base::Status check(const wire::Reduce& message) const;
  void take(const wire::Reduce& message, std::vector<Action>& out);
  void send(wire::ReducePhase phase, std::size_t hop, std::size_t chunk, std::size_t bucket,
            std::vector<Action>& out) const;
  [[nodiscard]] Range chunk(std::size_t index) const;
  [[nodiscard]] Range bucket(std::size_t chunk_index, std::size_t index) const;
  [[nodiscard]] std::size_t buckets(std::size_t chunk_index) const;
  [[nodiscard]] std::size_t received_chunk(wire::ReducePhase phase, std::size_t hop) const;
  [[nodiscard]] std::size_t place(const wire::Reduce& message) const;
  void start_step();

  std::vector<base::PeerId> peers_;
  std::size_t self_;
  std::size_t elements_;
  std::size_t buckets_max_;  // buckets of the longest chunk
  base::StepNumber first_;   // step at which the ring was made
  base::StepNumber step_;    // step being reduced, or the next one
  bool ready_ = false;       // whether the gradient of step_ is here
  bool failed_ = false;
  std::uint64_t samples_ = 0;
  std::vector<float> values_;          // own gradient, then sums, then means
  std::vector<bool> seen_;             // which messages of step_ have come
  std::size_t to_come_ = 0;            // messages of step_ that are to come
  std::vector<wire::Reduce> waiting_;  // messages that wait for the gradient
};

}  // namespace starling::exchange
