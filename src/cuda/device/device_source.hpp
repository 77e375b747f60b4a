// Makes and takes deltas of a replica in a queue's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/integer.hpp"
#include "cuda/device/device_buffer.hpp"
#include "cuda/kernels/choose.hpp"
#include "cuda/kernels/coding.hpp"
#include "delta/cut.hpp"
#include "delta/delta.hpp"

namespace starling::compute::cuda {

/// Indices and values of elements.
class DeviceElementsBuffer {
 public:
  explicit DeviceElementsBuffer(Queue& queue) : buffer_(queue, "deltas") {}

  /// Makes room for `count` elements; the old content may be gone.
  [[nodiscard]] base::Status resize(std::size_t count);
  [[nodiscard]] base::Status read(Queue& queue, std::vector<std::uint32_t>& to_indices,
                                  std::vector<float>& to_values) const;

  [[nodiscard]] std::uint32_t* indices() const { return buffer_.at<std::uint32_t>(); }
  [[nodiscard]] float* values() const { return buffer_.at<float>(values_at_); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  /// Keeps only the first `count` elements.
  void shrink(std::size_t count) noexcept { size_ = count; }
  /// Frees all of it if it is more than would be taken for `count` elements.
  void free_beyond(std::size_t count) noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return buffer_.bytes(); }

 private:
  DeviceBuffer buffer_;
  std::size_t values_at_ = 0;
  std::size_t size_ = 0;
};

/// A delta in the queue's memory, on its thread.
class DeviceDelta final : public delta::Delta {
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

/// The difference of a replica to a mirror. All passes over vectors and over their chosen elements
/// run on the device, and so do the searches for thresholds. Only the gaps by which the host
/// chooses the codes' divisor, and the bytes of deltas, cross the bus.
class DeviceSource final : public delta::DeltaSource {
 public:
  /// By the type of the mirrors' elements.
  using AnyDifference = std::variant<MirrorDifference<float>, MirrorDifference<std::uint16_t>>;

  /// For vectors of `size` elements. `queue` outlives it.
  DeviceSource(Queue& queue, std::size_t size);

  /// Like ReplicaMemory's; returns the bytes of all its memory.
  [[nodiscard]] base::Result<std::size_t> reserve(std::size_t count, std::size_t room);
  /// Reads this difference from now on. The first choose() holds it back, and code() releases the
  /// sent part; with y null, neither does.
  void read(const AnyDifference& difference, const HoldingBack& hold) {
    difference_ = difference;
    hold_ = hold;
    is_held_ = false;
  }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  std::size_t size() const noexcept override { return size_; }
  base::Result<delta::Choice> choose(const delta::Choosing& which,
                                     std::span<std::uint32_t> gaps) override;
  /// `coded` is a DeviceDelta.
  base::Status code(const delta::Coding& coding, base::Bytes& out, delta::Delta& coded) override;

  /// Like ReplicaMemory's.
  [[nodiscard]] base::Result<bool> decode(const delta::CodedDelta& coded, DeviceDelta& into);

 private:
  [[nodiscard]] std::size_t tiles() const { return base::ceil_div(size_, kTile); }
  struct ChoiceRoom;
  struct CodeRoom;
  /// The memory for the search of a key of a rank.
  struct Search {
    std::size_t wanted;
    std::uint32_t* counts;  ///< kCountsOfDigits, zero at first
    CutStage* stages;       ///< kDigits
    Tally* tally;
  };

  [[nodiscard]] base::Status find(const delta::Choosing& which, const ChoiceRoom& room);
  template <class Values, class Tiles>
  [[nodiscard]] base::Result<ChoiceFigures> choose_from(const Values& values, std::size_t most,
                                                        const Tiles& from,
                                                        const delta::Choosing& which,
                                                        const ChoiceRoom& room,
                                                        std::span<std::uint32_t> gaps);
  template <class Values>
  [[nodiscard]] base::Status find_cut(const Values& values, std::size_t most, const Search& search);
  template <class Tiles>
  [[nodiscard]] base::Status take(const Tiles& from, const ChoiceRoom& room, std::size_t count);
  [[nodiscard]] base::Status code_indices(const delta::Coding& coding, const CodeRoom& room);
  [[nodiscard]] base::Status code_values(const delta::Coding& coding, const CodeRoom& room);
  [[nodiscard]] base::Status release_sent();
  [[nodiscard]] base::Status append_sections(const delta::Coding& coding, const CodeRoom& room,
                                             base::Bytes& out);
  [[nodiscard]] base::Result<bool> decode_elements(const delta::CodedDelta& coded,
                                                   const DeviceElementsBuffer& to);

  Queue& queue_;
  const std::size_t size_;
  AnyDifference difference_;
  HoldingBack hold_{};
  bool is_held_ = false;
  DeviceElementsBuffer found_;
  DeviceElementsBuffer chosen_;
  DeviceBuffer tiles_;   ///< places of the found elements
  DeviceBuffer work_;    ///< of one call
  DeviceBuffer coming_;  ///< the same for a received delta, which determines its size
};

}  // namespace starling::compute::cuda
