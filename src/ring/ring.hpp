// Ring all-reduce of gradients, the baseline: a fixed set of peers in order of id, each of which
// sends to the next one. Bucketed and pipelined after the scatter-reduce and all-gather of P.
// Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
// (2009).
//
// The gradient is cut into N chunks. Chunk c starts at peer c, collects every peer's part on its
// way round (scatter), is divided by N when it is complete, and goes round again unchanged
// (gather). So all peers get the same bits. Each peer sends 2 (N-1) / N of the gradient.
//
// A link may be replaced at any time, and everything on it is lost. So a peer sends only after its
// successor has said on the current link what it has, and continues from there. For this, only the
// means of the last step are kept: the values a peer holds of the current step are those it has
// sent, or those the successor had a part in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "wire/messages.hpp"

namespace starling::ring {

inline constexpr std::size_t kBucketElements = 64 * 1024;  ///< elements of one message: 256 KiB
inline constexpr std::size_t kPeersMax = 1024;

/// One peer's place in the ring. Deterministic, no time; one thread.
class Ring {
 public:
  /// How much a peer has of its predecessor's messages, whose order is fixed.
  struct Position {
    base::StepNumber step;     ///< the peer has all of earlier steps
    std::uint64_t pieces = 0;  ///< messages of this one

    friend auto operator<=>(const Position&, const Position&) = default;
  };

  // Events.
  struct GradientReady {
    base::StepNumber step;
    std::uint64_t samples = 0;  ///< own samples, sent along
    std::vector<float> gradient;
  };
  struct Received {
    wire::Reduce message;  ///< message from the predecessor
  };
  /// The first one, also after SuccessorLost, tells where the link begins; the messages after that
  /// point are sent.
  struct SuccessorHas {
    Position position;
  };
  /// Nothing is sent until the successor has said again what it has.
  struct SuccessorLost {};
  using Event = std::variant<GradientReady, Received, SuccessorHas, SuccessorLost>;

  // Actions.
  struct SendToSuccessor {
    wire::Reduce message;
  };
  struct Reduced {
    base::StepNumber step;
    std::vector<float> mean;
  };
  /// All of a step is here. It may get lost with the link: the next link begins with it.
  struct TellPredecessor {
    Position position;
  };
  /// A neighbour breaks the protocol: the mean cannot be computed, and the run ends.
  struct Failed {
    base::Error error;
  };
  using Action = std::variant<SendToSuccessor, Reduced, TellPredecessor, Failed>;

  /// `peers`: all of the ring, including `self`, each once, at most kPeersMax. `first`: the step of
  /// the first gradient; steps then count up by one. `elements`: of the gradient, > 0.
  Ring(std::vector<base::PeerId> peers, const base::PeerId& self, std::size_t elements,
       base::StepNumber first);

  [[nodiscard]] const base::PeerId& successor() const;
  [[nodiscard]] const base::PeerId& predecessor() const;
  [[nodiscard]] bool contains(const base::PeerId& peer) const;
  /// The step that is being reduced, or comes next.
  [[nodiscard]] base::StepNumber step() const noexcept { return step_; }
  /// The own gradient is here, and messages of others are still to come.
  [[nodiscard]] bool is_waiting() const noexcept { return ready_; }
  /// To be told when a link with the predecessor begins.
  [[nodiscard]] Position received() const noexcept { return {step_, taken_ + waiting_.size()}; }
  /// Whether the successor is known to have all steps that are reduced.
  [[nodiscard]] bool successor_has_all() const noexcept;

  /// A gradient may come only when the mean of the previous one is out (ASSERT). Messages for a
  /// step whose gradient is not ready wait; there are only those of one step, at most 4 bytes an
  /// element in all. After Failed, nothing more is accepted.
  void handle(Event event, std::vector<Action>& out);

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };

  /// Where a message belongs in a step: rounds 0 to N-2 scatter, N-1 to 2N-3 gather.
  struct Place {
    std::size_t round = 0;
    std::size_t bucket = 0;
  };
  /// The messages of a step on one link, by round, then by bucket: the `first` of each round, and
  /// the number of all.
  using Order = std::vector<std::size_t>;

  void on(GradientReady& event, std::vector<Action>& out);
  void on(Received& event, std::vector<Action>& out);
  void on(const SuccessorHas& event, std::vector<Action>& out);
  void on(const SuccessorLost&, std::vector<Action>&) { is_open_ = false; }
  [[nodiscard]] base::Status check(const wire::Reduce& message) const;
  [[nodiscard]] base::Status check(const Position& position) const;
  [[nodiscard]] bool can_send_from(const Position& position) const;
  void take(const wire::Reduce& message);
  void send_on(std::vector<Action>& out);
  [[nodiscard]] SendToSuccessor message(std::size_t index) const;
  void end_step(std::vector<Action>& out);
  void fail(base::Error error, std::vector<Action>& out);
  [[nodiscard]] base::StepNumber sent_step() const noexcept;
  [[nodiscard]] Position sent() const noexcept;
  [[nodiscard]] std::size_t to_send() const noexcept;
  [[nodiscard]] Range chunk(std::size_t index) const;
  [[nodiscard]] Range bucket(std::size_t chunk_index, std::size_t index) const;
  [[nodiscard]] std::size_t buckets(std::size_t chunk_index) const;
  [[nodiscard]] std::size_t hops() const noexcept { return peers_.size() - 1; }
  [[nodiscard]] std::size_t sent_chunk(std::size_t round) const;
  [[nodiscard]] std::size_t received_chunk(std::size_t round) const;
  [[nodiscard]] Order order_of(std::size_t (Ring::*chunk_of)(std::size_t round) const) const;
  [[nodiscard]] static Place place_of(const Order& order, std::size_t index);

  std::vector<base::PeerId> peers_;
  std::size_t self_;
  std::size_t elements_;
  Order incoming_;
  Order outgoing_;
  base::StepNumber first_;  // step at which the ring was made
  base::StepNumber step_;   // step being reduced, or the next one
  bool ready_ = false;      // whether the gradient of step_ is here
  bool failed_ = false;
  std::uint64_t samples_ = 0;
  std::vector<float> values_;          // own gradient, then sums, then means
  std::size_t taken_ = 0;              // messages of step_ that are in values_
  std::vector<wire::Reduce> waiting_;  // later ones, which wait for the gradient

  bool is_open_ = false;           // whether the successor has said where the link begins
  bool is_behind_ = false;         // whether messages of the last step are still to be sent
  std::size_t sent_ = 0;           // number of messages sent: of step_, or of the last one
  Position known_;                 // what the successor is known to have
  std::vector<float> last_means_;  // of the last step, while the successor may lack some
};

}  // namespace starling::ring
