#include <algorithm>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "cuda/plans/planner.hpp"

namespace starling::compute::cuda {

namespace {

/// Rows of a matrix that one call of a sum handles, and the number of calls for four columns: a
/// GPU's processors have room for 200,000 and more threads.
constexpr std::size_t kRowsOfSlice = 32;
constexpr std::size_t kSlicesMax = 512;

}  // namespace

bool Planner::is_head(std::size_t op) const {
  return rounds_ && op + 1 == graph_.ops.size() && graph_.loss.kind == LossKind::cross_entropy &&
         std::holds_alternative<Linear>(op_at(op).kind);
}

Value Planner::forward_of(std::size_t op, const Linear& linear, const Value& source) {
  const std::size_t rows = rows_of(op_at(op).in);
  const std::size_t in = columns_of(op_at(op).in);
  const std::size_t out = columns_of(op_at(op).out);
  const Value x = kept_factor(op, {source, in});
  saved_[op].source = x;
  // Also with logits in the gaps: cuBLASLt has fast kernels for sides that are multiples of 8.
  const std::size_t columns = is_head(op) ? stride_of(out) : out;
  const Value weight = parameter(linear.weight);
  const bool has_bias = linear.bias != kNoTensor;
  const Value bias = has_bias ? parameter(linear.bias) : weight;
  const bool rounded = makes_rounded(op);
  std::optional<Value> rounded_bias;
  if (rounded && has_bias) rounded_bias = factor(op, bias);
  const Value result = is_head(op) ? make_rows(rows, out, false)
                       : rounded   ? make_rounded(rows * out)
                                   : make(rows * out);
  const std::optional<Behind> behind = add_behind(op);
  if (behind) summed_[behind->add] = result;
  const std::optional<Value> beside = behind ? behind->other : rounded_bias;
  const auto describe = [=, relu = flow_.does_relu(op)](const void* left, const void* right,
                                                        const Addresses& at) {
    return Gemm{.rows = rows,
                .columns = columns,
                .depth = in,
                .left = {.data = left, .stride = in},
                .right = {.data = right, .stride = in, .turned = true},
                .result = at.at(result),
                .result_stride = columns,
                .bias = has_bias ? at.at(bias) : nullptr,
                .rounded_bias = rounded_bias ? at.at<std::uint16_t>(*rounded_bias) : nullptr,
                .also = behind ? at.at(behind->other) : nullptr,
                .relu = relu};
  };
  product(op, {x, in}, {weight, in, columns}, result, describe, beside);
  return result;
}

std::optional<Planner::Behind> Planner::add_behind(std::size_t op) const {
  if (!rounds_ || flow_.does_relu(op)) return {};
  std::size_t at = op;
  do {
    if (users_[at].size() != 1) return {};
    at = users_[at].front();
  } while (std::holds_alternative<Dropout>(op_at(at).kind) && passes_on(at));
  if (!std::holds_alternative<Add>(op_at(at).kind)) return {};
  if (flow_.does_relu(at) || wanted(at).rounded) return {};
  for (const ValueId other : op_at(at).inputs) {
    if (other == kGraphInput || other >= op) continue;
    if (!values_[other].rounded && !unfinished_[other]) return Behind{at, values_[other]};
  }
  return {};
}

void Planner::backward_of(std::size_t op, const Linear& linear, const Gradient& gradient) {
  const Value source = saved_[op].source;
  const std::size_t rows = rows_of(op_at(op).in);
  const std::size_t in = columns_of(op_at(op).in);
  const std::size_t out = columns_of(op_at(op).out);
  const Value above = factor(op, {gradient.value, out});
  ASSERT(!written_[linear.weight], "an embedding's comes last");
  const Value dweight = parameter_gradient(linear.weight);
  product(op, {above, out}, {source, in}, dweight,
          [=](const void* dy, const void* x, const Addresses& at) {
            return Gemm{.rows = out,
                        .columns = in,
                        .depth = rows,
                        .left = {.data = dy, .stride = out, .turned = true},
                        .right = {.data = x, .stride = in},
                        .result = at.at(dweight),
                        .result_stride = in};
          });
  if (linear.bias != kNoTensor) {
    sum_columns(op, {.rows = rows,
                     .columns = out,
                     .dy = is_head(op) ? gradient.value : above,
                     .plain = parameter_gradient(linear.bias),
                     .normed = {},
                     .source = above,
                     .figures = above});
  }
  if (!flow_.needs_gradient(op_at(op).inputs.front())) return;
  const Value weight = parameter(linear.weight);
  const bool rounded = stride_of(in) == in && takes_rounded_gradient(op_at(op).inputs.front());
  const Value result = rounded ? make_rounded(rows * in) : make(rows * in);
  // A head's gaps are zeros in both factors.
  const std::size_t depth = is_head(op) ? stride_of(out) : out;
  product(op, {above, out}, {weight, in, depth}, result,
          [=](const void* dy, const void* w, const Addresses& at) {
            return Gemm{.rows = rows,
                        .columns = in,
                        .depth = depth,
                        .left = {.data = dy, .stride = depth},
                        .right = {.data = w, .stride = in},
                        .result = at.at(result),
                        .result_stride = in};
          });
  give(op, {result});
}

Value Planner::forward_of(std::size_t op, const LayerNorm& norm, const Value& source) {
  return forward_rows(op, source, norm.epsilon, norm.weight, norm.bias, true);
}

Value Planner::forward_of(std::size_t op, const RmsNorm& norm, const Value& source) {
  return forward_rows(op, source, norm.epsilon, norm.weight, kNoTensor, false);
}

void Planner::backward_of(std::size_t op, const LayerNorm& norm, const Gradient& gradient) {
  backward_rows(op, gradient, norm.weight, norm.bias, true);
}

void Planner::backward_of(std::size_t op, const RmsNorm& norm, const Gradient& gradient) {
  backward_rows(op, gradient, norm.weight, kNoTensor, false);
}

Value Planner::forward_rows(std::size_t op, const Value& source, float epsilon, std::size_t weight,
                            std::size_t bias, bool centred) {
  const std::size_t width = op_at(op).in.back();
  const std::size_t rows = source.count / width;
  const Made made = make_wanted(op, source.count);
  const Value figures = make(2 * rows);
  saved_[op].source = source;
  saved_[op].extra = figures;
  const Value factors = parameter(weight);
  const bool has_bias = bias != kNoTensor;
  const Value shifts = has_bias ? parameter(bias) : factors;
  kernel(
      op, {source, factors, shifts, made.first(), made.second(), figures}, rows,
      [=](const Addresses& at) -> Kernel {
        return RowNormForward{centred,           width,          epsilon,
                              at.floats(source), at.at(factors), has_bias ? at.at(shifts) : nullptr,
                              made.at(at),       at.at(figures)};
      },
      base::ceil_div(width, kFour));
  return keep(made);
}

void Planner::backward_rows(std::size_t op, const Gradient& gradient, std::size_t weight,
                            std::size_t bias, bool centred) {
  const Value source = saved_[op].source;
  const Value figures = saved_[op].extra;
  const Value above = gradient.value;
  const std::size_t width = op_at(op).in.back();
  const std::size_t rows = source.count / width;
  std::optional<Value> dbias;
  if (bias != kNoTensor) dbias = parameter_gradient(bias);
  // The weights' gradients first: dx may overwrite dy.
  sum_columns(op, {.rows = rows,
                   .columns = width,
                   .dy = above,
                   .plain = dbias,
                   .normed = parameter_gradient(weight),
                   .source = source,
                   .figures = figures});
  const ValueId input = op_at(op).inputs.front();
  if (!flow_.needs_gradient(input)) return;
  // A gradient from another branch is added at once.
  std::optional<Gradient>& known = gradients_[input];
  const std::optional<Gradient> other = known && !known->also ? known : std::nullopt;
  const std::optional<Value> also = other ? std::optional(other->value) : std::nullopt;
  if (other) known.reset();
  const bool in_place = other && !other->shared && !other->value.rounded;
  Made made;
  if (is_factor_only(input)) {
    made.rounded = make_rounded(source.count);
  } else {
    made.exact = in_place ? *also : writable(gradient);
  }
  if (is_factor_of_branch(op)) made.rounded = make_rounded(source.count);
  const Value factors = parameter(weight);
  kernel(
      op, {source, factors, figures, above, also.value_or(above), made.first(), made.second()},
      rows,
      [=](const Addresses& at) -> Kernel {
        return RowNormBackward{centred,
                               width,
                               at.floats(source),
                               at.at(factors),
                               at.at(figures),
                               at.floats(above),
                               also ? at.floats(*also) : Floats{},
                               made.at(at)};
      },
      base::ceil_div(width, kFour));
  give(op, {keep(made)});
}

// Whether a norm is the last to add to a sum of gradients that then goes on unchanged, both as a
// factor to a layer before an Add, and past that layer.
bool Planner::is_factor_of_branch(std::size_t norm) const {
  const ValueId input = op_at(norm).inputs.front();
  if (!std::holds_alternative<Add>(op_at(input).kind)) return false;
  if (users_[input].front() != norm) return false;
  const auto& branches = op_at(input).inputs;
  const auto needs = [&](ValueId value) { return flow_.needs_gradient(value); };
  return std::ranges::all_of(branches, needs) && std::ranges::any_of(branches, [&](ValueId value) {
           while (std::holds_alternative<Dropout>(op_at(value).kind) && passes_on(value)) {
             value = op_at(value).inputs.front();
             if (value == kGraphInput) return false;
           }
           return is_factor_only(value);
         });
}

void Planner::sum_columns(std::size_t op, const Columns& what) {
  const auto& [rows, columns, dy, plain, normed, source, figures] = what;
  const std::size_t slices =
      std::clamp<std::size_t>(base::ceil_div(rows, kRowsOfSlice), 1, kSlicesMax);
  const std::size_t fours = base::ceil_div(columns, kFour);
  const std::size_t sums = (plain ? 1 : 0) + (normed ? 1 : 0);
  const Value parts = make(sums * slices * fours * kFour);
  const Value first = plain ? *plain : *normed;
  const Value second = normed ? *normed : *plain;
  kernel(op, {dy, source, figures, parts}, slices * fours,
         [=, has_plain = plain.has_value(), has_normed = normed.has_value(),
          what = what](const Addresses& at) -> Kernel {
           Four* const to = at.at<Four>(parts);
           return ColumnSums{what.rows,
                             what.columns,
                             what.dy.stride > 0 ? what.dy.stride : what.columns,
                             fours,
                             slices,
                             at.floats(what.dy),
                             has_normed ? at.floats(what.source) : Floats{},
                             at.at(what.figures),
                             has_plain ? to : nullptr,
                             has_normed ? to + (sums - 1) * slices * fours : nullptr};
         });
  kernel(
      op, {parts, first, second}, sums * fours,
      [=, columns = what.columns](const Addresses& at) -> Kernel {
        return JoinColumns{columns, fours, slices, at.at<Four>(parts), at.at(first), at.at(second)};
      },
      slices);
}

Value Planner::forward_of(std::size_t op, const Embedding& embedding, const Value& source) {
  const Value weight = parameter(embedding.weight);
  const Value result = make(all(op_at(op).out));
  kernel(op, {source, weight, result}, result.count,
         [=, width = std::size_t{op_at(op).out[1]}](const Addresses& at) -> Kernel {
           return Embed{width, at.at<std::int32_t>(source), at.at(weight), at.at(result)};
         });
  return result;
}

void Planner::backward_of(std::size_t op, const Embedding& embedding, const Gradient& gradient) {
  const bool add = written_[embedding.weight];
  const Value above = gradient.value;
  const Value dweight = parameter_gradient(embedding.weight);
  if (!add) {
    call(op, {dweight}, [=](const Addresses& at) { return Clear{at.at(dweight), dweight.count}; });
  }
  const std::size_t width = op_at(op).out[1];
  const std::size_t positions = op_at(op).out[0];
  const std::size_t chunks = base::ceil_div(batch_ * positions, EmbedSums::kChunk);
  const Value parts = make(2 * chunks * width);
  const auto sums = [=, step = plan_.step, tokens = plan_.sorted_tokens](const Addresses& at) {
    return EmbedSums{width, positions,    at.at<StepState>(step), at.at<std::int32_t>(tokens),
                     add,   at.at(parts), at.at(dweight)};
  };
  kernel(op, {above, parts, dweight}, above.count,
         [=, places = plan_.token_places](const Addresses& at) -> Kernel {
           return EmbedBackward{sums(at), at.at<std::int32_t>(places), at.at(above)};
         });
  kernel(op, {parts, dweight}, chunks * width,
         [=](const Addresses& at) -> Kernel { return EmbedJoin{sums(at)}; });
}

Value Planner::forward_of(std::size_t op, const Positions& positions, const Value& source) {
  const Value weight = parameter(positions.weight);
  const Value result = make(source.count);
  kernel(op, {source, weight, result}, source.count, [=](const Addresses& at) -> Kernel {
    return AddRow{weight.count, at.at(source), at.at(weight), at.at(result)};
  });
  return result;
}

void Planner::backward_of(std::size_t op, const Positions& positions, const Gradient& gradient) {
  const Value dweight = parameter_gradient(positions.weight);
  sum_columns(op, {.rows = batch_,
                   .columns = dweight.count,
                   .dy = gradient.value,
                   .plain = dweight,
                   .normed = {},
                   .source = gradient.value,
                   .figures = gradient.value});
  give(op, gradient);
}

Value Planner::forward_of(std::size_t op, const SwiGlu&, const Value& source) {
  saved_[op].source = source;
  const std::size_t count = all(op_at(op).out);
  const Made made = make_wanted(op, count);
  kernel(op, {source, made.first(), made.second()}, count,
         [=, width = std::size_t{op_at(op).out.back()}](const Addresses& at) -> Kernel {
           return SwiGluForward{width, count, at.floats(source), made.at(at)};
         });
  return keep(made);
}

void Planner::backward_of(std::size_t op, const SwiGlu&, const Gradient& gradient) {
  const ValueId input = op_at(op).inputs.front();
  if (!flow_.needs_gradient(input)) return;
  const Value source = saved_[op].source;
  const Value above = gradient.value;
  const Value result = is_factor_only(input) ? make_rounded(source.count) : make(source.count);
  kernel(op, {source, above, result}, above.count,
         [=, width = std::size_t{op_at(op).out.back()}](const Addresses& at) -> Kernel {
           return SwiGluBackward{width, above.count, at.floats(source), at.floats(above),
                                 at.to(result)};
         });
  give(op, {result});
}

}  // namespace starling::compute::cuda
