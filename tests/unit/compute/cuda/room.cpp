// Memory of a device that is nearly full.
#include <memory>
#include <numeric>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "compute/resident.hpp"
#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/unit/compute/networks.hpp"

using namespace starling;
using namespace starling::compute;

namespace {

using compute::testing::need;

constexpr std::size_t kElement = 8;  ///< bytes: index and value

Graph layer() {
  auto builder = need(GraphBuilder::start({100}));
  need(builder.linear(100));
  return need(std::move(builder).finish(100));
}

/// A replica on a device without larger pieces of memory.
struct Nearly {
  explicit Nearly(std::size_t piece_max)
      : program(
            need(cuda_on_cpu::make_backend(nullptr, piece_max)->compile(layer(), {.batch = 1}))),
        memory(need(program->reside({.decays = {false, false}}))->replica()) {}

  std::unique_ptr<Program> program;
  ReplicaMemory& memory;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_room)

BOOST_AUTO_TEST_CASE(room_that_cannot_grow_by_half_is_as_large_as_needed) {
  constexpr std::size_t kCount = 8192;  // lists of it have no gaps behind them
  Nearly nearly(kCount * kElement);
  const auto delta = nearly.memory.make_delta();
  BOOST_TEST(need(delta->reserve(kCount)) == kCount * kElement);
  BOOST_TEST(need(delta->reserve(kCount / 2)) == kCount * kElement);
  BOOST_TEST(delta->size() == 0U);
  const auto other = nearly.memory.make_delta();
  BOOST_TEST(need(other->reserve(kCount / 2)) == kCount * kElement * 3 / 4);
  const auto refused = other->reserve(kCount + 64);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == base::ErrorCode::device));
}

BOOST_AUTO_TEST_CASE(what_is_reserved_for_deltas_is_enough_to_make_and_commit_them) {
  const std::size_t size = layer().parameter_count;
  Nearly nearly(~std::size_t{0});
  ReplicaMemory& memory = nearly.memory;
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  need(memory.write(values));
  const auto mine = need(memory.add_mirror(base::LargeFloats(size)));
  const auto theirs = need(memory.add_mirror(base::LargeFloats(size)));
  const std::size_t count = size / 10;
  const std::size_t reserved = need(memory.reserve(count, size));
  const auto delta = memory.make_delta();
  base::Buffer bytes;
  constexpr ReplicaMemory::HoldBack kHold{.keep = 0.5F, .gain = 0.5F};
  DeltaSource& source = memory.difference(mine, kHold);
  BOOST_TEST(need(source.find(1, size)) == size);
  BOOST_TEST(need(source.choose(DeltaSource::Among::all, count, 1e30F)).count == count);
  need(source.code({.odd = 1, .shift = 3, .bits = 8, .block = 128}, bytes, *delta));
  need(memory.release_sent(*delta, kHold.gain));
  need(memory.commit(std::vector<ReplicaMemory::CommitStep>{
      {.mine = mine, .theirs = theirs, .own = delta.get(), .their = delta.get(), .w = 0.5F}}));
  // Nothing of it has grown; room of what was chosen has gone to the delta.
  BOOST_TEST(need(memory.reserve(1, 1)) <= reserved);
}

BOOST_AUTO_TEST_SUITE_END()
