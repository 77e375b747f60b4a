// A model's buffers as the exchange takes them.
#pragma once

#include <vector>

#include "compute/graph.hpp"
#include "exchange/buffers.hpp"

namespace starling::peer {

/// The graph's buffers, which start from these values, those of train::initial_weights: these are
/// within their bounds.
[[nodiscard]] exchange::BufferSpec buffer_spec(const compute::Graph& graph,
                                               std::vector<float> initial);

}  // namespace starling::peer
