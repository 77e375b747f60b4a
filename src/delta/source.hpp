// Where a difference to be compressed lies: in this process's memory, or in a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "compute/replica_memory.hpp"
#include "delta/difference.hpp"

namespace starling::delta {

using compute::FoundElements;

/// A vector that is read in few large pieces. Errors are those of the memory that it lies in.
class Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// values[j] = element places[j]
  [[nodiscard]] virtual base::Status sample(std::span<const std::uint32_t> places,
                                            std::span<float> values) = 0;
  /// All elements whose magnitude has bits of at least `key_min` (> 0), by index. Where they are
  /// more than `room`, found.count says so, and what is found is of no use.
  [[nodiscard]] virtual base::Status collect(std::uint32_t key_min, std::size_t room,
                                             FoundElements& found) = 0;
  /// out[j] = element begin + j
  [[nodiscard]] virtual base::Status fill(std::size_t begin, std::span<float> out) = 0;
};

/// A difference of vectors in this process's memory, which outlive it. Nothing fails.
class DifferenceSource final : public Source {
 public:
  explicit DifferenceSource(const Difference& difference) : difference_(difference) {}

  std::size_t size() const noexcept override { return difference_.size(); }
  base::Status sample(std::span<const std::uint32_t> places, std::span<float> values) override;
  base::Status collect(std::uint32_t key_min, std::size_t room, FoundElements& found) override;
  base::Status fill(std::size_t begin, std::span<float> out) override;

 private:
  Difference difference_;
};

}  // namespace starling::delta
