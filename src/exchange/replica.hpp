// The numeric state of tracked link averaging: the replica and the mirrors of its links.
//
// Stored are y, the vector that is trained, and r. The replica is x = y + r. Every link has
// two mirrors, `mine` (what the other end knows of x) and `theirs` (what this end knows of the
// other's replica); the other end holds the same two, bit for bit, under the other names.
//
// A commit of an exchange does, element by element, in single float32 operations in this order:
//   mine   += own delta          theirs += their delta
//   e       = w * s * (theirs - mine)     with the clip s <= 1 (exchange/clip.hpp)
//   d       = e * min(1, their p / own p)    d' = e * min(1, own p / their p)
//   x      += d      mine += d      theirs -= d'      (y += d, and r stays)
// with the weights p of both ends, powers of two, as their deltas say (exchange/weight.hpp): so
// own p d == their p d' exactly, and the sum of p x over all peers stays as it is.
// At the other end the names are swapped, so it computes e' = w * (mine - theirs). Rounding to
// nearest is symmetric: mine - theirs == -(theirs - mine) exactly, w is the same float32, so
// e' == -e, and its theirs - d has the bits of this mine + d. One exception would be zeros of
// different sign (a - a is +0 on both ends); it cannot arise because no mirror ever holds -0: the
// initial parameters are freed of it, and in rounding to nearest a sum is -0 only if both terms
// are.
//
// A link may have a momentum, a vector v, 0 at first, that its two ends have alike. Then, before d,
//   v  = momentum * v + (mean of mine and theirs, by p - what it was before the deltas)
//   f  = s * momentum_step * v     mine += f      theirs += f      x += f * degree_inverse
// with the clip s, and degree_inverse = 1 / L: the mirrors take it that all L links of a replica
// move it alike, and momentum_step = gain * (1 - momentum): what deltas moved both mirrors by, they
// go on with, gain times as far in all, during about 1 / (1 - momentum) exchanges. It is the
// momentum of what the ends agree on: a sum of two has the same bits at both, and d, which is not
// in mine + theirs, is not repeated. Replicas then no longer have a sum that commits conserve.
//
// The part that a delta leaves out is held back from training: when k of L open links have written
// one,
//   r = (1 - k / L) r + lambda / P * sum over the k of min(1, their p / own p) (x - mine - delta)
// in the order in which they are written, with p of the last commit, and y = x - r after each. P is
// the sum of min(1, their p / own p) over the L links, at least 1. That is lambda times the mean of
// what the links left out when they last wrote, where all write at once, and a moving one
// otherwise; one with a light end counts little in it, and if all are light, little is held back.
// Between two of these r is constant: what is trained after a delta was written is not held back.
// Without an open link r = 0.
//
// Mirrors in bfloat16 are widened, go through the same operations and are rounded at random, by a
// draw that both ends make alike: the step is exact for x, and what a mirror loses of it stays
// between x and the mirror, where the next deltas find it. To the nearest, steps below half of what
// bfloat16 resolves would not reach the mirrors, and be made again at every commit.
//
// Under CHOCO-SGD (arXiv:1902.00340, algorithm 2) a commit leaves the mirrors as the deltas have
// made them: x += gamma * d alone; and nothing is held back.
//
// Buffers lie beside all that: a commit whose exchange carries the other end's moves the own ones
// by w min(1, their p / own p) of the way to those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/large_vector.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "delta/codec.hpp"
#include "delta/host_memory.hpp"
#include "delta/replica_memory.hpp"
#include "exchange/buffers.hpp"
#include "exchange/clip.hpp"
#include "exchange/config.hpp"
#include "exchange/guard.hpp"
#include "exchange/jobs.hpp"

