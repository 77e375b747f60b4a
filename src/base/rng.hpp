// Seeded random numbers: the same sequence on every machine and standard library.
// xoshiro256++ and splitmix64 by D. Blackman and S. Vigna, prng.di.unimi.it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.hpp"

namespace starling::base {

inline constexpr std::uint64_t kSplitmixStep = 0x9e3779b97f4a7c15ULL;

/// One step of splitmix64: scrambles `state` and advances it, by kSplitmixStep.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t& state) noexcept {
  state += kSplitmixStep;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// xoshiro256++ seeded by splitmix64. A UniformRandomBitGenerator; copyable; one thread at a time.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Rng(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }

  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

  constexpr std::uint64_t operator()() noexcept {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound), bound > 0, without modulo bias (Lemire, arXiv:1805.10941).
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    ASSERT(bound > 0);
    __extension__ using Wide = unsigned __int128;
    Wide product = Wide{(*this)()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = Wide{(*this)()} * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [0, 1) with 53 bits.
  constexpr double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

  /// An independent generator, so that one consumer's draws do not move another's.
  constexpr Rng fork() noexcept { return Rng((*this)()); }

 private:
  std::uint64_t state_[4]{};
};

/// Fisher-Yates with Rng::below: std::shuffle's order differs between standard libraries.
template <class Range>
constexpr void shuffle(Range& range, Rng& rng) noexcept {
  for (auto i = range.size(); i > 1; --i) {
    using std::swap;
    swap(range[i - 1], range[static_cast<decltype(i)>(rng.below(i))]);
  }
}

}  // namespace starling::base
