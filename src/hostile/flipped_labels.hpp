// Samples whose labels are turned round.
#pragma once

#include <cstdint>

#include "data/sample_set.hpp"

namespace starling::hostile {

/// The samples of another set, with label classes - 1 - label; targets stay. Slow: it copies each
/// sample twice.
class FlippedLabels final : public data::SampleSet {
 public:
  /// `set` outlives this.
  explicit FlippedLabels(const data::SampleSet& set);

 private:
  void read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept override;

  const data::SampleSet& set_;
};

}  // namespace starling::hostile
