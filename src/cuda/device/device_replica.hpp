// A replica's vectors in a queue's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "cuda/device/device_source.hpp"
#include "cuda/device/queue.hpp"
#include "delta/replica_memory.hpp"

namespace starling::compute::cuda {

/// Like exchange's HostMemory, but on the device, with the memory that the largest deltas need
/// there.
class DeviceReplica final : public delta::ReplicaMemory {
 public:
  /// y and r are zero. `queue` outlives it.
  [[nodiscard]] static base::Result<std::unique_ptr<DeviceReplica>> create(
      Queue& queue, std::size_t size, delta::MirrorType mirrors);

  [[nodiscard]] float* y() noexcept { return reinterpret_cast<float*>(y_.memory.get()); }
  [[nodiscard]] float* r() noexcept { return reinterpret_cast<float*>(r_.memory.get()); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  std::size_t size() const noexcept override { return size_; }
  delta::MirrorType mirror_type() const noexcept override { return mirror_type_; }
  base::Status read(std::span<float> x) override;
  base::Status write(std::span<const float> values) override;
  base::Status release() override;
  base::Result<MirrorId> add_mirror(base::LargeFloats values) override;
  void free_mirror(MirrorId mirror) override;
  base::Result<base::LargeFloats> mirror(MirrorId mirror) override;
  base::Result<std::uint64_t> hash(MirrorId mirror) override;
  base::Status values_at(MirrorId mirror, const delta::Delta& elements,
                         std::vector<float>& values) override;
  std::unique_ptr<delta::Delta> make_delta() override;
  base::Result<std::size_t> reserve(std::size_t count, std::size_t room,
                                    bool has_momentum) override;
  delta::DeltaSource& difference(MirrorId mirror, const std::optional<HoldBack>& hold) override;
  base::Result<bool> decode(const delta::CodedDelta& coded, delta::Delta& into) override;
  base::Result<delta::Squares> squares(MirrorId mirror, std::size_t first,
                                       std::size_t every) override;
  base::Status reserve_commit(const CommitStep& step) override;
  base::Status commit(std::span<const CommitStep> steps) override;

 private:
  struct Block {
    Queue::Memory memory{nullptr, nullptr};
    std::size_t bytes = 0;
  };
  DeviceReplica(Queue& queue, std::size_t size, delta::MirrorType mirrors)
      : queue_(queue),
        size_(size),
        mirror_type_(mirrors),
        source_(queue, size),
        aside_(queue, "deltas"),
        read_(queue, "values of mirrors") {}

  [[nodiscard]] base::Status reserve();
  [[nodiscard]] base::Result<Block> allocate(std::size_t bytes, const char* what);
  [[nodiscard]] base::Status copy_in_mirror(std::byte* to, const base::LargeFloats& values);
  [[nodiscard]] std::byte* at(MirrorId mirror) const;
  [[nodiscard]] std::size_t mirror_bytes() const noexcept;
  template <class M>
  [[nodiscard]] MirrorDifference<M> difference_to(MirrorId mirror);
  /// Calls use(M{}) with the type of the mirrors' elements.
  template <class Use>
  auto by_type(Use&& use) const;
  /// Whether a commit needs a pass of its own.
  [[nodiscard]] bool goes_alone(bool has_momentum) const;
  /// Makes room for the results of `touched` elements.
  [[nodiscard]] base::Status reserve_aside(std::size_t touched);
  /// Commits up to kLinksAtOnce links.
  [[nodiscard]] base::Status commit_together(std::span<const CommitStep> steps);
  /// Their steps, by a kernel that has registers for kLinks links.
  template <std::size_t kLinks>
  [[nodiscard]] base::Status step_together(std::span<const CommitStep> steps);
  template <class M>
  [[nodiscard]] base::Status commit_alone(const CommitStep& step);

  Queue& queue_;
  const std::size_t size_;
  const delta::MirrorType mirror_type_;
  Block y_;
  Block r_;
  Block sums_;  ///< of squares()
  std::map<MirrorId, Block> mirrors_;
  std::map<MirrorId, Block> momenta_;  ///< by the link's own mirror, from its first commit on
  MirrorId next_ = 0;
  DeviceSource source_;
  DeviceBuffer aside_;  ///< of one commit in its own pass
  DeviceBuffer read_;   ///< of values_at()
};

}  // namespace starling::compute::cuda
