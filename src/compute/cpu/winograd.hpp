// Convolutions with windows of 3x3 and a stride of 1 in fewer multiplications: Winograd's minimal
// filtering F(4x4, 3x3), as in Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
// (arXiv:1509.09308). A tile of 4x4 results takes 36 products for each pair of channels instead of
// 144: sources (6x6 patches), weights and results are transformed, with 36 products of matrices
// between the transforms. Its rounding errors are two to three times those of plain sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::compute::cpu {

/// Images as in BatchNormShape, in blocks of 8 or 16 channels that divide both numbers of channels.
/// Weights are OIHW.
struct WinogradShape {
  std::size_t samples = 0;
  std::size_t in_channels = 0, out_channels = 0;
  std::size_t height = 0, width = 0;  ///< of the source
  std::size_t padding = 0;            ///< around the source, 0 to 2
  std::size_t block = 0;

  [[nodiscard]] std::size_t out_height() const noexcept { return height + 2 * padding - 2; }
  [[nodiscard]] std::size_t out_width() const noexcept { return width + 2 * padding - 2; }
  [[nodiscard]] std::size_t tiles() const noexcept;  ///< of 4x4 results, one for all channels
  /// The convolution that turns gradients of the result into those of the source.
  [[nodiscard]] WinogradShape backward() const noexcept {
    return {samples, out_channels, in_channels, out_height(), out_width(), 2 - padding, block};
  }
};

/// Floats of transformed weights.
[[nodiscard]] std::size_t winograd_weights_size(const WinogradShape& shape);
/// Floats of work space for winograd_forward.
[[nodiscard]] std::size_t winograd_scratch_size(const WinogradShape& shape, std::uint32_t threads);
/// Floats of work space for winograd_backward_weights.
[[nodiscard]] std::size_t winograd_gradient_scratch_size(const WinogradShape& shape,
                                                         std::uint32_t threads);

enum class WinogradPass { forward, backward };

/// Transforms the weights of a convolution for winograd_forward with `shape`: the convolution's,
/// or, for the backward pass, its backward().
void winograd_weights(const WinogradShape& shape, WinogradPass pass, const float* weight,
                      float* transformed);

/// result = source * weights, plus `bias` (one per channel, or null), and then max(0, result) if
/// `relu`. The result does not depend on the number of threads.
void winograd_forward(const WinogradShape& shape, const float* source, const float* transformed,
                      const float* bias, bool relu, float* result, float* scratch,
                      std::uint32_t threads);

/// Gradients of the weights and, unless it is null, of the bias.
void winograd_backward_weights(const WinogradShape& shape, const float* source,
                               const float* result_gradient, float* dweight, float* dbias,
                               float* scratch, std::uint32_t threads);

}  // namespace starling::compute::cpu
