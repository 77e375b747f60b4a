// How much a peer counts in averages, p: 0, or a power of two, told as its exponent. A link moves
// its ends towards each other in the ratio of their weights, so that the sum of p x over all peers
// stays: Metropolis-Hastings for the distribution p (Hastings, Biometrika 57, 1970), with the
// degrees' part in w.
//
// Nobody's word counts for its own weight. On a link, the lighter end says how heavy it believes
// the other to be, by the samples that others vouch for; but at least as heavy as itself, so what
// it says makes no more than equals of the two. Both ends take that from the two deltas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/time.hpp"
#include "delta/end_parts.hpp"
#include "wire/messages.hpp"

namespace starling::exchange {

/// Of weights that are further apart on a link, the smaller one counts as if they were not.
inline constexpr int kWeightApartMax = 10;  // in exponents: 2^10

/// Of wire::kNoWeight: 0.
[[nodiscard]] inline double weight_of(std::int8_t exponent) noexcept {
  return exponent == wire::kNoWeight ? 0.0 : std::ldexp(1.0, exponent);
}

/// What a sender of `own` weighs for the receiver that sent `their`.
[[nodiscard]] inline std::int8_t believed_weight(const wire::Delta& own,
                                                 const wire::Delta& their) noexcept {
  return std::min(own.weight, std::max(their.believed, their.weight));
}

/// How fast a neighbour trains, by the samples that it is vouched for.
class VouchedRate {
 public:
  /// Each value is the mean of twice as much time as the one before, up to this.
  static constexpr base::Duration kSpanMax = std::chrono::seconds(4);

  /// Its samples so far.
  void add(std::uint64_t samples, base::Time now);
  /// Exponent of the most that it may weigh by that; nothing: not known yet.
  [[nodiscard]] std::optional<std::int8_t> weight_max() const noexcept { return weight_max_; }

 private:
  std::optional<base::Time> since_{};
  std::uint64_t from_ = 0;  ///< samples at that time
  base::Duration span_ = kSpanMax / 16;
  std::optional<std::int8_t> weight_max_{};
};

/// Both ends compute the same values from the two exponents, bit for bit. Two ends of weight 0 do
/// not move each other.
[[nodiscard]] inline delta::EndParts end_parts(std::int8_t own, std::int8_t their) noexcept {
  if (own == wire::kNoWeight || their == wire::kNoWeight) {
    const float counts_own = own == wire::kNoWeight ? 0.0F : 1.0F;
    const float counts_their = their == wire::kNoWeight ? 0.0F : 1.0F;
    if (own == their) return {.own = 0, .their = 0};
    return {.own = counts_their,
            .their = counts_own,
            .own_share = 2.0F * counts_own,
            .their_share = 2.0F * counts_their};
  }
  const int apart = std::clamp(their - own, -kWeightApartMax, kWeightApartMax);
  const float ratio = std::ldexp(1.0F, apart);  // p of the other end / p of this one
  return {.own = std::min(1.0F, ratio),
          .their = std::min(1.0F, 1.0F / ratio),
          .own_share = 2.0F / (1.0F + ratio),
          .their_share = 2.0F / (1.0F + 1.0F / ratio)};
}

/// Part of its usual density that a link needs, by how far its ends' weights are apart: a light end
/// has less to tell, by as much as it counts less, and what it is told matters less. Ends that are
/// one power of two apart may be equally fast.
[[nodiscard]] inline double density_part(std::int8_t own, std::int8_t their) noexcept {
  const int lighter_by = std::clamp(their - own, -kWeightApartMax, kWeightApartMax);
  const double beyond = std::max(std::abs(lighter_by) - 1, 0);
  return std::exp2(lighter_by > 0 ? -beyond : -beyond / 2);
}

}  // namespace starling::exchange
