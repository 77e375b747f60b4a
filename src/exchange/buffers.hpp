// Buffers: what training keeps beside the parameters, the running statistics of batch norms
// (S. Ioffe and C. Szegedy, arXiv:1502.03167). The trainer changes them in place at each step;
// between peers they travel whole and are averaged. They have no mirrors: a statistic forgets its
// past by itself, so nothing that was missed has to be made up for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::exchange {

/// The buffers of a run as it starts; both vectors have one value an element.
struct BufferSpec {
  std::vector<float> initial;
  std::vector<float> least;  ///< 0 where the buffer is a variance, otherwise -kMagnitudeMax
};

/// A replica's buffers. Every value that comes from outside is checked: finite, not below its
/// least, not beyond kMagnitudeMax. One thread (the replica's).
class Buffers {
 public:
  /// The initial values must be within their bounds (ASSERT): the program made them.
  explicit Buffers(BufferSpec spec = {});

  [[nodiscard]] std::span<float> values() noexcept { return values_; }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }
  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }

  /// Takes other values, size() of them. On failure (`code`) nothing has changed.
  [[nodiscard]] base::Status set(std::span<const float> values, base::ErrorCode code);
  /// `values` and these behind them: what an all-reduce takes.
  [[nodiscard]] std::vector<float> behind(std::span<const float> values) const;
  /// Takes the last size() of `both` as set() does; the others.
  [[nodiscard]] base::Result<std::span<const float>> take_from(std::span<const float> both,
                                                               base::ErrorCode code);
  /// Writes all values to `out` (replaced). diverged: one of them is out of bounds.
  [[nodiscard]] base::Status write(base::Bytes& out) const;
  /// The values that write() of another peer wrote. protocol: too many, too few, out of bounds.
  [[nodiscard]] base::Result<std::vector<float>> read(base::ByteView bytes) const;
  /// Likewise; nothing, where there are no bytes.
  [[nodiscard]] base::Result<std::vector<float>> read_if_any(base::ByteView bytes) const;

  /// Moves each value by `w` (0 to 1) of the way to the other's: what stood within the bounds on
  /// both sides stays within them.
  void average(std::span<const float> other, float w);
  /// |this - other| / |this|
  [[nodiscard]] double distance(std::span<const float> other) const;

 private:
  [[nodiscard]] base::Status check(std::span<const float> values, base::ErrorCode code) const;

  std::vector<float> values_;
  std::vector<float> least_;
};

/// The average that Buffers::average takes of one value.
[[nodiscard]] constexpr float averaged(float value, float other, float w) noexcept {
  return value + w * (other - value);
}

/// |values - others| / |values|, of as many elements; 1 where only the values are 0.
[[nodiscard]] double relative_distance(std::span<const float> values,
                                       std::span<const float> others) noexcept;

}  // namespace starling::exchange
