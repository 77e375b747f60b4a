// The calls of a device replica's steps to its queue; tests/conformance checks their results.
#include "compute/resident.hpp"

#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/unit/compute/networks.hpp"

using namespace starling;
using namespace starling::compute;

namespace {

using compute::testing::need;
using cuda_on_cpu::Calls;

constexpr std::uint32_t kPiece = 2;
constexpr Update kUpdate{.clip = 1, .sgd = {.lr = 0.1F, .momentum = 0.9F}, .adamw = {}};

Graph layers(bool with_buffers) {
  auto builder = need(GraphBuilder::start({3}));
  need(builder.linear(4));
  if (with_buffers) need(builder.batch_norm());
  need(builder.linear(2));
  return need(std::move(builder).finish(2));
}

/// A replica that counts its steps' calls.
class Counted {
 public:
  explicit Counted(const Graph& graph, bool accumulates = false,
                   const cuda_on_cpu::Faults& faults = {})
      : samples_(graph, kBatch, rng_),
        buffers_(graph.buffer_count, 1.0F),
        program_(
            need(cuda_on_cpu::make_backend(&calls_, faults)->compile(graph, {.batch = kPiece}))),
        resident_(
            need(program_->move_to_device({.update = UpdateKind::sgd,
                                           .accumulates = accumulates,
                                           .decays = std::vector<bool>(graph.tensors.size())}))) {
    BOOST_REQUIRE(resident_ != nullptr);
  }

  /// The calls of a step of this many pieces.
  Calls step(std::size_t pieces, bool tells_next = false) {
    const float share = 1.0F / static_cast<float>(pieces);
    std::vector<Piece> parts;
    for (std::size_t i = 0; i < pieces; ++i) {
      parts.push_back({.batch = samples_.view(i * kPiece, kPiece), .share = share, .seed = i});
    }
    const Batch next = samples_.view(0, kPiece);
    calls_ = {};
    need(resident_->step(buffers_, parts, kUpdate, tells_next ? &next : nullptr));
    return calls_;
  }

 private:
  static constexpr std::size_t kBatch = 3 * kPiece;

  base::Rng rng_{71};
  Calls calls_;
  compute::testing::OwnedBatch samples_;
  std::vector<float> buffers_;
  std::unique_ptr<Program> program_;
  Resident* resident_;
};

void check(const Calls& calls, const Calls& expected) {
  BOOST_TEST(calls.lists == expected.lists);
  BOOST_TEST(calls.kernels == expected.kernels);
  BOOST_TEST(calls.waits == expected.waits);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resident)

BOOST_AUTO_TEST_CASE(a_step_is_one_list_of_work_and_waits_once) {
  Counted counted(layers(false));
  for (const bool tells_next : {true, false, true}) {
    check(counted.step(1, tells_next), {.lists = 1, .kernels = 0, .waits = 1});
  }
}

BOOST_AUTO_TEST_CASE(buffers_come_back_in_another_copy) {
  Counted counted(layers(true));
  check(counted.step(1), {.lists = 1, .kernels = 0, .waits = 2});
}

BOOST_AUTO_TEST_CASE(a_step_of_several_pieces_is_a_list_a_piece_and_waits_once) {
  Counted counted(layers(false), true);
  check(counted.step(3), {.lists = 3, .kernels = 0, .waits = 1});
  check(counted.step(2, true), {.lists = 2, .kernels = 0, .waits = 1});
  check(counted.step(1), {.lists = 1, .kernels = 0, .waits = 1});
}

BOOST_AUTO_TEST_CASE(a_batch_ahead_that_has_no_room_is_seldom_asked_for) {
  // Inputs and labels of a batch take 256 bytes each there, and no other piece as much.
  Counted counted(layers(false), false, {.piece_max = 511});
  std::size_t asked = 0;
  for (int step = 0; step < 250; ++step) asked += counted.step(1, true).allocations;
  BOOST_TEST(asked == 3U);
}

BOOST_AUTO_TEST_CASE(room_for_a_batch_ahead_is_asked_for_once_where_there_is_some) {
  Counted counted(layers(false), false, {.piece_max = 512});
  BOOST_TEST(counted.step(1, true).allocations == 1U);
  BOOST_TEST(counted.step(1, true).allocations == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