namespace starling::exchange {

enum class MirrorOf { mine, theirs };

/// Where next to nothing was learned, replicas agree as if this part of their norm had been.
inline constexpr double kLearnedMin = 0.01;

/// How a commit averages: see the head of this file.
struct Averaging {
  Mode mode = Mode::tracked;     ///< tracked or choco; all others are as tracked
  float gamma = 1.0F;            ///< CHOCO-SGD's consensus step size, above 0 and at most 1
  float momentum = 0.0F;         ///< tracked: 0 to below 1
  float momentum_step = 0.0F;    ///< tracked: of the momentum, that a commit moves by
  bool clips = true;             ///< tracked: no link pulls much harder than others do
  double far = far_pull(false);  ///< as of clip(), where it clips
  MirrorType mirror = MirrorType::float32;
};

/// One thread (the trainer's). Memory: size() * 4 bytes * (3 + 2 for each link, suspended ones
/// included; 1 with mirrors in bfloat16; 1 more with momentum), of which all but the initial
/// parameters may lie in a device's memory; the elements of the deltas in hand, and for each link
/// the buffers. At most kLinksMax open links and kGraceLinksMax suspended ones. Naming a link that
/// is not there is a bug (ASSERT), as is opening one that is; and encode(), commit(), opening and
/// closing while commits are staged. Where a device fails, the first error stands in
/// status(), and what the replica holds is lost. Where a device has no room for a link or a delta
/// of it (ErrorCode::no_room), the replica is as it was.
class Replica {
 public:
  /// y = `initial`, which is kept: keyframes are differences to it. 0 <= lambda <= 1, 0 under
  /// CHOCO-SGD. The parameters are finite and bounded by kMagnitudeMax (ASSERT): the
  /// program made them.
  Replica(std::span<const float> initial, float lambda, BufferSpec buffers = {},
          Averaging averaging = {});

  /// Goes on in a device's memory, which outlives this; before any link is opened (ASSERT).
  void move_to(delta::ReplicaMemory& memory);
  /// The device's first error (ErrorCode::device); always good in the processor's memory.
  [[nodiscard]] const base::Status& status() const noexcept { return status_; }

  // For the trainer.
  /// y; empty if it lies in a device's memory.
  [[nodiscard]] std::span<float> trained() noexcept;
  [[nodiscard]] std::span<const float> trained() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return initial_.size(); }
  [[nodiscard]] const Averaging& averaging() const noexcept { return averaging_; }
  /// Writes x, what is evaluated, saved and exported; `x` has size() elements.
  void read(std::span<float> x) const;
  /// The buffers, for x as for y.
  [[nodiscard]] Buffers& buffers() noexcept { return buffers_; }
  [[nodiscard]] const Buffers& buffers() const noexcept { return buffers_; }

  // Opening. On failure (protocol: the other end's payload; judged_bad: its replica; internal: the
  // own payload; diverged: x; no_room: for the mirrors) nothing has changed.
  /// Both ends stand at the initial parameters.
  [[nodiscard]] base::Status open_fresh(const base::PeerId& peer);
  /// Writes the keyframe of x: its difference to the initial parameters.
  [[nodiscard]] base::Status encode_keyframe(base::Bytes& out) const;
  /// Both have a history: each mirror becomes what its keyframe says.
  [[nodiscard]] base::Status open_merge(const base::PeerId& peer, base::ByteView own_keyframe,
                                        base::ByteView their_keyframe);
  /// This end takes the other's replica: x and both mirrors become what the keyframe says, the
  /// buffers what came beside it.
  [[nodiscard]] base::Status open_adopted(const base::PeerId& peer, base::ByteView their_keyframe,
                                          base::ByteView their_buffers = {});
  /// The other end took this replica as the keyframe says it: both mirrors become that.
  [[nodiscard]] base::Status open_gave(const base::PeerId& peer, base::ByteView own_keyframe);

