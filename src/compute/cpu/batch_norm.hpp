// Batch norm on blocked and plain layouts, with the ReLU after it, if there is one.
#pragma once

#include <cstddef>

namespace starling::compute::cpu {

/// Activations of `samples` samples, each `planes` planes of `points` points with `block` channels
/// side by side in a point: channel p * block + b is in plane p. Channels beyond `channels` fill
/// up the last block; they are zero and stay so. NCHW has a block of 1, NC one plane and point.
struct BatchNormShape {
  std::size_t samples = 0;
  std::size_t planes = 0;
  std::size_t points = 0;
  std::size_t block = 0;
  std::size_t channels = 0;
  float epsilon = 0;
  float momentum = 0;
  bool relu = false;
};

/// The vectors with a value for each channel, `channels` floats each.
struct BatchNormWeights {
  const float* weight;
  const float* bias;
};

/// Training: normalises by mean and variance of the first `count` samples (the others get
/// meaningless values), moves the running figures, and leaves mean and 1 / deviation of each
/// channel in `figures` (2 * channels).
void batch_norm_train(const BatchNormShape& shape, std::size_t count, const float* x,
                      const BatchNormWeights& weights, float* running_mean, float* running_variance,
                      float* y, float* figures);

/// Evaluation: normalises by the running figures. y may be x.
void batch_norm_evaluate(const BatchNormShape& shape, const float* x,
                         const BatchNormWeights& weights, const float* running_mean,
                         const float* running_variance, float* y);

/// Gradients after batch_norm_train; y is its result (used only with a ReLU). dx may be dy; it is
/// zero for samples from `count` on.
void batch_norm_backward(const BatchNormShape& shape, std::size_t count, const float* x,
                         const float* y, const float* weight, const float* figures, const float* dy,
                         float* dx, float* dweight, float* dbias);

}  // namespace starling::compute::cpu
