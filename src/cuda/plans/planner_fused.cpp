// Attention as one call in each direction, if the queue has this (FusedAttention). Queries, keys
// and values stay in place, in bfloat16 as the layer before makes them, or are rotated by their
// positions and rounded. Forward leaves these and a figure for each query, so that backward need
// not recompute scores.

#include "cuda/plans/planner.hpp"

namespace starling::compute::cuda {

bool Planner::can_fuse(std::size_t op, const Attention& attention) const {
  using Kind = FusedAttention::Kind;
  const auto fuses = [&](Kind kind, std::size_t samples) {
    return fuses_({.kind = kind, .sizes = sizes_of(op, attention, samples)});
  };
  if (!rounds_ || !fuses(Kind::forward, batch_)) return false;
  const std::vector<Part> parts = fused_parts_of(op, attention);
  return fuses(Kind::backward, parts.front().count) && fuses(Kind::backward, parts.back().count);
}

// For backward: the queue may need work space for a part's rounded scores.
std::vector<Planner::Part> Planner::fused_parts_of(std::size_t op,
                                                   const Attention& attention) const {
  return parts_of(op, attention, sizeof(std::uint16_t));
}

Value Planner::forward_fused(std::size_t op, const Attention& attention, const Value& source) {
  const AttentionSizes sizes = sizes_of(op, attention, batch_);
  const Value x = attention.rotary_base > 0 ? make_rounded(source.count) : factor(op, source);
  if (attention.rotary_base > 0) {
    kernel(op, {source, x}, source.count,
           [=, rotary = rotary_of(op, attention)](const Addresses& at) -> Kernel {
             return TurnHeads{sides_of(sizes, rotary, at), 1.0F, at.floats(source), at.to(x)};
           });
  }
  const Value y = make_rounded(all(op_at(op).out));
  const Value log_sums = make(sizes.row_count());
  call(op, {x, y, log_sums}, [=](const Addresses& at) {
    return FusedAttention{.kind = FusedAttention::Kind::forward,
                          .sizes = sizes,
                          .x = at.at<std::uint16_t>(x),
                          .y = at.at<std::uint16_t>(y),
                          .log_sums = at.at(log_sums)};
  });
  saved_[op].source = x;
  saved_[op].extra = log_sums;
  return y;
}

void Planner::backward_fused(std::size_t op, const Attention& attention, const Gradient& gradient) {
  const Value x = saved_[op].source;
  const Value log_sums = saved_[op].extra;
  const Value y = saved_[op].result;
  const Value dy = factor(op, gradient.value);
  const Value dx = make_rounded(all(op_at(op).in));
  for (const Part part : fused_parts_of(op, attention)) {
    const AttentionSizes before = sizes_of(op, attention, part.first);
    call(op, {x, y, log_sums, dy, dx},
         [=, sizes = sizes_of(op, attention, part.count)](const Addresses& at) {
           const std::size_t in = before.samples * before.positions * before.in();
           const std::size_t out = before.samples * before.positions * before.out();
           return FusedAttention{.kind = FusedAttention::Kind::backward,
                                 .sizes = sizes,
                                 .x = at.at<std::uint16_t>(x) + in,
                                 .y = at.at<std::uint16_t>(y) + out,
                                 .log_sums = at.at(log_sums) + before.row_count(),
                                 .dy = at.at<std::uint16_t>(dy) + out,
                                 .dx = at.at<std::uint16_t>(dx) + in};
         });
  }
  if (attention.rotary_base == 0) return give(op, {dx});
  const bool rounded = is_factor_only(op_at(op).inputs.front());
  const Value result = rounded ? make_rounded(dx.count) : make(dx.count);
  kernel(op, {dx, result}, result.count,
         [=, rotary = rotary_of(op, attention),
          sizes = sizes_of(op, attention, batch_)](const Addresses& at) -> Kernel {
           return TurnHeads{sides_of(sizes, rotary, at), -1.0F, at.floats(dx), at.to(result)};
         });
  give(op, {result});
}

}  // namespace starling::compute::cuda
