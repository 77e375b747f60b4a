// The jobs that the protocol core gives to a replica, and their outcomes. The core runs beside the
// event loop and never touches a vector; whoever trains the replica runs the jobs between two
// steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "delta/end_parts.hpp"
#include "delta/options.hpp"
#include "exchange/clip.hpp"
#include "exchange/decision.hpp"

namespace starling::exchange {

class Replica;

/// Names one job in its outcome, so that an outcome that has been overtaken is known as such.
/// 0: no job.
using JobTag = std::uint64_t;

inline constexpr double kLagFactorMax = 8.0;  ///< a late exchange raises its density by it at most

/// Of the distance at which a link has settled, what one end may keep from the other.
inline constexpr double kUntold = 0.9;

/// Write the delta of exchange t. It waits until the replica's owner has made `not_before` steps,
/// unless `at_once` (no steps are made any more). Density grows with the delay: an exchange that
/// comes after `lag` times `every` steps carries lag times as much, at most lag_factor_max.
struct EncodeJob {
  base::PeerId peer;
  JobTag tag = 0;
  base::ExchangeNumber exchange;
  base::StepNumber not_before;
  std::uint32_t every = 1;
  double lag_factor_max = kLagFactorMax;
  bool at_once = false;
  bool with_hash = false;     ///< with a hash of the mirror that the delta builds on
  bool with_buffers = false;  ///< with the buffers beside the delta
  /// In settling, above 0: a delta carries one element where the other end knows x to kUntold times
  /// this part of what was learned.
  double near_enough = 0.0;
  /// Density and bits follow from how far the other end is from knowing that.
  bool tells_all = false;
  /// Nothing at all is written where the other end's replica and buffers are near enough, too.
  bool may_skip = false;
  delta::Options options;
};

/// Commit exchange t of a link: both ends' payloads.
struct CommitJob {
  base::PeerId peer;
  JobTag tag = 0;
  base::ExchangeNumber exchange{};  ///< draws what bfloat16 mirrors round to
  base::Bytes own;                  ///< what Replica::encode() wrote for this exchange
  base::Bytes their;                ///< what came; not trusted
  float w = 0.0F;                   ///< step, the same at both ends; 0 < w <= 1
  delta::EndParts parts{};          ///< of the ends, by their weights in this exchange
  float degree_inverse = 1.0F;      ///< 1 / the degree that the own delta says: of the momentum
  bool goes_on = true;              ///< the link's momentum moves the ends
  bool judged = false;              ///< in settling: what it would make of this end is tried first
  bool takes = false;               ///< the replica becomes the link's mirror of it, after the step
  float gathers = 0.0F;             ///< part of the way to the other end's mirror that x goes
  float own_radius = kNoRadius;     ///< of the ends, in the deltas' frames (exchange/clip.hpp)
  float their_radius = kNoRadius;
  std::optional<std::uint64_t> expected_hash{};  ///< of the other end's mirror, as that end says
  base::Bytes own_buffers{};                     ///< empty: the exchange carries none
  base::Bytes their_buffers{};                   ///< not trusted; empty: the exchange carries none
};

/// Write the keyframe of the replica as it is.
struct KeyframeJob {
  base::PeerId peer;
  JobTag tag = 0;
  bool with_buffers = false;  ///< with the buffers, for an end that takes the replica over
};

/// Set a link's mirrors, as was decided: by anything but resume and wait. Payloads: fresh none;
/// merge both; adopt `their` and the buffers beside it; give `own`.
struct OpenJob {
  base::PeerId peer;
  JobTag tag = 0;
  OpenDecision decision = OpenDecision::fresh;
  base::Bytes own{};
  base::Bytes their{};
  base::Bytes their_buffers{};
};

// These have no outcome, and do nothing to a link without mirrors, such as one whose opening
// failed.
struct SuspendJob {
  base::PeerId peer;
};
struct ResumeJob {
  base::PeerId peer;
};
struct CloseJob {
  base::PeerId peer;
};

using Job =
    std::variant<EncodeJob, CommitJob, KeyframeJob, OpenJob, SuspendJob, ResumeJob, CloseJob>;

[[nodiscard]] const base::PeerId& peer_of(const Job& job);

struct Encoded {
  base::PeerId peer;
  JobTag tag = 0;
  base::ExchangeNumber exchange;
  base::Status status;   ///< diverged: the replica is not finite; no_room: x is as it was
  bool skipped = false;  ///< nothing was written
  base::Bytes payload{};
  double drift = 0.0;
  double mirror_error = 0.0;  ///< |x - mine| / |x| before the delta, in settling
  double learned = 1.0;       ///< |x - the initial parameters| / |x|, in settling
  double density = 0.0;       ///< density that was asked for, lag included
  double lag = 1.0;           ///< steps since the last encode, in units of `every`, at least 1
  base::StepNumber step;      ///< steps that the replica's owner had made when the job ran
  std::optional<std::uint64_t> mirror_hash{};
  std::optional<float> radius{};  ///< as wire::Delta::radius
  base::Bytes buffers{};          ///< the buffers, where asked for
  double buffer_drift = 0.0;      ///< distance of the buffers from the other end's, in settling
  base::Duration took{};          ///< time on the thread that owns the replica
};

enum class CommitResult : std::uint8_t {
  applied,
  mismatch,  ///< the mirrors of the two ends differ; nothing was applied
  invalid,   ///< the other end's payload is malformed or not finite; nothing was applied
  refused,   ///< in settling, the replica that it tells is far away, or bad; nothing was applied
  failed,    ///< this end could not commit; nothing was applied
};

struct Committed {
  base::PeerId peer;
  JobTag tag = 0;
  base::ExchangeNumber exchange;
  CommitResult result = CommitResult::applied;
  base::Error error{};    ///< why, if invalid or failed; no_room: the replica is as it was
  double moved = 0;       ///< |own delta|, where the exchange averages
  double told = 0;        ///< |their delta|, likewise
  base::Duration took{};  ///< time on the thread that owns the replica
  std::optional<CommitJob> again{};  ///< the job, where there was no room
};

struct KeyframeMade {
  base::PeerId peer;
  JobTag tag = 0;
  base::Status status;  ///< diverged: the replica is not finite
  base::Bytes payload{};
  base::Bytes buffers{};  ///< the buffers, where asked for
};

struct Opened {
  base::PeerId peer;
  JobTag tag = 0;
  /// protocol: what the other end sent; judged_bad: the replica that it gave; no_room: for the
  /// mirrors, and the replica is as it was.
  base::Status status;
  std::optional<OpenJob> again{};  ///< the job, where there was no room
};

/// What the owner of the replica found when it tried its neighbours' replicas on its own data. It
/// has set their trust already.
struct Audited {
  struct Finding {
    base::PeerId peer;
    Trust trust{};
    double worse = 1;   ///< their loss as a multiple of the own one
    bool ends = false;  ///< the link is to end
  };
  std::vector<Finding> findings{};
  /// The own replica is the one that is worse: it counts nothing in averages, until it is not.
  bool heals = false;
};

using Outcome = std::variant<Encoded, Committed, KeyframeMade, Opened, Audited>;

/// Runs one job on the thread that owns the replica; `step`: the steps its owner has made.
[[nodiscard]] std::optional<Outcome> run(const Job& job, Replica& replica, base::StepNumber step);

/// Runs jobs that wait at one step boundary. Jobs of one link run in their order; commits of
/// different links are applied together. Where the replica is lost (Replica::status) it stops, and
/// there are no outcomes: what was found on the way may be wrong, and nothing goes on from there.
[[nodiscard]] std::vector<Outcome> run_batch(std::span<const Job> jobs, Replica& replica,
                                             base::StepNumber step);

}  // namespace starling::exchange
