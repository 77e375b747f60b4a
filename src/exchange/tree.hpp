// The tree along which replicas settle. After the last step, neighbours differ by much more than a
// few elements, and to bring every pair together over every link tells each peer the same several
// times. So peers choose a spanning tree of their links. Replicas are gathered from its leaves to
// its root, which has their mean then, and the mean is spread back: each link of the tree carries
// one difference each way, and the other links rest.
//
// Gathering and spreading over a spanning tree: A. Segall, "Distributed Network Protocols", IEEE
// Transactions on Information Theory 29 (1983). The root is the peer of least rank: ranks are
// drawn, and each peer takes as its parent the neighbour that first told it of a lesser root. When
// all neighbours of a peer know its root, and all of its children are ready, it is ready, too; when
// the root is, all peers know it, and it says so down the tree (extinction: G. Tel, "Introduction
// to Distributed Algorithms", 2000, section 7.3).
//
// Then a peer gathers: for each child in turn,
//   x += w / (weight gathered so far + w) (mirror of the child - x)
// where w is the weight of all that is gathered at the child: so x becomes the weighted mean of all
// below. Later a child takes its parent's mirror as its replica. Where a link of the tree is lost,
// or nothing happens for long, all peers fall back to exchanges on all of their links.
//
// A link that one end leaves out, since it is not open there or the other is not trusted, is in no
// tree. A peer that all of its neighbours leave out follows: it takes the mean from the first that
// has it. Slow links are used only where no others lead to the root.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "exchange/duty.hpp"
#include "exchange/events.hpp"
#include "exchange/timers.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Whoever is told what is gathered, or the mean, waits for just that, and answers within so long.
inline constexpr base::Duration kAnswerWait = std::chrono::seconds(1);
/// How often a neighbour in the tree is told that something happens beyond this peer.
inline constexpr base::Duration kBeatEvery = std::chrono::seconds(2);
/// Time for other links to tell of a root that a slow one has told of: so long, up to twice that.
inline constexpr base::Duration kSlowAfter = std::chrono::milliseconds(500);

/// An open link along which a tree may lead.
struct Branch {
  base::PeerId peer;
  bool slow = false;  ///< to carry a replica takes long
};

class Tree {
 public:
  /// `rank`: drawn. Gives up when nothing has happened for `patience`, and sooner when a neighbour
  /// does not answer that has only to answer (kAnswerWait).
  Tree(std::uint64_t rank, base::Duration patience);

  // Events.
  /// Settling begins along these links, with this weight of the own replica. `usual`: time that
  /// neighbours may take for what they do, on top of all patience. Those that have told, and are
  /// not among these, must still be linked.
  void begin(double weight, const std::vector<Branch>& branches, base::Duration usual,
             base::Time now, Outbox& out);
  /// From a neighbour, also before begin(), and before the link is open. One that is not in this
  /// tree is told so, or it would wait.
  void hear(const base::PeerId& peer, const wire::Settle& said, base::Time now, Outbox& out);
  /// The link with a neighbour is no longer open.
  void lose(const base::PeerId& peer, base::Time now, Outbox& out);
  /// A child's part of this weight is about to be taken in. Gives the part of the way to it.
  [[nodiscard]] float gather(const base::PeerId& peer, float weight);
  /// An exchange was committed.
  void committed(const base::PeerId& peer, Effect effect, base::Time now, Outbox& out);
  void expire(base::Time now, Outbox& out);

  // State.
  /// Replicas settle along the tree: begun, and not given up.
  [[nodiscard]] bool is_on() const noexcept { return state_ == State::on; }
  /// This peer has the mean, and so has each that got it from here.
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] Duty duty(const base::PeerId& peer) const;
  /// The turn of a delta that is written now for a neighbour. `told`: the other end knows this
  /// replica nearly enough already. `awaits`: the turn of its delta of the same exchange, if here.
  [[nodiscard]] wire::Turn turn(const base::PeerId& peer, bool told,
                                std::optional<wire::Turn> awaits) const;
  /// Of all that is gathered here.
  [[nodiscard]] float weight() const;
  [[nodiscard]] std::vector<base::PeerId> neighbours() const;
  /// Whether this neighbour is in the tree, be it by other links or as one that follows.
  [[nodiscard]] bool includes(const base::PeerId& peer) const;
  void visit_timers(const TimerVisitor& visit) const;
  void add_bounds(std::size_t links, base::Bounds& out) const;

 private:
  enum class State : std::uint8_t { waiting, on, off };
  struct Neighbour {
    [[nodiscard]] bool is_child_of(std::uint64_t root) const;
    [[nodiscard]] bool follows() const;

    std::optional<wire::Settle> said{};
    std::optional<wire::Settle> told{};  ///< what this peer has said last
    double weight = 0;                   ///< that is gathered from it
    bool gathered = false;               ///< its part is in the own replica
    bool spread = false;                 ///< it has the mean
    bool slow = false;                   ///< as in Branch
    bool is_gone = false;                ///< it was lost when it had its part
    base::Time stirred{};                ///< when it told that something happens beyond it
    base::Time beaten{};                 ///< when it was told so last
  };

  /// All neighbours have told the same root, and all children are ready.
  [[nodiscard]] bool ready() const;
  /// All that is below is gathered here.
  [[nodiscard]] bool complete() const;
  /// All in the tree below this peer have the mean, and so has this one.
  [[nodiscard]] bool is_spread() const;
  /// Takes the other end for its parent if it has told a better root: over a slow link later.
  void consider(const base::PeerId& peer, const wire::Settle& said, base::Time now);
  void take_root(const base::PeerId& peer, const wire::Settle& said);
  /// A neighbour is being told something, and answers at once.
  [[nodiscard]] bool awaits_answer() const;
  /// Its tree is without this link.
  void leave_out(const base::PeerId& peer, base::Time now, Outbox& out);
  /// Is in no tree with this neighbour any more.
  void drop(const base::PeerId& peer, base::Time now, Outbox& out);
  /// Is in no tree at all: takes the mean from any that left it out.
  void follow(Outbox& out);
  void take_as_follower(const base::PeerId& from, Outbox& out);
  void go_on(base::Time now, Outbox& out);
  void wait_on(base::Time now);
  void tell(Outbox& out);
  /// Tells the others in the tree that something happens here, or beyond one of them.
  void beat(base::Time now, Outbox& out);
  /// `why`: for people; empty where others know.
  void give_up(std::string_view why, Outbox& out);

  base::Duration patience_;
  base::Duration slow_after_;  ///< by the rank: of two slow ways, one is taken first
  base::Duration usual_{};
  State state_ = State::waiting;
  std::uint64_t root_;
  bool begun_ = false;  ///< all peers know this root
  std::optional<base::PeerId> parent_{};
  double own_weight_ = 0;
  std::map<base::PeerId, Neighbour> neighbours_;
  std::vector<base::PeerId> left_out_{};     ///< neighbours that had begun, and are not begin()'s
  std::vector<base::PeerId> left_out_by_{};  ///< of begin()'s, those whose tree is without the link
  bool follows_ = false;
  bool told_up_ = false;                 ///< the parent has what is gathered here
  bool taken_ = false;                   ///< the parent's mean is here
  base::Time moved_at_{};                ///< when something happened here
  base::Time beat_at_{};                 ///< when others are told next that something happens
  std::optional<base::Time> slow_at_{};  ///< when roots count that slow links have told of
  base::Time until_{};
};

}  // namespace starling::exchange
