// Operations on single elements, or pairs of elements. All run on the program's threads; a result
// may overwrite a source.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/graph.hpp"

namespace starling::compute::cpu {

/// y = f(x).
void activate(ActivationKind kind, std::size_t count, const float* x, float* y);
/// dx = f'(x) dy. For relu, x may be the result instead of the source.
void activate_backward(ActivationKind kind, std::size_t count, const float* x, const float* dy,
                       float* dx);

/// SwiGlu of `rows` rows of 2 * width features.
void swiglu(std::size_t rows, std::size_t width, const float* x, float* y);
void swiglu_backward(std::size_t rows, std::size_t width, const float* x, const float* dy,
                     float* dx);

/// to = a + b; with `relu`, negative sums become zero.
void add(std::size_t count, const float* a, const float* b, float* to, bool relu = false);

/// Dropout's result from its source, or the source's gradient from the result's. Elements from
/// `count` on are not touched.
void drop(float rate, std::uint64_t seed, std::uint64_t op, std::size_t count, const float* x,
          float* y);

/// Adds a row of `row` elements to each of `count` rows.
void add_row(std::size_t count, std::size_t row, const float* x, const float* weight, float* y);
/// The row's gradient: the sum of all rows.
void sum_rows(std::size_t count, std::size_t row, const float* dy, float* dweight);

/// y[i] = weight[tokens[i]], rows of `width` features.
void embed(std::size_t count, std::size_t width, const std::int32_t* tokens, const float* weight,
           float* y);
/// dweight[tokens[i]] += dy[i]; dweight of `vocabulary` rows is set to zero before, unless
/// `accumulate`.
void embed_backward(std::size_t count, std::size_t width, std::size_t vocabulary, bool accumulate,
                    const std::int32_t* tokens, const float* dy, float* dweight);

}  // namespace starling::compute::cpu
