#include "peer/buffers.hpp"

#include <utility>

#include "base/assert.hpp"
#include "wire/delta_format.hpp"

namespace starling::peer {

using wire::delta_format::kMagnitudeMax;

base::Result<exchange::BufferSpec> buffer_spec(const compute::Graph& graph,
                                               std::vector<float> initial) {
  ASSERT(initial.size() == graph.buffer_count);
  std::vector<float> least(initial.size());
  for (const compute::Tensor& tensor : graph.buffers) {
    const bool variance = tensor.kind == compute::TensorKind::running_variance;
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      least[i] = variance ? 0.0F : -kMagnitudeMax;
      if (initial[i] >= least[i] && initial[i] <= kMagnitudeMax) continue;
      return base::fail(base::ErrorCode::data, "tensor '{}' has {}: it must be from {} to {}",
                        tensor.name, initial[i], least[i], kMagnitudeMax);
    }
  }
  return exchange::BufferSpec{std::move(initial), std::move(least)};
}

}  // namespace starling::peer
