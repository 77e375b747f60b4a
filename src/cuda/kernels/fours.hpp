// Four elements of a vector at a time: a thread of a GPU reads and writes up to 16 bytes at once.
#pragma once

#include <cstring>

#include "cuda/kernels/shared.hpp"

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

/// The number of elements from i on below n, at most kFour.
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

/// The same for bfloat16s, widened.
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

/// Neighbouring channels of a point, if channels come last.
inline constexpr std::size_t kEight = 8;
struct alignas(16) EightRounded {
  std::uint32_t pairs[kEight / 2];

  STARLING_BOTH float operator[](std::size_t k) const {
    const std::uint32_t pair = pairs[k / 2];
    return std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
  }
};

[[nodiscard]] STARLING_BOTH inline std::size_t groups_of(std::size_t channels) {
  return (channels + kEight - 1) / kEight;
}

struct alignas(8) FourRounded {
  std::uint32_t pairs[kFour / 2];
};

/// As one access, aligned to its size.
template <class Wide, class T>
STARLING_BOTH Wide load_wide(const T* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Wide*>(from);
#else
  Wide read;
  std::memcpy(&read, from, sizeof read);
  return read;
#endif
}
template <class Wide, class T>
STARLING_BOTH void store_wide(const Wide& wide, T* to) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Wide*>(to) = wide;
#else
  std::memcpy(to, &wide, sizeof wide);
#endif
}

/// Eight elements as in memory, widened where they are used: until then, more loads can be in
/// flight.
template <class T>
struct Eight;
template <>
struct Eight<float> {
  Four of[2];

  STARLING_BOTH float operator[](std::size_t k) const { return of[k / kFour].of[k % kFour]; }
};
template <>
struct Eight<std::uint16_t> {
  EightRounded rounded;

  STARLING_BOTH float operator[](std::size_t k) const { return rounded[k]; }
};

/// Eight elements from a multiple of eight on, in a vector that begins at a multiple of 16 bytes.
STARLING_BOTH inline Eight<float> load_eight(const float* from) {
  return {{load_four(from, kFour), load_four(from + kFour, kFour)}};
}
STARLING_BOTH inline Eight<std::uint16_t> load_eight(const std::uint16_t* from) {
  return {load_wide<EightRounded>(from)};
}

/// Floats of one kind: a loop over them has no branch between its loads.
template <class T>
struct FloatsAs {
  const T* data;

  STARLING_BOTH float operator[](std::size_t i) const { return value_of(data[i]); }
  [[nodiscard]] STARLING_BOTH FloatsAs from(std::size_t i) const { return {data + i}; }
  [[nodiscard]] STARLING_BOTH Four four(std::size_t i) const { return load_four(data + i, kFour); }
  [[nodiscard]] STARLING_BOTH Eight<T> eight(std::size_t i) const { return load_eight(data + i); }
  template <class F>
  STARLING_BOTH auto visit(const F& f) const {
    return f(*this);
  }
};

/// Floats to read, or bfloat16 instead. Aligned for `four`.
struct Floats {
  const void* data = nullptr;
  bool rounded = false;

  /// The result of f for the floats in their own type.
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
  /// Four of those; `i` is a multiple of four.
  [[nodiscard]] STARLING_BOTH Four four(std::size_t i) const {
    return visit([i](auto own) { return own.four(i); });
  }
};

/// The target of floats: as float32, as bfloat16, or both; null if they are never read.
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
  /// `i` is a multiple of eight, and vectors begin at multiples of 16 bytes.
  STARLING_BOTH void put_eight(std::size_t i, const float (&values)[kEight]) const {
    if (exact != nullptr) {
      for (std::size_t k = 0; k < kEight; k += kFour) {
        store_four({values[k], values[k + 1], values[k + 2], values[k + 3]}, exact + i + k, kFour);
      }
    }
    if (rounded == nullptr) return;
    EightRounded bits;
    for (std::size_t k = 0; k < kEight; k += 2) {
      bits.pairs[k / 2] = rounded_pair(values[k], values[k + 1]);
    }
    store_wide(bits, rounded + i);
  }
  STARLING_BOTH void put_four(std::size_t i, const Four& values) const {
    if (exact != nullptr) store_four(values, exact + i, kFour);
    if (rounded == nullptr) return;
    const FourRounded bits = {
        {rounded_pair(values.of[0], values.of[1]), rounded_pair(values.of[2], values.of[3])}};
    store_wide(bits, rounded + i);
  }
};

/// In one form.
STARLING_BOTH inline FloatsTo floats_to(void* data, bool rounded) {
  if (rounded) return {nullptr, static_cast<std::uint16_t*>(data)};
  return {static_cast<float*>(data), nullptr};
}

/// f(sources...), each source in its own type.
template <class F>
STARLING_BOTH void visit_all(const F& f) {
  f();
}
template <class F, class Source, class... Sources>
STARLING_BOTH void visit_all(const F& f, const Source& first, const Sources&... rest) {
  first.visit([&](const auto& own) {
    visit_all([&](const auto&... others) { f(own, others...); }, rest...);
  });
}

/// For those of the four elements from `i` on that lie below `n`: puts f(k, the sources' values at
/// i + k).
template <class F, class... Sources>
STARLING_BOTH void map_four(std::size_t i, std::size_t n, const FloatsTo& to, const F& f,
                            const Sources&... from) {
  if (i + kFour <= n) {
    const auto map = [&f](const auto&... read) {
      return Four{f(std::size_t{0}, read.of[0]...), f(std::size_t{1}, read.of[1]...),
                  f(std::size_t{2}, read.of[2]...), f(std::size_t{3}, read.of[3]...)};
    };
    visit_all([&](const auto&... own) { to.put_four(i, map(own.four(i)...)); }, from...);
    return;
  }
  for (std::size_t k = 0; i + k < n; ++k) to.put(i + k, f(k, from[i + k]...));
}

/// The same for eight, over whole tensors.
template <class F, class... Sources>
STARLING_BOTH void map_eight(std::size_t i, std::size_t n, const FloatsTo& to, const F& f,
                             const Sources&... from) {
  if (i + kEight <= n) {
    const auto map = [&](const auto&... read) {
      float made[kEight];
      for (std::size_t k = 0; k < kEight; ++k) made[k] = f(k, read[k]...);
      to.put_eight(i, made);
    };
    visit_all([&](const auto&... own) { map(own.eight(i)...); }, from...);
    return;
  }
  for (std::size_t k = 0; i + k < n; ++k) to.put(i + k, f(k, from[i + k]...));
}

}  // namespace starling::compute::cuda
