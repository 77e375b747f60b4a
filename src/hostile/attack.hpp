// The attacks that a hostile peer of a scenario can make, as values: names, sizes, and when they
// begin. What they do is in attacker.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/enum_names.hpp"

namespace starling::hostile {

enum class AttackKind : std::uint8_t {
  // On the own training. The rest of the peer is honest.
  sign_flip,        ///< each own step is made backwards, `factor` times as far
  scale,            ///< each own step is made `factor` times as far
  gradient_ascent,  ///< like sign_flip, but as far as the step would have gone
  label_flip,       ///< trains on labels that are turned round: classes - 1 - label
  // On what neighbours are told. The own replica stays as it was when the attack began.
  zeros,      ///< a replica of zeros
  noise,      ///< normal noise, `factor` times as large as the own parameters
  nan,        ///< deltas of NaN
  infinity,   ///< deltas of infinity
  huge,       ///< a replica whose elements all are `factor`
  stale,      ///< the own replica, which never changes any more
  copycat,    ///< the neighbour's own replica
  alie,       ///< the neighbours' mean less `factor` times their standard deviation
  ipm,        ///< the neighbours' mean, moved backwards by `factor` times what it moved by
  dissensus,  ///< the neighbour's replica, `factor` times further from the neighbours' mean
  // On the protocol.
  never_commits,  ///< sends a delta, and no other one, since it never commits the exchange
  disagrees,      ///< says at the end that the replicas are far apart, whatever they are
  counter_up,     ///< counts `factor` times the samples that it trains on
  counter_down,   ///< the same, with a small factor
  weight_lie,     ///< says that it counts as much as a peer can
};

/// The name of an attack, and of its factor: none if it has none.
struct AttackTraits {
  AttackKind kind{};
  std::string_view name;
  /// Where no factor is given; NaN: there is none to give.
  double factor = std::numeric_limits<double>::quiet_NaN();
  double factor_max = 0;

  [[nodiscard]] constexpr bool has_factor() const noexcept { return factor_max > 0; }
};

/// One for each attack, in their order.
inline constexpr auto kAttacks = [] {
  using enum AttackKind;
  constexpr double kMost = 1e30;
  return std::to_array<AttackTraits>({
      {sign_flip, "sign_flip", 10, kMost},
      {scale, "scale", 1000, kMost},
      {gradient_ascent, "gradient_ascent"},
      {label_flip, "label_flip"},
      {zeros, "zeros"},
      {noise, "noise", 1, kMost},
      {nan, "nan"},
      {infinity, "infinity"},
      {huge, "huge", 1e30, kMost},
      {stale, "stale"},
      {copycat, "copycat"},
      {alie, "alie", 1.5, kMost},
      {ipm, "ipm", 0.5, kMost},
      {dissensus, "dissensus", 1, kMost},
      {never_commits, "never_commits"},
      {disagrees, "disagrees"},
      {counter_up, "counter_up", 1e6, kMost},
      {counter_down, "counter_down", 0, 1},
      {weight_lie, "weight_lie"},
  });
}();
static_assert([] {
  for (std::size_t i = 0; i < kAttacks.size(); ++i) {
    if (kAttacks[i].kind != static_cast<AttackKind>(i)) return false;
  }
  return true;
}());

[[nodiscard]] constexpr const AttackTraits& traits_of(AttackKind kind) noexcept {
  return kAttacks[static_cast<std::size_t>(kind)];
}

/// Names for readers of files and command lines.
inline constexpr auto kAttackNames = [] {
  base::EnumNames<AttackKind, kAttacks.size()> names{};
  for (std::size_t i = 0; i < kAttacks.size(); ++i) names[i] = {kAttacks[i].name, kAttacks[i].kind};
  return names;
}();

/// Whether it can begin later than the peer: the samples and the settings of a peer do not change.
[[nodiscard]] constexpr bool can_begin_later(AttackKind kind) noexcept {
  return kind != AttackKind::label_flip && kind != AttackKind::weight_lie;
}

struct Attack {
  AttackKind kind = AttackKind::sign_flip;
  double factor = 1;           ///< where the kind has one
  double from = 0;             ///< seconds since the start of the scenario
  bool from_settling = false;  ///< instead of `from`: after the own last step

  friend bool operator==(const Attack&, const Attack&) = default;
};

/// "KIND" or "KIND:FACTOR", from the start on; nothing: it is neither.
[[nodiscard]] std::optional<Attack> parse_attack(std::string_view text);

}  // namespace starling::hostile
