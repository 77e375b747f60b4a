// How fast this machine multiplies matrices, for comparison with a training rate.
#pragma once

#include <cstdint>

namespace starling::compute::cpu {

/// Best rate, in GFLOP/s, of single-precision products of 1024 x 1024 matrices on `threads`
/// threads, measured for about `seconds` (at least three products).
[[nodiscard]] double peak_gflops(double seconds, std::uint32_t threads);

}  // namespace starling::compute::cpu
