#include "exchange/clip.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/bfloat16.hpp"

namespace starling::exchange {
namespace {

constexpr double kRadiusMax = 1e30;
constexpr double kGrowth = 2;
constexpr double kMovedMultiple = 4;  // of what is trained between two exchanges
constexpr double kFewMultiple = 4;    // of what is usual, where few links say what that is
// The same where samples differ: less than the three links or more that pull to where the honest
// are, or one that goes away for ever takes this peer along.
constexpr double kDifferentMultiple = 2;
constexpr double kWideMovedMultiple = 8;  // of what is trained, in both cases
constexpr double kToldMultiple = 4;       // of what this end moved, for one of equal weight
constexpr double kMeetsMultiple = 16;     // of the radius of one that meets again
// The cosines from which on a neighbour moves against this end, and from which on it pulls least.
// Of honest ones, 19 of 20 are above -0.12 (16 peers, MLP); a replica that never changes has -0.3
// to -0.7.
constexpr double kAgainst = -0.15;
constexpr double kOpposed = -0.3;
constexpr double kOpposedPart = 0.05;  // of the radius: honest ones that were apart meet again
constexpr double kRounding = 0x1p-50;  // of a sum, by its terms: more than double's own
constexpr double kVague = 1e-4;        // relative error of a square that is not good enough

// Of what is usual, by how much a neighbour may move this peer.
double clip_multiple(Trust trust) noexcept {
  switch (trust) {
    case Trust::unknown:
      return 1.0;
    case Trust::vouched:
      return 1.5;
    case Trust::doubted:
      return 0.5;
    case Trust::none:
      break;
  }
  return 0.0;
}

double part_by_heading(double cosine) noexcept {
  return std::clamp((cosine - kOpposed) / (kAgainst - kOpposed), kOpposedPart, 1.0);
}

}  // namespace

const char* to_string(Trust trust) noexcept {
  switch (trust) {
    case Trust::unknown:
      return "unknown";
    case Trust::vouched:
      return "vouched";
    case Trust::doubted:
      return "doubted";
    case Trust::none:
      break;
  }
  return "none";
}

void Apart::add(const Touched& own, const Touched& their) {
  double growth = 0;
  double terms = square_;
  std::size_t i = 0;
  std::size_t j = 0;
  const auto& own_at = own.delta.indices;
  const auto& their_at = their.delta.indices;
  while (i < own_at.size() || j < their_at.size()) {
    const bool has_own = i < own_at.size() && (j == their_at.size() || own_at[i] <= their_at[j]);
    const bool has_their = j < their_at.size() && (i == own_at.size() || their_at[j] <= own_at[i]);
    const double mine = has_own ? own.mine[i] : their.mine[j];
    const double theirs = has_own ? own.theirs[i] : their.theirs[j];
    const double own_step = has_own ? own.delta.values[i++] : 0.0;
    const double their_step = has_their ? their.delta.values[j++] : 0.0;
    const double before = theirs - mine;
    const double after = (theirs + their_step) - (mine + own_step);
    growth += after * after - before * before;
    terms += after * after + before * before;
  }
  square_ = std::max(square_ + growth, 0.0);
  rounding_ += kRounding * terms;
}

void Apart::shrink(double left) noexcept {
  square_ *= left * left;
  rounding_ *= left * left;
}

double Apart::distance() const noexcept { return std::sqrt(square_); }

bool Apart::is_vague() const noexcept { return kVague * square_ < rounding_; }

double square_between(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = double{b[i]} - double{a[i]};
    sum += apart * apart;
  }
  return sum;
}

double clip(double distance, const delta::EndParts& parts, float own_radius, float their_radius,
            double far) {
  const auto bounded = [distance, far](float part, float radius) {
    const double pull = part * distance;
    const double inside = pull > radius ? radius / pull : 1.0;
    return inside * std::max(inside, far);
  };
  return std::min(bounded(parts.own, own_radius), bounded(parts.their, their_radius));
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

Reach grown(const Reach& before, const Reach& now) {
  const auto grow = [&now](double was, double is) {
    return std::min(is, kGrowth * std::max(was, now.moved));
  };
  return {.pulled = grow(before.pulled, now.pulled),
          .moved = now.moved,
          .told = grow(before.told, now.told)};
}

double told_most(double moved, const delta::EndParts& parts) {
  constexpr double kLeast = 0x1p-10;  // of the other end's part, where it is heavier
  return kToldMultiple * moved * double{parts.own} / std::max(double{parts.their}, kLeast);
}

float as_radius(double distance) noexcept {
  return base::widen(base::narrow_to_even(static_cast<float>(std::min(distance, kRadiusMax))));
}

float clip_radius(std::vector<Reach> all, bool are_few, const Clipped& own, double far) {
  const std::size_t which = are_few ? all.size() - 1 : (all.size() - 1) / 2;
  const auto usual = [&](double Reach::*of) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(which);
    std::ranges::nth_element(all, at, {}, of);
    return (*at).*of;
  };
  const double pulled = std::max(usual(&Reach::pulled), own.reach.moved);
  const double moved = std::max(usual(&Reach::told), own.reach.moved);
  const bool are_alike = far < 1.0;
  const bool is_wide = are_few || !are_alike;
  const double multiple = clip_multiple(own.trust);
  const double least = are_few ? kFewMultiple : kDifferentMultiple;
  const double wide = is_wide && own.trust != Trust::none ? std::max(multiple, least) : multiple;
  // Where nobody moves, as after the last step, replicas may still be apart.
  const double most =
      moved > 0 ? (is_wide ? kWideMovedMultiple : kMovedMultiple) * moved : kRadiusMax;
  double radius = std::min({wide * pulled, most, kRadiusMax});
  // Where a neighbour does well, or few could say what is usual, a far one pulls by the whole
  // radius: honest ones that have been apart would not meet again.
  const bool meets = are_alike && (are_few || own.trust == Trust::vouched);
  if (meets && own.reach.pulled > radius) {
    radius = std::min(std::sqrt(radius * own.reach.pulled), kMeetsMultiple * radius);
  }
  if (are_alike) radius *= part_by_heading(own.cosine);
  return as_radius(radius);
}

}  // namespace starling::exchange
