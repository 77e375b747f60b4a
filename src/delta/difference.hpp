// The difference of a replica and a mirror, which is compressed and never stored as a whole.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>

#include "base/bfloat16.hpp"
#include "base/prefetch.hpp"

namespace starling::delta {

/// A mirror in float32 or in bfloat16, which is widened wherever it is read.
class MirrorView {
 public:
  // Converts as a span does.
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::convertible_to<std::span<const float>> Floats>
  MirrorView(const Floats& values) : full_(values) {}
  MirrorView(std::span<const base::BFloat16> values) : half_(values) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] std::size_t size() const noexcept { return full_.size() + half_.size(); }
  [[nodiscard]] float at(std::size_t i) const noexcept {
    return half_.empty() ? full_[i] : base::widen(half_[i]);
  }
  /// The viewed elements; one of the two is empty.
  [[nodiscard]] std::span<const float> full() const noexcept { return full_; }
  [[nodiscard]] std::span<const base::BFloat16> half() const noexcept { return half_; }
  /// Prefetches n elements from `begin` on; they need not exist.
  void prefetch(std::size_t begin, std::size_t n) const noexcept {
    if (half_.empty()) {
      base::prefetch(full_.data(), begin * sizeof(float), n * sizeof(float));
    } else {
      base::prefetch(half_.data(), begin * sizeof(base::BFloat16), n * sizeof(base::BFloat16));
    }
  }
  /// Calls use(at, elements from `at` on) until all of begin .. end - 1 were used.
  template <class Use>
  void for_each_block(std::size_t begin, std::size_t end, Use&& use) const {
    if (half_.empty()) return use(begin, full_.subspan(begin, end - begin));
    std::array<float, kBlock> block;
    for (; begin < end; begin += kBlock) {
      const std::span<float> some(block.data(), std::min(kBlock, end - begin));
      base::widen(half_.subspan(begin, some.size()), some);
      use(begin, std::span<const float>(some));
    }
  }

 private:
  static constexpr std::size_t kBlock = 1024;  // elements that are widened at a time

  std::span<const float> full_;
  std::span<const base::BFloat16> half_;
};

/// The vector (base + offset) - mirror, computed in float32 in this order wherever it is read.
/// `offset` may be empty: then base - mirror. All have the size of `mirror`.
struct Difference {
  std::span<const float> base;
  std::span<const float> offset;
  MirrorView mirror;

  [[nodiscard]] std::size_t size() const noexcept { return mirror.size(); }
  [[nodiscard]] float at(std::size_t i) const noexcept {
    const float x = offset.empty() ? base[i] : base[i] + offset[i];
    return x - mirror.at(i);
  }
  /// Prefetches the parts of element i.
  void prefetch(std::size_t i) const noexcept {
    base::prefetch(base.data(), i * sizeof(float), sizeof(float));
    if (!offset.empty()) base::prefetch(offset.data(), i * sizeof(float), sizeof(float));
    mirror.prefetch(i, 1);
  }
  /// out[j] = element begin + j, for the out.size() elements from `begin`.
  void fill(std::size_t begin, std::span<float> out) const noexcept;
};

/// How a scan of a difference changes the difference's vectors, element by element:
///   x = base + offset    offset = keep offset + gain (x - mirror)    base = x - offset
struct HoldBack {
  std::span<float> base;
  std::span<float> offset;
  float keep = 1;
  float gain = 0;
};

}  // namespace starling::delta
