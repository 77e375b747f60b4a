// The CUDA backend's plans and kernels on the processor: everything except CUDA itself is held to
// the same claims without a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "compute/program.hpp"

namespace starling::cuda_on_cpu {

/// A program's calls to its queue.
struct Calls {
  std::size_t lists = 0;        ///< of work, run
  std::size_t kernels = 0;      ///< run beside them
  std::size_t waits = 0;        ///< for copies out
  std::size_t allocations = 0;  ///< requested, whether or not there was room
};

/// A device's faults.
struct Faults {
  std::size_t piece_max = ~std::size_t{0};  ///< bytes of a piece of memory beside the arena
  std::size_t room = ~std::size_t{0};       ///< bytes of all of them
  const std::size_t* reserve = nullptr;     ///< bytes that Queue::Reserve is; it outlives programs
  std::string recording{};                  ///< why steps cannot be recorded; empty: they can
};

/// `calls`, where it is given, is counted in, and outlives the programs.
[[nodiscard]] std::unique_ptr<compute::Backend> make_backend(Calls* calls = nullptr,
                                                             Faults faults = {});

}  // namespace starling::cuda_on_cpu
