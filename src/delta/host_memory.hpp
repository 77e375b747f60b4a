// A replica's vectors in the processor's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/large_vector.hpp"
#include "delta/mirror.hpp"
#include "delta/replica_memory.hpp"
#include "delta/source.hpp"

namespace starling::delta {

/// Bytes: size() * 4 * (2 + 1 for each mirror in float32, 1/2 in bfloat16, and 1 for each link with
/// momentum). Nothing fails.
class HostMemory final : public ReplicaMemory {
 public:
  /// y = `initial`, r = 0
  HostMemory(base::LargeFloats initial, MirrorType mirrors);

  [[nodiscard]] std::span<float> y() noexcept { return y_; }
  [[nodiscard]] std::span<const float> y() const noexcept { return y_; }

  std::size_t size() const noexcept override { return y_.size(); }
  MirrorType mirror_type() const noexcept override { return mirror_type_; }
  base::Status read(std::span<float> x) override;
  base::Status write(std::span<const float> values) override;
  base::Status release() override;

  base::Result<MirrorId> add_mirror(base::LargeFloats values) override;
  void free_mirror(MirrorId mirror) override;
  base::Result<base::LargeFloats> mirror(MirrorId mirror) override;
  base::Result<std::uint64_t> hash(MirrorId mirror) override;
  base::Status values_at(MirrorId mirror, const Delta& elements,
                         std::vector<float>& values) override;

  std::unique_ptr<Delta> make_delta() override;
  DeltaSource& difference(MirrorId mirror, const std::optional<HoldBack>& hold) override;
  base::Result<bool> decode(const CodedDelta& coded, Delta& into) override;
  base::Result<Squares> squares(MirrorId mirror, std::size_t first, std::size_t every) override;

  /// In one pass over the memory.
  base::Status commit(std::span<const CommitStep> steps) override;

 private:
  Mirror& at(MirrorId mirror);
  float* momentum_of(const CommitStep& step);

  const MirrorType mirror_type_;
  base::LargeFloats y_;
  base::LargeFloats r_;
  std::map<MirrorId, Mirror> mirrors_;
  std::map<MirrorId, base::LargeFloats> momenta_;  ///< of links, by their `mine`
  MirrorId next_ = 0;
  DifferenceSource source_;
};

}  // namespace starling::delta
