// Divides a product of matrices among the threads of OpenMP.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/integer.hpp"
#include "compute/cpu/gemm.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

/// The number of parts into which the rows are split, so that the parts are nearly square: these
/// need the least packing.
inline std::size_t row_parts(const Gemm& p, std::size_t threads) noexcept {
  std::size_t best = 1;
  double least = 0;
  for (std::size_t parts = 1; parts <= threads; ++parts) {
    if (threads % parts != 0) continue;
    const double packed =
        static_cast<double>(p.rows) / static_cast<double>(parts) +
        static_cast<double>(p.columns) * static_cast<double>(parts) / static_cast<double>(threads);
    if (parts == 1 || packed < least) best = parts, least = packed;
  }
  return best;
}

/// Calls compute(row_from, row_to, column_from, column_to) for parts of the result that start at
/// multiples of a tile's sides, one per thread; for a small result, once for the whole.
template <class Compute>
void in_gemm_parts(const Gemm& p, std::size_t threads, std::size_t tile_rows,
                   std::size_t tile_columns, const Compute& compute) {
  if (threads <= 1 || p.rows * p.columns * p.depth < 64 * 64 * 64) {
    compute(std::size_t{0}, p.rows, std::size_t{0}, p.columns);
    return;
  }
  const std::size_t down = row_parts(p, threads);
  const std::size_t across = threads / down;
  const std::size_t rows = base::round_up(base::ceil_div(p.rows, down), tile_rows);
  const std::size_t columns = base::round_up(base::ceil_div(p.columns, across), tile_columns);
#pragma omp parallel for num_threads(static_cast <int>(threads)) schedule(static, 1)
  for (std::size_t part = 0; part < down * across; ++part) {
    const std::size_t row = std::min(part / across * rows, p.rows);
    const std::size_t column = std::min(part % across * columns, p.columns);
    compute(row, std::min(row + rows, p.rows), column, std::min(column + columns, p.columns));
  }
}

}  // namespace starling::compute::cpu
