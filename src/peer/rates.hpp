// A peer's batch and learning rate beside those of the other members.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "membership/member_table.hpp"
#include "train/config.hpp"

namespace starling::peer {

/// A learning rate that is further from the swarm's than this factor is told to its user.
inline constexpr double kRateApart = 3;
/// Further than this it needs `train.lr_differs`.
inline constexpr double kRateApartMax = 30;

/// Factor of the learning rate for a batch of so many samples, where most members have larger ones:
/// linear under SGD (P. Goyal et al., arXiv:1706.02677), its root under AdamW and Muon (S. Malladi
/// et al., arXiv:2205.10287). At most 1: a rate is not raised over what the user asked for.
[[nodiscard]] double rate_factor(const membership::MemberTable& table, const train::Config& train,
                                 std::uint32_t batch);

/// The median learning rate of the members, or of all others; nothing: none tells one.
[[nodiscard]] std::optional<double> median_rate(const membership::MemberTable& table,
                                                bool with_self);

/// How many times the larger of two rates is the smaller one.
[[nodiscard]] double times_apart(double a, double b) noexcept;

/// Why a peer with this rate should not begin to train; nothing: it may.
[[nodiscard]] std::optional<base::Error> refuse_rate(const membership::MemberTable& table,
                                                     const train::Config& train);

}  // namespace starling::peer
