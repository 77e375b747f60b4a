#include "hostile/told.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "base/assert.hpp"

namespace starling::hostile {
namespace {

using base::LargeFloats;

/// Larger values are not finite as a float32, or soon are not.
constexpr double kMost = 1e30;

/// A value for each element.
template <class ValueOf>
LargeFloats made(std::size_t size, ValueOf&& value_of) {
  LargeFloats values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(std::clamp<double>(value_of(i), -kMost, kMost));
  }
  return values;
}

/// Standard normal (Box and Muller, Ann. Math. Stat. 29, 1958).
double draw_normal(base::Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Standard deviation of one element over the neighbours.
double deviation(std::span<const LargeFloats> mirrors, std::size_t i, double mean) {
  double sum = 0;
  for (const LargeFloats& mirror : mirrors) {
    const double off = static_cast<double>(mirror[i]) - mean;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(mirrors.size()));
}

/// Attacks that follow the neighbours' mean.
LargeFloats told_by_mean(const Attack& attack, const Known& known) {
  const LargeFloats mean = mean_of(known.mirrors);
  const auto before = known.mean_before.empty() ? std::span<const float>(mean) : known.mean_before;
  return made(mean.size(), [&](std::size_t i) -> double {
    const double middle = mean[i];
    if (attack.kind == AttackKind::alie) {
      return middle - attack.factor * deviation(known.mirrors, i, middle);
    }
    if (attack.kind == AttackKind::ipm) {
      const double from = before[i];
      return from - attack.factor * (middle - from);
    }
    const double theirs = known.theirs[i];
    return theirs + attack.factor * (theirs - middle);
  });
}

}  // namespace

bool tells_other_replica(AttackKind kind) noexcept {
  using enum AttackKind;
  return kind == zeros || kind == noise || kind == huge || kind == stale || kind == copycat ||
         kind == alie || kind == ipm || kind == dissensus;
}

bool follows_mean(AttackKind kind) noexcept {
  using enum AttackKind;
  return kind == alie || kind == ipm || kind == dissensus;
}

LargeFloats mean_of(std::span<const LargeFloats> vectors) {
  ASSERT(!vectors.empty());
  return made(vectors.front().size(), [&](std::size_t i) {
    double sum = 0;
    for (const LargeFloats& vector : vectors) sum += static_cast<double>(vector[i]);
    return sum / static_cast<double>(vectors.size());
  });
}

LargeFloats told(const Attack& attack, const Known& known, base::Rng& rng) {
  using enum AttackKind;
  ASSERT(tells_other_replica(attack.kind));
  const std::size_t size = known.own.size();
  LargeFloats own(known.own.begin(), known.own.end());
  switch (attack.kind) {
    case zeros:
      return LargeFloats(size);
    case huge:
      return made(size, [&](std::size_t) { return attack.factor; });
    case noise: {
      const double deviation = attack.factor * root_mean_square(own);
      return made(size, [&](std::size_t) { return deviation * draw_normal(rng); });
    }
    case copycat:
      return known.theirs.empty() ? own : LargeFloats(known.theirs.begin(), known.theirs.end());
    case dissensus:
      return known.theirs.empty() || known.mirrors.empty() ? own : told_by_mean(attack, known);
    case alie:
    case ipm:
      return known.mirrors.empty() ? own : told_by_mean(attack, known);
    default:
      return own;
  }
}

}  // namespace starling::hostile
