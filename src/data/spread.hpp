// Chooses a few of many samples that represent all.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/rng.hpp"

namespace starling::data {

/// Sample number `index` of `wanted` that represent all `count`: one from each of `wanted` equal
/// parts, so that it is even over samples sorted by label, at a random place in the part, so that
/// it is even over labels that take turns, too. Ascending, all different, and always the same.
/// `index` < `wanted` <= `count`.
[[nodiscard]] inline std::uint32_t spread(std::uint32_t index, std::uint32_t wanted,
                                          std::uint32_t count) noexcept {
  ASSERT(index < wanted && wanted <= count);
  const std::uint64_t begin = std::uint64_t{index} * count / wanted;
  const std::uint64_t end = (std::uint64_t{index} + 1) * count / wanted;
  return static_cast<std::uint32_t>(begin + base::Rng(index).below(end - begin));
}

/// The number of the sample at `index` among those that spread() leaves. 0 < `wanted`, and `index`
/// < `count` - `wanted`.
[[nodiscard]] inline std::uint32_t left_by_spread(std::uint32_t index, std::uint32_t wanted,
                                                  std::uint32_t count) noexcept {
  ASSERT(wanted > 0 && wanted < count && index < count - wanted);
  // It lies in the last part before which at most `index` are left over; one was taken from each of
  // the parts before.
  const auto part =
      static_cast<std::uint32_t>(((std::uint64_t{index} + 1) * wanted - 1) / (count - wanted));
  const std::uint32_t number = index + part;
  return number < spread(part, wanted, count) ? number : number + 1;
}

}  // namespace starling::data
