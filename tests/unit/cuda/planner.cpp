#include "cuda/plans/planner.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/integer.hpp"
#include "tests/unit/compute/networks.hpp"

using namespace starling;
using namespace starling::compute;
using namespace starling::compute::cuda;

namespace {

using compute::testing::need;

constexpr std::uint32_t kBatch = 8;

/// Two blocks of attention with only the layers that belong to it.
Graph transformer() {
  auto builder = need(GraphBuilder::start_tokens(64, 50));
  need(builder.embedding(32));
  for (int i = 0; i < 2; ++i) {
    const ValueId input = builder.value();
    need(builder.linear(96));
    need(builder.attention(4, 4));
    need(builder.linear(32));
    need(builder.add(input));
  }
  need(builder.linear(50));
  return need(std::move(builder).finish(50));
}

struct Asked {
  std::vector<FusedAttention> questions;
  std::size_t bytes = 0;              ///< of the arena
  std::vector<FusedAttention> calls;  ///< in training
};

Asked plan(bool rounds, bool answer, std::size_t score_bytes = kScoreBytes) {
  Asked asked;
  const Graph graph = transformer();
  const auto fuses = [&](const FusedAttention& attention) {
    asked.questions.push_back(attention);
    return answer;
  };
  const Plan made = Planner(graph, kBatch, rounds, fuses, score_bytes).plan();
  const ArenaPlan arena = made.arena();
  asked.bytes = arena.bytes;
  std::vector<std::byte> memory(arena.bytes);
  const Addresses addresses(memory.data(), arena.offsets);
  for (const Call& call : made.training) {
    const auto what = call.make(addresses);
    if (const auto* attention = std::get_if<FusedAttention>(&what)) {
      asked.calls.push_back(*attention);
    }
  }
  return asked;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_planner)

BOOST_AUTO_TEST_CASE(attention_in_one_call_takes_less_memory) {
  const Asked without = plan(true, false);
  const Asked with = plan(true, true);
  BOOST_TEST(without.calls.empty());
  BOOST_TEST(with.calls.size() == 4U);
  BOOST_TEST(with.bytes < without.bytes);
}

BOOST_AUTO_TEST_CASE(backward_takes_a_few_samples_at_a_time_where_scores_are_large) {
  constexpr std::size_t kSample = 4 * 64 * 64 * sizeof(std::uint16_t);
  const Asked asked = plan(true, true, 3 * kSample);
  BOOST_TEST_REQUIRE(asked.calls.size() == 2U * (1 + 3));
  for (const FusedAttention& question : asked.questions) {
    const bool forward = question.kind == FusedAttention::Kind::forward;
    const std::size_t samples = question.sizes.samples;
    BOOST_TEST((forward ? samples == kBatch : samples == 3 || samples == 2));
  }
  // Forward of both blocks, then backward of the second: 3, 3 and 2 samples one behind the other.
  const FusedAttention& forward = asked.calls[1];
  const FusedAttention& first = asked.calls[2];
  BOOST_TEST(first.x == forward.x);
  BOOST_TEST(first.log_sums == forward.log_sums);
  for (const std::size_t part : {1, 2}) {
    const FusedAttention& one = asked.calls[2 + part];
    const std::size_t positions = 3 * part * 64;
    BOOST_TEST(one.sizes.samples == (part == 1 ? 3U : 2U));
    BOOST_TEST(one.x == first.x + positions * 96);
    BOOST_TEST(one.dx == first.dx + positions * 96);
    BOOST_TEST(one.y == first.y + positions * 32);
    BOOST_TEST(one.dy == first.dy + positions * 32);
    BOOST_TEST(one.log_sums == first.log_sums + positions * 4);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_rounded_factors_begin_at_multiples_of_16_bytes) {
  auto builder = need(GraphBuilder::start_tokens(6, 51));
  need(builder.embedding(12));
  need(builder.linear(20));
  need(builder.linear(51));
  const Graph graph = need(std::move(builder).finish(51));
  for (const bool rounds : {false, true}) {
    const Plan made =
        Planner(graph, kBatch, rounds, [](const FusedAttention&) { return false; }).plan();
    const ArenaPlan arena = made.arena();
    std::vector<std::byte> memory(arena.bytes);
    const Addresses addresses(memory.data(), arena.offsets);
    std::size_t products = 0;
    for (const Call& call : made.training) {
      const auto what = call.make(addresses);
      const auto* const gemm = std::get_if<Gemm>(&what);
      if (gemm == nullptr) continue;
      ++products;
      const std::size_t left = gemm->left.turned ? gemm->rows : gemm->depth;
      const std::size_t right = gemm->right.turned ? gemm->depth : gemm->columns;
      BOOST_TEST(gemm->left.stride == (rounds ? base::round_up(left, 8) : left));
      BOOST_TEST(gemm->right.stride == (rounds ? base::round_up(right, 8) : right));
    }
    BOOST_TEST(products == 6U);
  }
}

BOOST_AUTO_TEST_CASE(of_a_rounded_transformer_only_parameters_are_converted_and_no_kernel_adds) {
  auto builder = need(GraphBuilder::start_tokens(64, 50));
  need(builder.embedding(32));
  need(builder.positions());
  for (int i = 0; i < 2; ++i) {
    const ValueId input = builder.value();
    need(builder.layer_norm());
    need(builder.linear(96));
    need(builder.attention(4, 4));
    need(builder.linear(32));
    need(builder.dropout(0));
    need(builder.add(input));
    const ValueId middle = builder.value();
    need(builder.layer_norm());
    need(builder.linear(128));
    need(builder.activation(ActivationKind::gelu));
    need(builder.linear(32));
    need(builder.add(middle));
  }
  need(builder.layer_norm());
  need(builder.tied_linear());
  const Graph graph = need(std::move(builder).finish(50));
  const Plan made = Planner(graph, kBatch, true, [](const FusedAttention&) { return true; }).plan();
  const ArenaPlan arena = made.arena();
  std::vector<std::byte> memory(arena.bytes);
  const Addresses addresses(memory.data(), arena.offsets);
  const float* const parameters = addresses.at(made.parameters);
  std::size_t conversions = 0;
  for (const Call& call : made.training) {
    const auto what = call.make(addresses);
    const auto* const work = std::get_if<KernelWork>(&what);
    if (work == nullptr) continue;
    BOOST_TEST(!std::holds_alternative<Sum>(work->kernel));
    const auto* const convert = std::get_if<Convert>(&work->kernel);
    if (convert == nullptr) continue;
    ++conversions;
    const auto* const from = static_cast<const float*>(convert->x.data);
    BOOST_TEST((from >= parameters && from < parameters + made.parameters.count));
  }
  // Four weights a block, and the biases that lead to attention and activation.
  BOOST_TEST(conversions == 2U * (4 + 2));
}

BOOST_AUTO_TEST_CASE(single_precision_asks_for_no_attention_in_one_call) {
  const Asked asked = plan(false, true);
  BOOST_TEST(asked.questions.empty());
  BOOST_TEST(asked.calls.empty());
}

BOOST_AUTO_TEST_SUITE_END()
