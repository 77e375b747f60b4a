// Four elements of a vector at a time: a thread of a GPU reads and writes up to 16 bytes at once.
#pragma once

#include "compute/cuda/shared.hpp"

namespace starling::compute::cuda {

/// Elements from a multiple of kFour on.
struct Four {
  float of[4];

  STARLING_BOTH Four& operator+=(const Four& other) {
    for (std::size_t k = 0; k < 4; ++k) of[k] += other.of[k];
    return *this;
  }
};

inline constexpr std::size_t kFour = 4;

/// How many elements there are from i on, below n, of kFour.
STARLING_BOTH inline std::size_t in_four(std::size_t i, std::size_t n) {
  return n - i < kFour ? n - i : kFour;
}

/// The first `count` of four elements; zeros for the others. Vectors begin at multiples of 16
/// bytes.
STARLING_BOTH inline Four load_four(const float* from, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
  }
#endif
  Four four{};
  for (std::size_t k = 0; k < kFour; ++k) four.of[k] = k < count ? from[k] : 0.0F;
  return four;
}

/// The same of bfloat16s, widened.
STARLING_BOTH inline Four load_four(const std::uint16_t* from, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    return {{__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xffff0000U),
             __uint_as_float(four.y << 16), __uint_as_float(four.y & 0xffff0000U)}};
  }
#endif
  Four four{};
  for (std::size_t k = 0; k < kFour; ++k) four.of[k] = k < count ? widened(from[k]) : 0.0F;
  return four;
}

STARLING_BOTH inline void store_four(const Four& four, float* to, std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    *reinterpret_cast<float4*>(to) = {four.of[0], four.of[1], four.of[2], four.of[3]};
    return;
  }
#endif
  for (std::size_t k = 0; k < kFour; ++k) {
    if (k < count) to[k] = four.of[k];
  }
}

STARLING_BOTH inline void store_four(const std::uint16_t (&four)[kFour], std::uint16_t* to,
                                     std::size_t count) {
#ifdef __CUDA_ARCH__
  if (count == kFour) {
    *reinterpret_cast<uint2*>(to) = {four[0] | static_cast<unsigned>(four[1]) << 16,
                                     four[2] | static_cast<unsigned>(four[3]) << 16};
    return;
  }
#endif
  for (std::size_t k = 0; k < kFour; ++k) {
    if (k < count) to[k] = four[k];
  }
}

/// Neighbouring channels of a point, where channels come last.
inline constexpr std::size_t kEight = 8;
struct alignas(16) EightRounded {
  std::uint16_t of[kEight];
};

[[nodiscard]] STARLING_BOTH inline std::size_t groups_of(std::size_t channels) {
  return (channels + kEight - 1) / kEight;
}

/// Floats of one kind: a loop over them has no branch between its loads.
template <class T>
struct FloatsAs {
  const T* data;

  STARLING_BOTH float operator[](std::size_t i) const { return value_of(data[i]); }
  [[nodiscard]] STARLING_BOTH FloatsAs from(std::size_t i) const { return {data + i}; }
  [[nodiscard]] STARLING_BOTH Four four(std::size_t i) const { return load_four(data + i, kFour); }
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
    if (exact != nullptr) store_four(values, exact + i, kFour);
    if (rounded == nullptr) return;
    const std::uint16_t bits[kFour] = {cuda::rounded(values.of[0]), cuda::rounded(values.of[1]),
                                       cuda::rounded(values.of[2]), cuda::rounded(values.of[3])};
    store_four(bits, rounded + i, kFour);
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

}  // namespace starling::compute::cuda
