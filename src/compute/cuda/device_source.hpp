// Deltas of a replica in a queue's memory: made and taken there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/integer.hpp"
#include "compute/cuda/choose.hpp"
#include "compute/cuda/coding.hpp"
#include "compute/cuda/device_buffer.hpp"
#include "compute/cut.hpp"
#include "compute/delta.hpp"

namespace starling::compute::cuda {

/// Indices and values of elements.
class DeviceElementsBuffer {
 public:
  explicit DeviceElementsBuffer(Queue& queue) : buffer_(queue, "deltas") {}

  /// For `count` elements; what was there may be gone.
  [[nodiscard]] base::Status resize(std::size_t count);
  [[nodiscard]] base::Status read(Queue& queue, std::vector<std::uint32_t>& to_indices,
                                  std::vector<float>& to_values) const;

  [[nodiscard]] std::uint32_t* indices() const { return buffer_.at<std::uint32_t>(); }
  [[nodiscard]] float* values() const { return buffer_.at<float>(values_at_); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  /// Gives all of it back where it is more than is taken for `count` elements.
  void free_beyond(std::size_t count) noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return buffer_.bytes(); }

 private:
  DeviceBuffer buffer_;
  std::size_t values_at_ = 0;
  std::size_t size_ = 0;
};

/// A delta in the queue's memory, on its thread.
class DeviceDelta final : public Delta {
 public:
  explicit DeviceDelta(Queue& queue) : queue_(queue), elements_(queue) {}

  [[nodiscard]] DeviceElementsBuffer& elements() noexcept { return elements_; }
  [[nodiscard]] DeviceElements view() const {
    return {elements_.indices(), elements_.values(), elements_.size()};
  }

  std::size_t size() const noexcept override { return elements_.size(); }
  void clear() noexcept override { elements_.clear(); }
  base::Result<std::size_t> reserve(std::size_t count) override;
  void free_beyond(std::size_t count) noexcept override { elements_.free_beyond(count); }
  base::Status read(std::vector<std::uint32_t>& indices, std::vector<float>& values) const override;

 private:
  Queue& queue_;
  DeviceElementsBuffer elements_;
};

template <class M>
struct HeldDifference {
  MirrorDifference<M> difference;
  HoldBackOne<M> hold{};  ///< as FindLargest's, for the next find()
};

/// The difference of a replica to a mirror. All passes over vectors and over what is chosen of them
/// run on the device; what crosses the bus is a sample, histograms, and the bytes of deltas.
class DeviceSource final : public DeltaSource {
 public:
  /// By what mirrors are kept in.
  using AnyDifference = std::variant<HeldDifference<float>, HeldDifference<std::uint16_t>>;

  /// Of vectors of `size` elements. `queue` outlives it.
  DeviceSource(Queue& queue, std::size_t size);

  /// As ReplicaMemory's; tells the bytes of all that it has.
  [[nodiscard]] base::Result<std::size_t> reserve(std::size_t count, std::size_t room);
  /// Reads this one from now on.
  void read(const AnyDifference& difference) { difference_ = difference; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  std::size_t size() const noexcept override { return size_; }
  base::Status sample(std::span<const std::uint32_t> places, std::span<float> values) override;
  base::Result<std::size_t> find(std::uint32_t key_min, std::size_t room) override;
  base::Result<Choice> choose(Among among, std::size_t count, float limit) override;
  base::Status gaps(std::span<std::uint32_t> gaps) override;
  /// `coded` is a DeviceDelta.
  base::Status code(const Coding& coding, base::Buffer& out, Delta& coded) override;

  /// As ReplicaMemory's.
  [[nodiscard]] base::Result<bool> decode(const CodedDelta& coded, DeviceDelta& into);

 private:
  [[nodiscard]] std::size_t tiles() const { return base::ceil_div(size_, kTile); }
  /// Words that codes of indices may take.
  [[nodiscard]] std::size_t words_max(std::size_t count, std::uint32_t shift) const;
  template <class Tiles>
  [[nodiscard]] base::Result<Choice> choose_from(const Tiles& from, std::size_t count, float limit);
  template <class Tiles>
  [[nodiscard]] base::Status count_keys(const Tiles& from, std::optional<std::uint32_t> high);
  template <class Tiles>
  [[nodiscard]] base::Status take(const Tiles& from, const Cut& cut, std::size_t count);
  [[nodiscard]] base::Status code_indices(const Coding& coding, base::Buffer& out);
  [[nodiscard]] base::Status code_values(const Coding& coding, base::Buffer& out);
  [[nodiscard]] base::Result<bool> decode_elements(const CodedDelta& coded,
                                                   const DeviceElementsBuffer& to);
  [[nodiscard]] base::Status append(const std::byte* from, std::size_t bytes, base::Buffer& out);

  Queue& queue_;
  const std::size_t size_;
  AnyDifference difference_;
  DeviceElementsBuffer found_;
  DeviceElementsBuffer chosen_;
  DeviceBuffer tiles_;   ///< where what was found lies
  DeviceBuffer work_;    ///< of one call
  DeviceBuffer coming_;  ///< the same for a delta that came, which decides on its size
  std::vector<std::uint32_t> bins_;
};

}  // namespace starling::compute::cuda
