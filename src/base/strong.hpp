// Numbers with distinct types: an exchange number is not a step.
#pragma once

#include <compare>
#include <cstdint>

namespace starling::base {

/// A counter that can be compared and counted up, and does not convert implicitly.
template <class Tag>
struct Counter {
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(const Counter&, const Counter&) = default;
  constexpr Counter& operator++() noexcept {
    ++value;
    return *this;
  }
  [[nodiscard]] constexpr Counter next() const noexcept { return {value + 1}; }
};

/// Number of an exchange on its link: 1, 2, ...; 0: none yet.
using ExchangeNumber = Counter<struct ExchangeNumberTag>;
/// Optimizer steps of this peer in this run.
using StepNumber = Counter<struct StepNumberTag>;

/// A place in a table of links, and how often the place was used: an old id never names a new link.
struct LinkId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< 0: no link

  friend constexpr auto operator<=>(const LinkId&, const LinkId&) = default;
  [[nodiscard]] constexpr bool valid() const noexcept { return generation != 0; }
};

}  // namespace starling::base
