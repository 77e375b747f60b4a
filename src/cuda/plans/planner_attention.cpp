// Attention as products of matrices: scores = query key^T, their softmax, result = scores value.
// For attention that the queue cannot do as one call (planner_fused.cpp), and for all that is not
// rounded. The scores of all samples at once could be larger than everything else, so a few samples
// are handled at a time; backward recomputes scores, so that no call keeps any.
#include <algorithm>
#include <cmath>
#include <utility>

#include "cuda/plans/planner.hpp"

namespace starling::compute::cuda {

namespace {

/// The three kinds of products, batched over the key heads.
struct Products : AttentionSizes {
  [[nodiscard]] std::size_t batch() const { return samples * kv_heads; }
  /// Rows of the queries that share a key head.
  [[nodiscard]] std::size_t rows() const { return heads / kv_heads * positions; }
  [[nodiscard]] std::size_t query_count() const { return batch() * rows() * size; }
  [[nodiscard]] std::size_t key_count() const { return batch() * positions * size; }

  /// {rows, positions} = {rows, size} {positions, size}^T
  [[nodiscard]] Gemm scores(const void* query, const void* key, float* to) const {
    return {.rows = rows(),
            .columns = positions,
            .depth = size,
            .left = {query, size, false, rows() * size},
            .right = {key, size, true, positions * size},
            .result = to,
            .result_stride = positions,
            .batch = batch(),
            .result_step = rows() * positions};
  }
  /// {rows, size} = {rows, positions} {positions, size}
  [[nodiscard]] Gemm weighted(const void* scores, const void* value, float* to) const {
    return {.rows = rows(),
            .columns = size,
            .depth = positions,
            .left = {scores, positions, false, rows() * positions},
            .right = {value, size, false, positions * size},
            .result = to,
            .result_stride = size,
            .batch = batch(),
            .result_step = rows() * size};
  }
  /// {positions, size} = {rows, positions}^T {rows, size}
  [[nodiscard]] Gemm gathered(const void* scores, const void* query, float* to) const {
    return {.rows = positions,
            .columns = size,
            .depth = rows(),
            .left = {scores, positions, true, rows() * positions},
            .right = {query, size, false, rows() * size},
            .result = to,
            .result_stride = size,
            .batch = batch(),
            .result_step = positions * size};
  }
};

/// Some samples of a value.
Value part_of(const Value& value, std::size_t first, std::size_t count, std::size_t sample) {
  return {value.buffer, value.offset + first * sample, count * sample};
}

}  // namespace

AttentionSizes Planner::sizes_of(std::size_t op, const Attention& attention,
                                 std::size_t samples) const {
  return {.samples = samples,
          .positions = op_at(op).in[0],
          .heads = attention.heads,
          .kv_heads = attention.kv_heads,
          .size = attention.head_size};
}

HeadSides Planner::sides_of(const AttentionSizes& sizes, const RotaryTables& rotary,
                            const Addresses& at) {
  const bool turned = rotary.cosines.count > 0;
  return {.positions = sizes.positions,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .size = sizes.size,
          .cosines = turned ? at.at(rotary.cosines) : nullptr,
          .sines = turned ? at.at(rotary.sines) : nullptr};
}

std::vector<Planner::Part> Planner::parts_of(std::size_t op, const Attention& attention,
                                             std::size_t bytes) const {
  const std::size_t sample = sizes_of(op, attention, 1).score_count() * bytes;
  const std::size_t most = std::clamp<std::size_t>(score_bytes_ / sample, 1, batch_);
  std::vector<Part> parts;
  for (std::size_t first = 0; first < batch_; first += most) {
    parts.push_back({first, std::min(most, batch_ - first)});
  }
  return parts;
}

Planner::RotaryTables Planner::rotary_of(std::size_t op, const Attention& attention) {
  if (rotary_[op]) return *rotary_[op];
  RotaryTables rotary;
  if (attention.rotary_base > 0) {
    const std::size_t half = attention.head_size / 2;
    std::vector<float> cosines;
    std::vector<float> sines;
    for (std::size_t t = 0; t < op_at(op).in[0]; ++t) {
      for (std::size_t i = 0; i < half; ++i) {
        const double power = -2.0 * static_cast<double>(i) / attention.head_size;
        const double angle =
            static_cast<double>(t) * std::pow(static_cast<double>(attention.rotary_base), power);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    rotary = {plan_.add_constant(std::move(cosines)), plan_.add_constant(std::move(sines))};
  }
  rotary_[op] = rotary;
  return rotary;
}

Value Planner::forward_of(std::size_t op, const Attention& attention, const Value& source) {
  if (is_fused(op)) return forward_fused(op, attention, source);
  saved_[op].source = source;
  const Value result = make(all(op_at(op).out));
  for (const Part part : parts_of(op, attention, sizeof(float))) {
    forward_part(op, attention, source, result, part);
  }
  return result;
}

void Planner::forward_part(std::size_t op, const Attention& attention, const Value& source,
                           const Value& result, Part part) {
  const Heads heads = split(op, attention, source, part);
  const Products products{sizes_of(op, attention, part.count)};
  const Value made = make(products.query_count());
  product(op, heads.scores, heads.value, made,
          [=](const void* a, const void* b, const Addresses& at) {
            return products.weighted(a, b, at.at(made));
          });
  const Value to = part_of(result, part.first, part.count, elements(op_at(op).out));
  kernel(op, {made, to}, to.count, [=](const Addresses& at) -> Kernel {
    return MergeHeads{products.positions, products.heads, products.size, at.at(made), at.at(to)};
  });
}

// Queries, keys, values and the softmax of the scores of some samples.
Planner::Heads Planner::split(std::size_t op, const Attention& attention, const Value& source,
                              Part part) {
  const Products products{sizes_of(op, attention, part.count)};
  const RotaryTables rotary = rotary_of(op, attention);
  const Heads heads{.query = make(products.query_count()),
                    .key = make(products.key_count()),
                    .value = make(products.key_count()),
                    .scores = make(products.score_count())};
  const Value from = part_of(source, part.first, part.count, elements(op_at(op).in));
  kernel(op, {from, heads.query, heads.key, heads.value}, from.count,
         [=](const Addresses& at) -> Kernel {
           return SplitHeads{sides_of(products, rotary, at),
                             products.scale(),
                             at.at(from),
                             at.at(heads.query),
                             at.at(heads.key),
                             at.at(heads.value)};
         });
  product(op, heads.query, heads.key, heads.scores,
          [=](const void* a, const void* b, const Addresses& at) {
            return products.scores(a, b, at.at(heads.scores));
          });
  kernel(
      op, {heads.scores}, products.score_count() / products.positions,
      [=](const Addresses& at) -> Kernel {
        return CausalSoftmax{products.positions, at.at(heads.scores)};
      },
      products.positions);
  return heads;
}

void Planner::backward_of(std::size_t op, const Attention& attention, const Gradient& gradient) {
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  if (is_fused(op)) return backward_fused(op, attention, gradient);
  const Value result = make(saved_[op].source.count);
  for (const Part part : parts_of(op, attention, sizeof(float))) {
    backward_part(op, attention, gradient.value, result, part);
  }
  give(op, {result});
}

void Planner::backward_part(std::size_t op, const Attention& attention, const Value& above,
                            const Value& result, Part part) {
  const Heads heads = split(op, attention, saved_[op].source, part);
  const Products products{sizes_of(op, attention, part.count)};
  const Value from = part_of(above, part.first, part.count, elements(op_at(op).out));
  const Value dmade = make(products.query_count());
  kernel(op, {from, dmade}, from.count, [=](const Addresses& at) -> Kernel {
    return SplitRows{products.positions, products.heads, products.size, at.at(from), at.at(dmade)};
  });
  const Value dvalue = make(products.key_count());
  product(op, heads.scores, dmade, dvalue, [=](const void* a, const void* b, const Addresses& at) {
    return products.gathered(a, b, at.at(dvalue));
  });
  const Value dscores = make(products.score_count());
  product(op, dmade, heads.value, dscores, [=](const void* a, const void* b, const Addresses& at) {
    return products.scores(a, b, at.at(dscores));
  });
  kernel(
      op, {heads.scores, dscores}, products.score_count() / products.positions,
      [=](const Addresses& at) -> Kernel {
        return CausalSoftmaxBackward{products.positions, at.at(heads.scores), at.at(dscores)};
      },
      products.positions);
  const Value dquery = make(products.query_count());
  product(op, dscores, heads.key, dquery, [=](const void* a, const void* b, const Addresses& at) {
    return products.weighted(a, b, at.at(dquery));
  });
  const Value dkey = make(products.key_count());
  product(op, dscores, heads.query, dkey, [=](const void* a, const void* b, const Addresses& at) {
    return products.gathered(a, b, at.at(dkey));
  });
  const Value to = part_of(result, part.first, part.count, elements(op_at(op).in));
  kernel(op, {dquery, dkey, dvalue, to}, to.count,
         [=, rotary = rotary_of(op, attention)](const Addresses& at) -> Kernel {
           return MergeGradients{sides_of(products, rotary, at),
                                 products.scale(),
                                 at.at(dquery),
                                 at.at(dkey),
                                 at.at(dvalue),
                                 at.at(to)};
         });
}

}  // namespace starling::compute::cuda
