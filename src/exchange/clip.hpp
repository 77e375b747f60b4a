// The clip: how far an exchange may move its ends. A peer bounds the step of each link by a
// multiple of what is usual on its links, so a neighbour that is far away, for whatever reason,
// pulls no harder than others do, and the less the farther it is. After ClippedGossip (L. He, S. P.
// Karimireddy, M. Jaggi, "Byzantine-Robust Decentralized Learning via ClippedGossip",
// arXiv:2202.01545), which clips to the radius; a pull that falls with the distance is that of
// redescending estimators (F. R. Hampel, "The Influence Curve and Its Role in Robust Estimation",
// 1974).
//
// In an exchange, with D = |theirs - mine| once both mirrors have their deltas,
//   s = min(1, r max(r, far)) over both ends, r = radius / (part D)
// where an end's part is min(1, p of the other / p of its own), as in the step. A radius is told in
// the delta's frame. `far`, the part of its radius by which a link pulls however long it is, is
// 1/20 where peers train on samples of the same kind, and else 1. D needs no frame: both ends
// compute it from the deltas and the mirrors, which have the same bits at both, by the same
// operations in the same order.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/peer_id.hpp"
#include "delta/elements.hpp"
#include "delta/end_parts.hpp"

namespace starling::exchange {

/// How far this peer trusts a neighbour's replica.
enum class Trust : std::uint8_t {
  unknown,
  vouched,  ///< it does well on this peer's data
  doubted,  ///< it does not
  none,     ///< it moves this peer no more
};

[[nodiscard]] const char* to_string(Trust trust) noexcept;

/// Links with a known distance that it takes to say what is usual.
inline constexpr std::size_t kClipLinksMin = 3;

inline constexpr float kNoRadius = std::numeric_limits<float>::infinity();

/// A delta, with the values of both mirrors at its elements before it.
struct Touched {
  delta::Elements delta{};
  std::vector<float> mine{};
  std::vector<float> theirs{};
};

/// |theirs - mine|^2 of a link's mirrors, kept up to date by what deltas touch. The other end has
/// the same bits.
class Apart {
 public:
  Apart() = default;
  explicit Apart(double square) : square_(square) {}

  /// `own` is added to mine, and `their` to theirs.
  void add(const Touched& own, const Touched& their);
  /// A step leaves this part of the difference.
  void shrink(double left) noexcept;

  [[nodiscard]] double distance() const noexcept;
  /// So much was added and taken away again that little of it is known: to be measured anew.
  [[nodiscard]] bool is_vague() const noexcept;

 private:
  double square_ = 0;
  double rounding_ = 0;  ///< a bound of the error of square_
};

/// |b - a|^2, with the same bits as |a - b|^2.
[[nodiscard]] double square_between(std::span<const float> a, std::span<const float> b);

/// `far`, above: honest replicas trained on samples of other kinds are far apart.
[[nodiscard]] constexpr double far_pull(bool samples_are_alike) noexcept {
  return samples_are_alike ? 0.05 : 1.0;
}

/// s, at most 1. `distance`: D above. The other end gets the same bits. Radii: 0 or more.
[[nodiscard]] double clip(double distance, const delta::EndParts& parts, float own_radius,
                          float their_radius, double far);

[[nodiscard]] double norm_of(std::span<const float> values);

/// What an exchange of a link was like for one end, if it had not been late.
struct Reach {
  double pulled = 0;  ///< part D: what the step would have moved this end by, were w and s 1
  double moved = 0;   ///< |own delta|
  double told = 0;    ///< |their delta|
};

/// A neighbour whose replica moves this one.
struct Pulling {
  base::PeerId peer;
  double pulled = 0;            ///< as in Reach
  std::uint64_t exchanges = 0;  ///< that the link has committed: each changes its mirrors
};

/// What is to be remembered of an exchange that was like `now`, after one like `before`: what the
/// other end does counts at most twice as much from one to the next.
[[nodiscard]] Reach grown(const Reach& before, const Reach& now);

/// The most that counts of what the other end told in an exchange in which this one moved by
/// `moved`, not 0: a multiple of it, times how much heavier the other end is.
[[nodiscard]] double told_most(double moved, const delta::EndParts& parts);

/// A link for which a radius is sought.
struct Clipped {
  Reach reach{};
  Trust trust = Trust::unknown;
  double cosine = 0;  ///< as of Headings
};

/// As a bfloat16, as it is sent, and no more than a radius may be.
[[nodiscard]] float as_radius(double distance) noexcept;

/// By how much an exchange of the link `own` may move this end, where `all` are what its open links
/// are like that move it, not much lighter ones, this one among them: a multiple of the lower
/// median of what they pulled by, or of what this end moved by itself, if that is more; of few
/// links, of the largest. Of few links, and where samples differ, nobody says what is usual, and
/// the multiple is larger. It does not grow without bound where links pull each other on: in the
/// end, what peers move by is what they train. Where samples are alike, a neighbour that moves
/// against this end moves it less. `are_few`: fewer than kClipLinksMin are open. `far`: of clip().
[[nodiscard]] float clip_radius(std::vector<Reach> all, bool are_few, const Clipped& own,
                                double far);

}  // namespace starling::exchange
