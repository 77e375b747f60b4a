#include "peer/buffers.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "train/weights.hpp"

namespace starling::peer {

exchange::BufferSpec buffer_spec(const compute::Graph& graph, std::vector<float> initial) {
  ASSERT(initial.size() == graph.buffer_count);
  std::vector<float> least(initial.size());
  for (const compute::Tensor& tensor : graph.buffers) {
    std::fill_n(least.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size,
                train::least_value(tensor));
  }
  return {std::move(initial), std::move(least)};
}

}  // namespace starling::peer
