// Attention as a graph for cuDNN: the operations in the form and order that its engines for fused
// attention expect (flash attention, Dao, arXiv:2307.08691).
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/integer.hpp"
#include "cuda/libraries/dnn.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

/// Features of a head are a multiple of this, so that rows of bfloat16 are aligned.
constexpr std::size_t kSizeStep = 8;
/// The most features of a head: forward, and backward on GPUs whose capability has engines for it.
constexpr std::size_t kSizeMax = 256;
constexpr int kCapabilityOfLargeHeads = 9;
constexpr std::size_t kSizeMaxBackward = 128;  ///< on others
/// Before this version, backward makes mistakes in a last block of positions that is not full (9.15
/// and older), or may read work space that was never written.
constexpr std::size_t kVersionOfPartBlocks = 91800;
constexpr std::size_t kBlock = 128;
/// From this capability on, backward is only repeatable with engines that are requested by number.
constexpr int kCapabilityOfNumberedEngines = 10;
/// The alignment of our part of the work space, after cuDNN's.
constexpr std::size_t kWorkspaceAlignment = 256;
/// No limit: it is always less than the scores that attention would take without an engine.
constexpr std::int64_t kWorkspaceMax = std::numeric_limits<std::int64_t>::max();

/// Numbers of the tensors that have addresses.
enum Number : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kResult,
  kLogSums,
  kScale,
  kHidden,  ///< the score of a key that a query does not see
  kResultGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kOne,
  kResultProducts  ///< of each row of the result with its gradient
};

/// FusedAttention's formulas as operations.
class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionSizes& sizes)
      : samples_(side(sizes.samples)),
        positions_(side(sizes.positions)),
        heads_(side(sizes.heads)),
        kv_heads_(side(sizes.kv_heads)),
        size_(side(sizes.size)) {}

  void forward();
  void backward();
  [[nodiscard]] Result<DnnDescriptor> finish(cudnnHandle_t handle) { return graph_.finish(handle); }

 private:
  using Tensor = DnnGraphBuilder::Tensor;

  static std::int64_t side(std::size_t value) { return static_cast<std::int64_t>(value); }

  /// One matrix per head, of some of the `width` features of each position.
  [[nodiscard]] DnnShape of_rows(std::int64_t heads, std::int64_t width) const {
    return {{samples_, heads, positions_, size_}, {positions_ * width, size_, width, 1}};
  }
  [[nodiscard]] std::int64_t in() const { return (heads_ + 2 * kv_heads_) * size_; }
  [[nodiscard]] DnnShape queries() const { return of_rows(heads_, in()); }
  [[nodiscard]] DnnShape keys() const { return of_rows(kv_heads_, in()); }
  [[nodiscard]] DnnShape results() const { return of_rows(heads_, heads_ * size_); }
  /// The shape of tensors inside the graph.
  [[nodiscard]] DnnShape matrices() const {
    return DnnShape::dense({samples_, heads_, positions_, size_});
  }
  [[nodiscard]] DnnShape scores() const {
    return DnnShape::dense({samples_, heads_, positions_, positions_});
  }
  [[nodiscard]] DnnShape figures() const {
    return DnnShape::dense({samples_, heads_, positions_, 1});
  }

  Tensor like_scores(cudnnPointwiseMode_t mode, DnnGraphBuilder::Tensors from) {
    const Tensor to = graph_.inside(scores());
    graph_.pointwise(mode, from, to);
    return to;
  }
  Tensor hide_later(Tensor from);
  void gather(Tensor weights, Tensor from, Tensor to);

  const std::int64_t samples_, positions_, heads_, kv_heads_, size_;
  DnnGraphBuilder graph_{"describing attention"};
};

// Replaces the scores of keys after a query's position.
AttentionGraph::Tensor AttentionGraph::hide_later(Tensor from) {
  const Tensor row = graph_.inside(scores(), CUDNN_DATA_INT32);
  const Tensor column = graph_.inside(scores(), CUDNN_DATA_INT32);
  const Tensor is_seen = graph_.inside(scores(), CUDNN_DATA_BOOLEAN);
  graph_.index(2, from, row);
  graph_.index(3, from, column);
  graph_.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, is_seen, CUDNN_DATA_BOOLEAN);
  return like_scores(CUDNN_POINTWISE_BINARY_SELECT, {from, graph_.scalar(kHidden), is_seen});
}

void AttentionGraph::forward() {
  const Tensor query = graph_.outside(kQuery, queries());
  const Tensor key = graph_.outside(kKey, keys().transposed());
  Tensor score = graph_.inside(scores());
  graph_.multiply(query, key, score);
  score = like_scores(CUDNN_POINTWISE_MUL, {score, graph_.scalar(kScale)});
  score = hide_later(score);
  const Tensor largest = graph_.inside(figures());
  graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, score, largest);
  const Tensor lowered = like_scores(CUDNN_POINTWISE_SUB, {score, largest});
  const Tensor power = like_scores(CUDNN_POINTWISE_EXP, {lowered});
  const Tensor sum = graph_.inside(figures());
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
  const Tensor log = graph_.inside(figures());
  graph_.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  const Tensor log_sum = graph_.outside_floats(kLogSums, figures());
  graph_.pointwise(CUDNN_POINTWISE_ADD, {largest, log}, log_sum);
  const Tensor weight = graph_.inside(scores(), CUDNN_DATA_BFLOAT16);
  graph_.pointwise(CUDNN_POINTWISE_DIV, {power, sum}, weight);
  const Tensor value = graph_.outside(kValue, keys());
  graph_.multiply(weight, value, graph_.outside(kResult, results()));
}

