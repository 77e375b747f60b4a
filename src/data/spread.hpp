// Which of many samples stand for all of them.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/rng.hpp"

namespace starling::data {

/// Sample number `index` of `wanted` that stand for all `count`: one of each of as many equal
/// parts, so that samples sorted by label are met evenly, at a random place in it, so that labels
/// that take turns are, too. Ascending, all different, and always the same. `index` < `wanted` <=
/// `count`.
[[nodiscard]] inline std::uint32_t spread(std::uint32_t index, std::uint32_t wanted,
                                          std::uint32_t count) noexcept {
  ASSERT(index < wanted && wanted <= count);
  const std::uint64_t begin = std::uint64_t{index} * count / wanted;
  const std::uint64_t end = (std::uint64_t{index} + 1) * count / wanted;
  return static_cast<std::uint32_t>(begin + base::Rng(index).below(end - begin));
}

/// The number of the one at `index` among those that spread() leaves. 0 < `wanted`, and `index` <
/// `count` - `wanted`.
[[nodiscard]] inline std::uint32_t left_by_spread(std::uint32_t index, std::uint32_t wanted,
                                                  std::uint32_t count) noexcept {
  ASSERT(wanted > 0 && wanted < count && index < count - wanted);
  // The part that it lies in is the last with no more than `index` left over in all parts before
  // it, and of each of these one was taken.
  const auto part =
      static_cast<std::uint32_t>(((std::uint64_t{index} + 1) * wanted - 1) / (count - wanted));
  const std::uint32_t number = index + part;
  return number < spread(part, wanted, count) ? number : number + 1;
}

}  // namespace starling::data
