// Layer norm and RMS norm: rows of features, each normalised by its own statistics.
#pragma once

#include <cstddef>

namespace starling::compute::cpu {

struct RowNorm {
  bool centred = true;  ///< layer norm: the mean is subtracted; otherwise RMS norm
  std::size_t rows = 0;
  std::size_t width = 0;
  float epsilon = 0;
};

/// y from x, weight and bias (may be null); `figures` gets mean and 1 / deviation of each row.
void row_norm(const RowNorm& norm, const float* x, const float* weight, const float* bias, float* y,
              float* figures);

/// dx, dweight and dbias (null if there is no bias) from forward's inputs and results. dx may be
/// dy.
void row_norm_backward(const RowNorm& norm, const float* x, const float* weight,
                       const float* figures, const float* dy, float* dx, float* dweight,
                       float* dbias);

}  // namespace starling::compute::cpu
