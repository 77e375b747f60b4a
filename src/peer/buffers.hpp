// A model's buffers as the exchange takes them.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "compute/graph.hpp"
#include "exchange/buffers.hpp"

namespace starling::peer {

/// The graph's buffers, which start from these values: no variance is ever below zero.
/// Error (ErrorCode::data), naming the tensor: a value is out of bounds.
[[nodiscard]] base::Result<exchange::BufferSpec> buffer_spec(const compute::Graph& graph,
                                                             std::vector<float> initial);

}  // namespace starling::peer
