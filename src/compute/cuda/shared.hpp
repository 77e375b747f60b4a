// What kernels need to be compiled for the GPU and for the processor alike. The processor's copy is
// what tests run where there is no GPU.
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

/// What kernels read of the step that runs, in the GPU's memory: it changes while the list of
/// calls (and their addresses) stays.
struct StepState {
  std::uint64_t seed = 0;   ///< of dropout
  std::uint64_t count = 0;  ///< samples; what lies behind them in the batch is zero
  // Of a replica that is trained here, whose step the batch is a piece of:
  float share = 1;   ///< of the step's gradient and loss
  bool add = false;  ///< to those of the pieces before
  Update update{};   ///< once they are whole
};

/// What kernels leave of a batch's loss.
struct Totals {
  double loss_sum = 0;
  std::uint64_t correct = 0;
};

/// nats a label, or mean squared difference
[[nodiscard]] STARLING_BOTH inline float mean_loss(double loss_sum, std::size_t count) {
  return static_cast<float>(loss_sum / static_cast<double>(count));
}

/// The nearest bfloat16's bits, of two the even one; what is not a number stays so.
STARLING_BOTH inline std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

STARLING_BOTH inline float widened(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// A factor's element, whatever it is kept in.
STARLING_BOTH inline float value_of(float value) { return value; }
STARLING_BOTH inline float value_of(std::uint16_t bits) { return widened(bits); }

STARLING_BOTH inline void store(float value, float& to) { to = value; }
STARLING_BOTH inline void store(float value, std::uint16_t& to) { to = rounded(value); }

/// Elements that a wide kernel treats in one call.
inline constexpr std::size_t kFour = 4;

/// So many floats side by side, which a GPU moves at once.
struct alignas(16) Four {
  float of[kFour];

  STARLING_BOTH Four& operator+=(const Four& other) {
    for (std::size_t k = 0; k < kFour; ++k) of[k] += other.of[k];
    return *this;
  }
};
struct alignas(8) FourRounded {
  std::uint16_t of[kFour];
};

/// Floats of one kind: a loop over them has no branch between its loads.
template <class T>
struct FloatsAs {
  const T* data;

  STARLING_BOTH float operator[](std::size_t i) const { return value_of(data[i]); }
  [[nodiscard]] STARLING_BOTH FloatsAs from(std::size_t i) const { return {data + i}; }
  [[nodiscard]] STARLING_BOTH Four four(std::size_t i) const {
    struct alignas(kFour * sizeof(T)) Side {
      T of[kFour];
    };
    const Side side = *reinterpret_cast<const Side*>(data + i);
    return {value_of(side.of[0]), value_of(side.of[1]), value_of(side.of[2]), value_of(side.of[3])};
  }
};

/// Floats to be read, or bfloat16 in their place. Aligned for `four`.
struct Floats {
  const void* data = nullptr;
  bool rounded = false;

  /// What f gives for them as what they are.
  template <class F>
  STARLING_BOTH auto visit(const F& f) const {
    if (rounded) return f(FloatsAs<std::uint16_t>{static_cast<const std::uint16_t*>(data)});
    return f(FloatsAs<float>{static_cast<const float*>(data)});
  }
  STARLING_BOTH float operator[](std::size_t i) const {
    return visit([i](auto own) { return own[i]; });
  }
  /// Those from `i` on.
  [[nodiscard]] STARLING_BOTH Floats from(std::size_t i) const {
    return visit([this, i](auto own) { return Floats{own.data + i, rounded}; });
  }
  /// Four of those, where `i` is a multiple of four.
  [[nodiscard]] STARLING_BOTH Four four(std::size_t i) const {
    return visit([i](auto own) { return own.four(i); });
  }
};

/// Where floats go, as they are, as bfloat16, or both: null where nobody reads them.
struct FloatsTo {
  float* exact = nullptr;
  std::uint16_t* rounded = nullptr;

  [[nodiscard]] STARLING_BOTH bool is_wanted() const {
    return exact != nullptr || rounded != nullptr;
  }
  [[nodiscard]] STARLING_BOTH FloatsTo from(std::size_t i) const {
    return {exact == nullptr ? nullptr : exact + i, rounded == nullptr ? nullptr : rounded + i};
  }
  STARLING_BOTH void put(std::size_t i, float value) const {
    if (exact != nullptr) exact[i] = value;
    if (rounded != nullptr) rounded[i] = cuda::rounded(value);
  }
  STARLING_BOTH void put_four(std::size_t i, const Four& values) const {
    if (exact != nullptr) *reinterpret_cast<Four*>(exact + i) = values;
    if (rounded == nullptr) return;
    const float* const v = values.of;
    *reinterpret_cast<FourRounded*>(rounded + i) = {cuda::rounded(v[0]), cuda::rounded(v[1]),
                                                    cuda::rounded(v[2]), cuda::rounded(v[3])};
  }
};

/// In one form.
STARLING_BOTH inline FloatsTo floats_to(void* data, bool rounded) {
  if (rounded) return {nullptr, static_cast<std::uint16_t*>(data)};
  return {static_cast<float*>(data), nullptr};
}

/// Of the four elements from `i` on those below `n`: puts f(k, what the sources have at i + k).
template <class F, class... Sources>
STARLING_BOTH void map_four(std::size_t i, std::size_t n, const FloatsTo& to, const F& f,
                            const Sources&... from) {
  if (i + kFour <= n) {
    const auto map = [&f](const auto&... read) {
      return Four{f(std::size_t{0}, read.of[0]...), f(std::size_t{1}, read.of[1]...),
                  f(std::size_t{2}, read.of[2]...), f(std::size_t{3}, read.of[3]...)};
    };
    to.put_four(i, map(from.four(i)...));
    return;
  }
  for (std::size_t k = 0; i + k < n; ++k) to.put(i + k, f(k, from[i + k]...));
}

struct Divided {
  std::size_t quotient;
  std::size_t rest;
};

/// A GPU divides 32 bits several times faster than 64.
STARLING_BOTH inline Divided divide(std::size_t value, std::size_t by) {
  if (((value | by) >> 32) == 0) {
    const auto small = static_cast<std::uint32_t>(value);
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = small / divisor;
    return {quotient, small - quotient * divisor};
  }
  return {value / by, value % by};
}

// Two shapes of kernels, each a structure of addresses and sizes:
//
// - one element a call: `void operator()(std::size_t i) const`, for i below a count, in any order
//   and at the same time; a wide kernel, which has a kWide, treats so many from `i` on, as far as
//   there are some;
// - one row a call: `void operator()(const Team& team, std::size_t row) const`, marked by kByRows.
//   A team works on a row together: all of a block's threads on the GPU, one on the processor.
//   `team.sum(n, f)`, of numbers or of structures that have += and are none where all is zero, and
//   `team.largest(n, f)` give every member the same
//   result over f(0) .. f(n - 1); `team.each(n, f)` shares out calls; `team.leads()` holds for one
//   member; `team.once(f)` gives every member what f() gave one of them; `team.in_order(n, hit, f)`
//   calls f(rank, i) for each i with hit(i), where rank counts these by i; `team.running_sum(n, f,
//   g)` calls g(i, f(0) + .. + f(i - 1)) for each i, of integers, and gives the sum of all;
//   `team.shared<T>()` is a T in fast memory that all members have in common, with whatever is in
//   it, and `team.meet()` lets each see what the others wrote there; `once` does, too. All members
//   call the same of these in the same order. Nothing else that one member writes may be read by
//   another, other than by a later kernel.
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

/// A row's largest element, the first of equals.
struct Largest {
  float value;
  std::size_t index;
};

}  // namespace starling::compute::cuda
