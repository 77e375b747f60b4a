// Causal multi-head attention on the processor.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/graph.hpp"

namespace starling::compute::cpu {

/// Computes Attention for a batch. Keeps no scores: backward recomputes them from each row's
/// figure, so memory grows with the number of positions, not with its square.
class AttentionKernel {
 public:
  /// For `samples` samples of `positions` positions; `bf16` as in gemm.hpp.
  AttentionKernel(const Attention& attention, std::size_t samples, std::size_t positions,
                  bool bf16);

  /// Floats of work space for `threads` threads.
  [[nodiscard]] std::size_t scratch_floats(std::size_t threads) const noexcept;
  /// Floats that forward leaves for backward.
  [[nodiscard]] std::size_t figure_floats() const noexcept;

  /// y {samples, positions, heads * head_size} from x {samples, positions, (heads + 2 kv_heads) *
  /// head_size}.
  void forward(const float* x, float* y, float* figures, float* scratch) const;
  /// dx from x, forward's y and figures, and dy.
  void backward(const float* x, const float* y, const float* figures, const float* dy, float* dx,
                float* scratch) const;

 private:
  struct Scratch;

  [[nodiscard]] std::size_t scratch_floats() const noexcept;
  [[nodiscard]] Scratch scratch_at(float* memory) const noexcept;
  void load(const float* from, std::size_t stride, bool turned, float scale, float* to) const;
  void backward_rows(std::size_t row, const Scratch& own, const float* value, const float* result,
                     const float* figures, const float* above) const;
  void store(const float* from, bool turned, float scale, float* to, std::size_t stride) const;

  std::size_t samples_;
  std::size_t positions_;
  std::size_t heads_;
  std::size_t kv_heads_;
  std::size_t size_;  ///< of a head
  bool bf16_;
  std::vector<float> cosines_;  ///< positions x size / 2; empty without rotary positions
  std::vector<float> sines_;
};

}  // namespace starling::compute::cpu
