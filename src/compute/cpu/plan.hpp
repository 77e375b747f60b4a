// The planner's result for the program: oneDNN primitives in order, with every memory that they
// touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
  std::function<void()> own;  ///< if set, replaces the primitive; it allocates nothing
};

/// A memory at a pointer of the caller: one tensor of the parameters or the gradient.
struct UserMemory {
  dnnl::memory memory;
  std::size_t offset = 0;  ///< elements into the flat vector
};

/// A memory inside the arena.
struct ArenaMemory {
  dnnl::memory memory;
  BufferId buffer = 0;
};

/// The current step's figures, for our own calls.
struct Step {
  std::size_t count = 0;   ///< samples: the rest of the batch after them is zero
  std::uint64_t seed = 0;  ///< of dropout
};

/// A compiled network. `forward` turns the input buffer into the outputs; the program then writes
/// the outputs' gradient and runs `backward`. `evaluation` is forward outside of training; empty if
/// that is the same. add_buffer and touch place buffers; allocate sets the addresses.
class Plan {
 public:
  Plan();

  [[nodiscard]] const dnnl::engine& engine() const noexcept { return engine_; }

  /// Reserves a buffer; it lives from the first to the last call that touches it.
  BufferId add_buffer(std::size_t bytes);
  /// A memory in a buffer, which grows if it is too small.
  dnnl::memory memory_in(BufferId buffer, const dnnl::memory::desc& desc);
  /// The buffer is needed at the current time.
  void touch(BufferId buffer);
  /// The next call, or work of the program between calls, begins.
  void advance() noexcept { ++now_; }

  /// Reserves the arena and gives all memories their addresses; false if there is not enough
  /// memory. The plan may be moved afterwards, not changed.
  [[nodiscard]] bool allocate();
  [[nodiscard]] const ArenaPlan& arena_plan() const noexcept { return arena_plan_; }
  /// The floats of a buffer; after allocate.
  [[nodiscard]] float* floats(BufferId buffer) noexcept;
  /// The first elements of a buffer as integers; after allocate.
  [[nodiscard]] std::span<std::int32_t> tokens(BufferId buffer, std::size_t count) noexcept;

  /// Set by the program before each run; the address stays.
  [[nodiscard]] Step& step() noexcept { return *step_; }

  std::vector<Call> forward;
  std::vector<Call> backward;
  std::vector<Call> evaluation;
  std::vector<UserMemory> parameters;
  std::vector<UserMemory> gradients;
  std::vector<UserMemory> buffers;
  BufferId input = 0;             ///< batch samples or (as int32) tokens, plain
  BufferId outputs = 0;           ///< of forward: batch x outputs, plain
  BufferId evaluation_input = 0;  ///< the same for evaluation
  BufferId evaluation_outputs = 0;
  BufferId outputs_gradient = 0;  ///< batch x outputs, plain

 private:
  dnnl::engine engine_;
  std::vector<Lifetime> lifetimes_;
  std::vector<ArenaMemory> memories_;
  std::size_t now_ = 0;
  std::unique_ptr<Step> step_;
  ArenaPlan arena_plan_;
  Arena arena_;
};

}  // namespace starling::compute::cpu
