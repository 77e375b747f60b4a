// A batch of labelled samples as every backend takes it: views, owned by whoever made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace starling::compute {

/// Labelled samples. `samples` holds labels.size() samples one after the other, each in the order
/// of the graph's input shape (features, or channels, height, width). Every label is below the
/// graph's number of classes: who reads labels from a file checks them.
struct Batch {
  std::span<const float> samples;
  std::span<const std::uint8_t> labels;

  [[nodiscard]] std::size_t count() const noexcept { return labels.size(); }
};

}  // namespace starling::compute
