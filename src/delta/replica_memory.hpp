// The vectors of one replica, and the passes over them, in the processor's memory
// (exchange/host_memory.hpp) or a GPU's. exchange/replica.hpp explains the passes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/large_vector.hpp"
#include "base/result.hpp"
#include "delta/delta.hpp"
#include "delta/end_parts.hpp"
#include "delta/mirror_type.hpp"

namespace starling::delta {

/// Sums of squares over some elements.
struct Squares {
  double away = 0;  ///< of x - a mirror
  double norm = 0;  ///< of x

  /// |x - a mirror| / |x|; 1 where only x is 0.
  [[nodiscard]] double distance() const noexcept {
    if (norm > 0.0) return std::sqrt(away / norm);
    return away > 0.0 ? 1.0 : 0.0;
  }
};

/// y, r and any number of mirrors, of size() float32 elements each; x = y + r, and a mirror's
/// difference is x - mirror, in float32 in this order. Mirrors of MirrorType::bfloat16 are widened
/// wherever they are read. Results, except distances, have the same bits in every memory.
///
/// One thread at a time. Errors (ErrorCode::device) are the device's, and may come later than the
/// call that caused them; after one, the vectors are undefined. ErrorCode::no_room belongs to its
/// own call, which then has made and changed nothing. In the processor's memory, nothing fails.
class ReplicaMemory {
 public:
  using MirrorId = std::uint64_t;
  static constexpr std::size_t kRun = 64;       ///< adjacent elements that squares() takes
  static constexpr std::size_t kStepsMax = 72;  ///< steps of a commit

  /// One exchange of a link, checked. For each element, in single float32 operations:
  ///   before = own_share mine + their_share theirs
  ///   mine += own delta    theirs += their delta
  ///   with momentum, v = momentum v + (own_share mine + their_share theirs - before) / 2
  ///     p = momentum_step v    mine += p    theirs += p    y += degree_inverse p
  ///   e = w (theirs - mine)    y += parts.own e
  ///   and if the mirrors move, mine += parts.own e and theirs -= parts.their e
  /// v belongs to `mine`, in float32, and is 0 at first. `momentum` is 0 in all of its commits, or
  /// in none. Mirrors in bfloat16 are rounded once, at the end, by draws (base/bfloat16.hpp) of
  /// `draw`.
  struct CommitStep {
    MirrorId mine = 0;
    MirrorId theirs = 0;
    const Delta* own = nullptr;
    const Delta* their = nullptr;
    float w = 0;
    EndParts parts{};
    bool moves_mirrors = true;
    std::uint32_t draw = 0;
    float momentum = 0;       ///< 0 to below 1
    float momentum_step = 0;  ///< 0 or more
    float degree_inverse = 0;
  };

  /// How much of a difference is held back, and how much of the part held back before stays.
  struct HoldBack {
    float keep = 1;
    float gain = 0;
  };

  virtual ~ReplicaMemory() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  [[nodiscard]] virtual MirrorType mirror_type() const noexcept = 0;

  /// Writes x.
  [[nodiscard]] virtual base::Status read(std::span<float> x) = 0;
  /// y = values, r = 0
  [[nodiscard]] virtual base::Status write(std::span<const float> values) = 0;
  /// y += r, r = 0
  [[nodiscard]] virtual base::Status release() = 0;

  /// A new mirror with these values, rounded to the nearest if it is narrower.
  [[nodiscard]] virtual base::Result<MirrorId> add_mirror(base::LargeFloats values) = 0;
  virtual void free_mirror(MirrorId mirror) = 0;
  /// A mirror's values, and XXH3 of its bits.
  [[nodiscard]] virtual base::Result<base::LargeFloats> mirror(MirrorId mirror) = 0;
  [[nodiscard]] virtual base::Result<std::uint64_t> hash(MirrorId mirror) = 0;
  /// A mirror's values at the elements of a delta, into `values` (replaced).
  [[nodiscard]] virtual base::Status values_at(MirrorId mirror, const Delta& elements,
                                               std::vector<float>& values) = 0;

  [[nodiscard]] virtual std::unique_ptr<Delta> make_delta() = 0;
  /// Makes room to make, take and commit deltas of up to `count` elements, with this much room for
  /// choose(), and with or without a momentum of links (reserve_commit() makes a momentum's own
  /// room); otherwise like Delta::reserve().
  [[nodiscard]] virtual base::Result<std::size_t> reserve(std::size_t /*count*/,
                                                          std::size_t /*room*/,
                                                          bool /*has_momentum*/) {
    return std::size_t{0};
  }
  /// The difference of x to a mirror, valid until the next call, or until one of them changes. With
  /// `hold`, the first choose() holds all of it back in the same pass, in single float32
  /// operations, and x stays the same except for their rounding:
  ///   x = y + r    r = keep r + gain (x - mirror)    y = x - r
  /// and code() releases the part that its delta carries. For each of its elements:
  ///   x = y + r    r -= gain value    y = x - r
  [[nodiscard]] virtual DeltaSource& difference(MirrorId mirror,
                                                const std::optional<HoldBack>& hold) = 0;
  /// Checks and takes a received delta. False, with `into` in any state, unless its indices are
  /// strictly rising numbers below size(), in codes that use up their bytes.
  [[nodiscard]] virtual base::Result<bool> decode(const CodedDelta& coded, Delta& into) = 0;
  /// Sums for the difference of x to a mirror, over runs of kRun elements: number `first`, and
  /// every `every`th after it. Takes no room.
  [[nodiscard]] virtual base::Result<Squares> squares(MirrorId mirror, std::size_t first,
                                                      std::size_t every) = 0;

  /// Makes the room for this commit.
  [[nodiscard]] virtual base::Status reserve_commit(const CommitStep& /*step*/) { return {}; }
  /// Commits one step after the other; reserve_commit() has made room for each.
  [[nodiscard]] virtual base::Status commit(std::span<const CommitStep> steps) = 0;
};

}  // namespace starling::delta
