// Attention as one call each way, where the queue has that (FusedAttention). Queries, keys and
// values stay where they lie: they are only turned by their positions and rounded. Forward leaves
// these and a figure for each query, so that backward makes no scores again.

#include "compute/cuda/planner.hpp"

namespace starling::compute::cuda {

bool Planner::is_fused(std::size_t op, const Attention& attention) const {
  using Kind = FusedAttention::Kind;
  const auto fuses = [&](Kind kind, std::size_t samples) {
    return fuses_({.kind = kind, .sizes = sizes_of(op, attention, samples)});
  };
  if (!rounds_ || !fuses(Kind::forward, batch_)) return false;
  const std::vector<Part> parts = fused_parts_of(op, attention);
  return fuses(Kind::backward, parts.front().count) && fuses(Kind::backward, parts.back().count);
}

// Of backward: the queue may need work space for a part's scores, rounded.
std::vector<Planner::Part> Planner::fused_parts_of(std::size_t op,
                                                   const Attention& attention) const {
  return parts_of(op, attention, sizeof(std::uint16_t));
}

Value Planner::forward_fused(std::size_t op, const Attention& attention, const Value& source) {
  const AttentionSizes sizes = sizes_of(op, attention, batch_);
  const Value x = make_rounded(source.count);
  kernel(op, {source, x}, source.count,
         [=, rotary = rotary_of(op, attention)](const Addresses& at) -> Kernel {
           return RoundHeads{sides_of(sizes, rotary, at), at.at(source), at.at<std::uint16_t>(x)};
         });
  const Value result = make(all(op_at(op).out));
  const Value y = make_rounded(result.count);
  const Value log_sums = make(sizes.row_count());
  call(op, {x, y, log_sums}, [=](const Addresses& at) {
    return FusedAttention{.kind = FusedAttention::Kind::forward,
                          .sizes = sizes,
                          .x = at.at<std::uint16_t>(x),
                          .y = at.at<std::uint16_t>(y),
                          .log_sums = at.at(log_sums)};
  });
  kernel(op, {y, result}, result.count, [=](const Addresses& at) -> Kernel {
    return Convert{result.count, at.floats(y), at.to(result)};
  });
  saved_[op].source = x;
  saved_[op].extra = log_sums;
  return result;
}

void Planner::backward_fused(std::size_t op, const Attention& attention, const Gradient& gradient) {
  const Value x = saved_[op].source;
  const Value log_sums = saved_[op].extra;
  // Most ops keep the result as their source: rounding it again is less than keeping y, too.
  const Value y = factor(op, saved_[op].result);
  const Value dy = factor(op, gradient.value);
  const Value result = make(all(op_at(op).in));
  const Value dx = make_rounded(result.count);
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
  kernel(op, {dx, result}, result.count,
         [=, rotary = rotary_of(op, attention),
          sizes = sizes_of(op, attention, batch_)](const Addresses& at) -> Kernel {
           return WidenHeads{sides_of(sizes, rotary, at), at.at<std::uint16_t>(dx), at.at(result)};
         });
  give(op, {result});
}

}  // namespace starling::compute::cuda
