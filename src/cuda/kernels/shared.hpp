// Lets kernels be compiled for the GPU and for the processor alike. Tests without a GPU run the
// processor's copy.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compute/update.hpp"

#ifdef __CUDACC__
#define STARLING_BOTH __host__ __device__
#else
#define STARLING_BOTH
#endif

namespace starling::compute::cuda {

/// The current step's state for kernels, in the GPU's memory: it changes while the list of calls
/// (and their addresses) stays.
struct StepState {
  std::uint64_t seed = 0;   ///< of dropout
  std::uint64_t count = 0;  ///< samples; the rest of the batch after them is zero
  // For a replica that is trained here, if the batch is a piece of its step:
  float share = 1;   ///< of the step's gradient and loss
  bool add = false;  ///< add to those of the pieces before
  Update update{};   ///< once they are complete
};

/// The kernels' results for a batch's loss.
struct Totals {
  double loss_sum = 0;
  std::uint64_t correct = 0;
};

/// nats a label, or mean squared difference
[[nodiscard]] STARLING_BOTH inline float mean_loss(double loss_sum, std::size_t count) {
  return static_cast<float>(loss_sum / static_cast<double>(count));
}

/// The nearest bfloat16's bits, ties to even; NaN stays NaN.
STARLING_BOTH inline std::uint16_t rounded(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t made;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made) : "f"(value));
  return made;
#else
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
#endif
}

/// Two of them, as in memory.
STARLING_BOTH inline std::uint32_t rounded_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t made;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(made) : "f"(second), "f"(first));
  return made;
#else
  return rounded(first) | static_cast<std::uint32_t>(rounded(second)) << 16;
#endif
}

STARLING_BOTH inline float widened(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// A factor's element, in either type.
STARLING_BOTH inline float value_of(float value) { return value; }
STARLING_BOTH inline float value_of(std::uint16_t bits) { return widened(bits); }

STARLING_BOTH inline void store(float value, float& to) { to = value; }
STARLING_BOTH inline void store(float value, std::uint16_t& to) { to = rounded(value); }

struct Divided {
  std::size_t quotient;
  std::size_t rest;
};

/// A GPU divides 32 bits several times faster than 64. `by` is not 0.
STARLING_BOTH inline Divided divide(std::size_t value, std::size_t by) {
  if (((value | by) >> 32) == 0) {
    const auto small = static_cast<std::uint32_t>(value);
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = small / divisor;  // NOLINT(clang-analyzer-core.DivideZero)
    return {quotient, small - quotient * divisor};
  }
  return {value / by, value % by};  // NOLINT(clang-analyzer-core.DivideZero)
}

// Two shapes of kernels, each a structure of addresses and sizes:
//
// - one element per call: `void operator()(std::size_t i) const`, for i below a count, in any order
//   and concurrently; or, if the structure has `kWide`, that many elements per call, from i on, a
//   multiple of kWide;
// - one row per call: `void operator()(const Team& team, std::size_t row) const`, marked by
//   kByRows. A team works on a row together: all of a block's threads on the GPU, one on the
//   processor.
//   All members call the same of these functions in the same order:
//   - `team.sum(n, f)` and `team.largest(n, f)` give every member the same result over
//     f(0) .. f(n - 1). The terms of a sum are numbers, or structures that have += and whose zero
//     is all zeros.
//   - `team.each(n, f)` divides the calls f(0) .. f(n - 1) among the members.
//   - `team.leads()` is true for one member.
//   - `team.once(f)` calls f() in one member and gives the result to all.
//   - `team.running_sum(n, f, g)` calls g(i, f(0) + .. + f(i - 1)) for each i, with integers, and
//     gives the sum of all.
//   - `team.shared<T>()` is a T in fast memory that all members share, with undefined contents.
//   - `team.meet()` lets each member see the others' writes there; so does `once`.
//   - `team.sift(n, f, hit, place, g)`, with n up to kSifted, a row's width, takes elements four at
//     a time, each once. f(i, count) gives those from i on (a Four), `count` of which are below n.
//     place(hits), called by one member, says where the hits go, if anywhere. g(place + rank, i,
//     value) is called for each hit(value); rank counts the hits by i. No value beyond n may be a
//     hit.
//   A member's other writes may be read by other members only in a later kernel.
//
// Every sum has a fixed order, so that equal inputs give equal bits.

/// Two sums in one pass.
struct Pair {
  double first;
  double second;

  STARLING_BOTH Pair& operator+=(const Pair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

inline constexpr std::size_t kSifted = 4096;  ///< elements
inline constexpr std::size_t kNowhere = ~std::size_t{0};

/// A row's largest element, the first of equals.
struct Largest {
  float value;
  std::size_t index;
};

}  // namespace starling::compute::cuda
