// What the planner hands to the program: oneDNN primitives in order, with every memory they touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "compute/arena.hpp"

namespace starling::compute::cpu {

/// Index of a buffer of the arena.
using BufferId = std::size_t;

/// One primitive and its arguments, ready for dnnl_primitive_execute (the C call, since the C++ one
/// builds a vector each time), or a piece of our own code.
struct Call {
  dnnl::primitive primitive;
  std::vector<dnnl_exec_arg_t> arguments;
  std::function<void()> own;  ///< where set, this instead of the primitive; it allocates nothing
};

/// A memory that follows a pointer of the caller: one tensor of the parameters or the gradient.
struct UserMemory {
  dnnl::memory memory;
  std::size_t offset = 0;  ///< elements into the flat vector
};

/// A memory inside the arena.
struct ArenaMemory {
  dnnl::memory memory;
  BufferId buffer = 0;
};

/// A compiled network. `forward` turns the input buffer into the outputs; the program then writes
/// the outputs' gradient and runs `backward`. Buffers are placed by add_buffer and touch; the
/// addresses are set by allocate.
class Plan {
 public:
  Plan();

  [[nodiscard]] const dnnl::engine& engine() const noexcept { return engine_; }

  /// Reserves a buffer; its life is that of the calls that touch it.
  BufferId add_buffer(std::size_t bytes);
  /// A memory in a buffer, which grows where it is too small.
  dnnl::memory memory_in(BufferId buffer, const dnnl::memory::desc& desc);
  /// The buffer is needed at the current time.
  void touch(BufferId buffer);
  /// The next call, or work of the program between calls, begins.
  void advance() noexcept { ++now_; }

  /// Reserves the arena and gives all memories their addresses; false where there is not enough
  /// memory. The plan may be moved afterwards, not changed.
  [[nodiscard]] bool allocate();
  [[nodiscard]] const ArenaPlan& arena_plan() const noexcept { return arena_plan_; }
  /// The floats of a buffer; after allocate.
  [[nodiscard]] float* floats(BufferId buffer) noexcept;

  std::vector<Call> forward;
  std::vector<Call> backward;
  std::vector<UserMemory> parameters;
  std::vector<UserMemory> gradients;
  BufferId input = 0;             ///< batch samples, plain
  BufferId outputs = 0;           ///< batch x classes, plain
  BufferId outputs_gradient = 0;  ///< batch x classes, plain

 private:
  dnnl::engine engine_;
  std::vector<Lifetime> lifetimes_;
  std::vector<ArenaMemory> memories_;
  std::size_t now_ = 0;
  ArenaPlan arena_plan_;
  Arena arena_;
};

}  // namespace starling::compute::cpu