  // Exchanging.
  /// Says that so many deltas at most, of as many links, are written until it is said anew. Where
  /// it is not called, or is 0, or they are more, each is taken for the only one.
  void expect_deltas(std::size_t count);
  /// Writes q = C(x - mine) to `out` (replaced), and holds back what it leaves out. Gives the
  /// drift: the distance() to theirs. diverged: x is not finite; no_room: x is as it was.
  [[nodiscard]] base::Result<double> encode(const base::PeerId& peer, const delta::Options& options,
                                            base::Bytes& out);
  /// By how much the exchange whose delta was written last, `lag` times as late as usual, may move
  /// this end; nothing: by any. `tried`: refuse_if_bad() tries it, where there is a judge.
  [[nodiscard]] std::optional<float> radius(const base::PeerId& peer, double lag,
                                            bool tried = false);
  void set_trust(const base::PeerId& peer, Trust trust);
  /// How many times as bad `there` is as `here`, with these buffers; empty: its own.
  using Judge = std::function<double(std::span<const float> here, std::span<const float> there,
                                     std::span<const float> buffers)>;
  /// Asked before another replica is adopted, and where samples are alike by refuse_if_bad(): else
  /// the mean of all does worse than a replica that has seen only some of the labels.
  void set_judge(Judge judge) { judge_ = std::move(judge); }
  /// While it heals, vouched neighbours may move this end all the way to where they were.
  void heal(bool heals) noexcept { heals_ = heals; }
  /// Open links whose last exchange could move this end by more than a little, and whose ends know
  /// each other's buffers: what there is to audit.
  [[nodiscard]] std::vector<Pulling> pulling() const;
  /// An end's buffers as both ends know them; empty: they do not.
  [[nodiscard]] std::span<const float> known_buffers(const base::PeerId& peer,
                                                     MirrorOf which) const;
  /// |x - a mirror of the link| / |x|, estimated from 1/32 of the elements of a large one, and from
  /// a quarter of a million at most; every call looks at others.
  [[nodiscard]] double distance(const base::PeerId& peer, MirrorOf which);
  /// In settling: the distance() to mine, of which the largest bounds how far this end may go at
  /// once.
  [[nodiscard]] double untold(const base::PeerId& peer);
  /// |x - the initial parameters| / |x|, at least kLearnedMin; looks once, in settling.
  [[nodiscard]] double learned();
  /// |buffers - what is known of the other end's| / |buffers|; 0 without buffers, and 1 where
  /// nothing is known yet.
  [[nodiscard]] double buffer_drift(const base::PeerId& peer) const;
  /// Checks an exchange completely and keeps it for apply_staged(); one a link, which may be
  /// suspended: the other end may have made its part. On failure (protocol: the other end's payload
  /// or buffers are malformed, or would take its mirror beyond kMagnitudeMax; internal: the same of
  /// the own ones; no_room: for the deltas) nothing is kept.
  [[nodiscard]] base::Status stage(const CommitJob& job);
  /// In settling, of the exchange that was staged last: drops it, if what it would make of this
  /// replica is judged bad, or is too far away where nobody judges. The link can only be closed
  /// then.
  [[nodiscard]] bool refuse_if_bad(const base::PeerId& peer);
  /// Of a link's mirrors, as both ends know it.
  [[nodiscard]] const Apart& apart(const base::PeerId& peer) const { return link(peer).apart; }
  /// What the exchange that is staged is like; nothing moves where it does not average.
  [[nodiscard]] Reach staged_reach(const base::PeerId& peer) const {
    return links_.at(peer).guard.staged();
  }
  /// Commits all that is staged, in order of peer id. One pass over the memory, but on a GPU one
  /// for each eight links, with mirrors in bfloat16 or a momentum one a link.
  void apply_staged();

  // The life of a link.
  /// A broken link: its mirrors stay.
  void suspend(const base::PeerId& peer);
  void resume(const base::PeerId& peer);
  /// Frees the mirrors.
  void close(const base::PeerId& peer);

  [[nodiscard]] bool has(const base::PeerId& peer) const { return links_.contains(peer); }
  /// Open links: suspended ones do not count.
  [[nodiscard]] std::size_t open_links() const noexcept;
  /// XXH3 of a mirror's bits; both ends get the same for the same replica.
  [[nodiscard]] std::uint64_t mirror_hash(const base::PeerId& peer, MirrorOf which) const;
  /// A mirror's elements.
  [[nodiscard]] base::LargeFloats mirror(const base::PeerId& peer, MirrorOf which) const;

 private:
  using MirrorId = delta::ReplicaMemory::MirrorId;
  using DeltaPointer = std::unique_ptr<delta::Delta>;

  /// An exchange that was checked, until apply_staged().
  struct Staged {
    float w = 0.0F;
    float degree_inverse = 1.0F;
    float momentum_step = 0.0F;   // of the link's momentum, that it moves the ends by
    bool takes = false;           // after it, the replica becomes `mine`
    float gathers = 0.0F;         // after it, the replica goes this part of the way to `theirs`
    std::uint32_t draw = 0;       // seed of its rounding
    bool own_is_written = false;  // its own delta is the link's `written`, otherwise `own`
    float bound = 0.0F;           // the link's `bound` after it
    float momentum_bound = 0.0F;  // likewise
    Apart apart{};                // likewise
    std::vector<float> own_buffers{};    // empty: it carries none
    std::vector<float> their_buffers{};  // empty: it carries none
  };

