// Determines the elements that a dropout layer drops: the same on every backend.
#pragma once

#include <cstdint>

#include "base/rng.hpp"

namespace starling::compute {

/// 32 random bits for an element of a dropout op's result (its index in the batch) in the step with
/// that seed: Steele et al.'s SplitMix64 finaliser of a counter (doi:10.1145/2660193.2660195).
[[nodiscard]] constexpr std::uint32_t dropout_bits(std::uint64_t seed, std::uint64_t op,
                                                   std::uint64_t element) noexcept {
  std::uint64_t counter = seed + (op << 40) + (element - 1) * base::kSplitmixStep;
  return static_cast<std::uint32_t>(base::splitmix64(counter) >> 32);
}

/// An element is dropped if its bits are below this.
[[nodiscard]] constexpr std::uint32_t dropout_threshold(float rate) noexcept {
  return static_cast<std::uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

}  // namespace starling::compute