// dK and dV: products with the transpose of the transformed scores, summed over the heads that
// share a key.
void AttentionGraph::gather(Tensor weights, Tensor from, Tensor to) {
  const Tensor columns = graph_.inside(scores().transposed(), CUDNN_DATA_BFLOAT16);
  graph_.transpose(weights, columns);
  if (heads_ == kv_heads_) return graph_.multiply(columns, from, to);
  const Tensor of_each_head = graph_.inside(matrices(), CUDNN_DATA_BFLOAT16);
  graph_.multiply(columns, from, of_each_head);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head, to);
}

void AttentionGraph::backward() {
  const Tensor query = graph_.outside(kQuery, queries());
  const Tensor key = graph_.outside(kKey, keys().transposed());
  const Tensor value = graph_.outside(kValue, keys().transposed());
  const Tensor result = graph_.outside(kResult, results());
  const Tensor above = graph_.outside(kResultGradient, results());
  const Tensor scale = graph_.scalar(kScale);

  const Tensor product = graph_.inside(matrices());
  graph_.pointwise(CUDNN_POINTWISE_MUL, {above, result}, product);
  const Tensor sum = graph_.inside(figures());
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, product, sum);
  const Tensor products = graph_.outside_floats(kResultProducts, figures());
  graph_.pointwise(CUDNN_POINTWISE_MUL, {sum, graph_.scalar(kOne)}, products);

  Tensor score = graph_.inside(scores());
  graph_.multiply(query, key, score);
  score = like_scores(CUDNN_POINTWISE_MUL, {score, scale});
  const Tensor log_sum = graph_.outside_floats(kLogSums, figures());
  score = hide_later(like_scores(CUDNN_POINTWISE_SUB, {score, log_sum}));
  const Tensor weight = like_scores(CUDNN_POINTWISE_EXP, {score});
  gather(weight, above, graph_.outside(kValueGradient, keys()));

  Tensor gradient = graph_.inside(scores());
  graph_.multiply(above, value, gradient);
  gradient = like_scores(CUDNN_POINTWISE_SUB, {gradient, products});
  gradient = like_scores(CUDNN_POINTWISE_MUL, {gradient, weight});
  gradient = like_scores(CUDNN_POINTWISE_MUL, {gradient, scale});
  gather(gradient, query, graph_.outside(kKeyGradient, keys()));
  // Directly into the result, not first into sums of float32: those would be summed in the order in
  // which blocks happen to finish; this form of the engines keeps the gradient of scores in work
  // space.
  const Tensor key_rows = graph_.inside(keys(), CUDNN_DATA_BFLOAT16);
  graph_.transpose(key, key_rows);
  graph_.multiply(gradient, key_rows, graph_.outside(kQueryGradient, queries()));
}

}  // namespace

bool Dnn::is_taken(const FusedAttention& attention) const {
  const AttentionSizes& sizes = attention.sizes;
  if (sizes.size % kSizeStep != 0 || sizes.size > kSizeMax) return false;
  if (attention.kind == FusedAttention::Kind::forward) return true;
  if (capability_ >= kCapabilityOfNumberedEngines) return false;
  if (capability_ != kCapabilityOfLargeHeads && sizes.size > kSizeMaxBackward) return false;
  if (sizes.positions == 1) return false;
  return sizes.positions % kBlock == 0 || cudnnGetVersion() >= kVersionOfPartBlocks;
}

Result<std::optional<DnnAttention>> Dnn::prepare(const FusedAttention& attention) {
  const auto known = std::ranges::find_if(known_attentions_, [&](const KnownAttention& one) {
    return one.kind == attention.kind && one.sizes == attention.sizes;
  });
  std::shared_ptr<const DnnPlan> plan;
  if (known != known_attentions_.end()) {
    plan = known->plan;
  } else if (is_taken(attention)) {
    AttentionGraph described(attention.sizes);
    attention.kind == FusedAttention::Kind::forward ? described.forward() : described.backward();
    const auto graph = described.finish(handle_.get());
    if (!graph) return fail(graph.error());
    auto found = best_plan(*graph, true, kWorkspaceMax);
    if (!found) return fail(found.error());
    if (*found) plan = std::make_shared<const DnnPlan>(std::move(**found));
    known_attentions_.push_back({attention.kind, attention.sizes, plan});
  }
  if (!plan) return std::optional<DnnAttention>{};
  std::size_t workspace = plan->workspace;
  if (attention.kind == FusedAttention::Kind::backward) {
    workspace = base::round_up(workspace, kWorkspaceAlignment) +
                attention.sizes.row_count() * sizeof(float);
  }
  return DnnAttention{attention, std::move(plan), workspace};
}

Status Dnn::run(const DnnAttention& attention, void* workspace) const {
  const FusedAttention& a = attention.attention;
  const std::size_t key = a.sizes.heads * a.sizes.size;
  const std::size_t value = key + a.sizes.kv_heads * a.sizes.size;
  const float scale = a.sizes.scale();
  const float hidden = -std::numeric_limits<float>::infinity();
  const float one = 1;
  std::vector<DnnAddress> tensors{{kQuery, a.x},     {kKey, a.x + key},      {kValue, a.x + value},
                                  {kResult, a.y},    {kLogSums, a.log_sums}, {kScale, &scale},
                                  {kHidden, &hidden}};
  if (a.kind == FusedAttention::Kind::backward) {
    const std::byte* const products =
        static_cast<std::byte*>(workspace) +
        base::round_up(attention.plan->workspace, kWorkspaceAlignment);
    tensors.insert(tensors.end(), {{kResultGradient, a.dy},
                                   {kQueryGradient, a.dx},
                                   {kKeyGradient, a.dx + key},
                                   {kValueGradient, a.dx + value},
                                   {kOne, &one},
                                   {kResultProducts, products}});
  }
  return execute(attention.plan->descriptor, tensors, workspace, "attention");
}

}  // namespace starling::compute::cuda