  struct Link {
    MirrorId mine = 0;
    MirrorId theirs = 0;
    bool open = true;
    delta::EndParts parts{};             // of the last exchange
    float bound = 0.0F;                  // no element of the two mirrors is larger
    float momentum_bound = 0.0F;         // no element of the link's momentum is larger
    Apart apart{};                       // of the mirrors
    DeltaPointer written{};              // the last own delta, until the mirror has it
    std::uint64_t written_hash = 0;      // hash of that delta's payload
    DeltaPointer own{};                  // room for an own delta that is another one
    DeltaPointer their{};                // the other end's delta
    std::vector<float> known_buffers{};  // the other end's buffers; empty: not known
    std::vector<float> told_buffers{};   // this end's buffers, as the other end knows them
    std::uint64_t looks = 0;             // calls so far: moves the places that distances look at
    Guard guard{};
    std::optional<Staged> staged{};
  };

  static const delta::Delta& own_delta(const Link& link, const Staged& staged) {
    return staged.own_is_written ? *link.written : *link.own;
  }
  Link& link(const base::PeerId& peer);
  const Link& link(const base::PeerId& peer) const;
  MirrorId find_mirror(const base::PeerId& peer, MirrorOf which) const;
  [[nodiscard]] bool judges_exchanges() const { return judge_ && averaging_.far < 1.0; }
  [[nodiscard]] base::Status judge_adopted(std::span<const float> values,
                                           std::span<const float> buffers) const;
  base::Status encode_from(std::span<const float> origin, base::Bytes& out) const;
  base::Result<base::LargeFloats> read_keyframe(base::ByteView keyframe) const;
  base::Status add_link(const base::PeerId& peer, base::LargeFloats mine, base::LargeFloats theirs,
                        std::vector<float> known_buffers = {});
  base::Status stage_delta(Link& link, const CommitJob& job, Staged& staged);
  base::Status stage_step(Link& link, const CommitJob& job, Staged& staged);
  [[nodiscard]] base::Result<Apart> measure_apart(const Link& link) const;
  [[nodiscard]] base::Result<base::LargeFloats> values_after(MirrorId mirror,
                                                             const Touched& by) const;
  base::Status read_touched(Link& link, const delta::Delta& delta, Touched& into);
  base::Status check_bounds(Link& link, float largest, float momentum_step, Staged& staged) const;
  base::Status commit_deltas();
  delta::ReplicaMemory::CommitStep step_of(const Link& link, const Staged& staged) const;
  std::optional<delta::ReplicaMemory::HoldBack> next_hold(const Link& link);
  float open_parts() const noexcept;
  void release_if_alone();
  std::size_t looked_every() const;
  delta::Squares squares_to(MirrorId mirror, Link& link);
  double norm_of(const delta::Delta& delta);
  void average_buffers(Link& link, Staged& staged);
  void take(const Link& link);
  void gather(const Link& link, float part);
  bool staging() const noexcept;
  template <class T>
  T must(base::Result<T> result) const;
  base::Status must(base::Status status) const;
  base::Status noted(base::Status status) const;

  base::LargeFloats initial_;
  std::unique_ptr<delta::HostMemory> host_;  // null: the vectors lie elsewhere
  delta::ReplicaMemory* memory_;
  mutable base::Status status_;  // reading may be what fails
  float lambda_;
  bool heals_ = false;
  Judge judge_;
  std::size_t deltas_to_come_ = 0;   // deltas to be written before the next local step
  std::size_t parts_to_clear_ = 0;   // links whose parts of r the next of them clears
  std::size_t largest_written_ = 0;  // elements of the largest own delta so far
  std::optional<double> learned_;
  double untold_ = 0;  ///< |x - mine|, the largest that untold() has seen
  Averaging averaging_;
  Buffers buffers_;
  std::map<base::PeerId, Link> links_;
  delta::Scratch scratch_;
  Touched touched_[2];
};

/// The replica of a run that exchanges as `config` says. `samples_are_alike`: all peers train on
/// samples of the same kind, as all of them know.
[[nodiscard]] Replica make_replica(std::span<const float> initial, const Config& config,
                                   BufferSpec buffers, bool samples_are_alike = false);

}  // namespace starling::exchange
