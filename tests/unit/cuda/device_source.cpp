// How often the host waits, and asks for memory, for deltas that are made and taken on a device.
// That their bytes are right is the conformance suite's claim.
#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "compute/program.hpp"
#include "compute/resident.hpp"
#include "delta/codec.hpp"
#include "tests/cuda_on_cpu/backend.hpp"
#include "tests/unit/compute/networks.hpp"
#include "tests/unit/delta/vectors.hpp"

namespace starling::compute::cuda {
namespace {

using compute::testing::need;
using cuda_on_cpu::Calls;

constexpr std::uint32_t kSide =
    300;  // of a layer: enough elements for their threshold to be guessed

Graph layer() {
  auto builder = need(GraphBuilder::start({kSide}));
  need(builder.linear(kSide));
  return need(std::move(builder).finish(kSide));
}

struct Counting {
  Counting()
      : program(need(cuda_on_cpu::make_backend(&calls)->compile(layer(), {.batch = 1}))),
        memory(need(program->move_to_device({.decays = {false, false}}))->replica()),
        mirror(need(memory.add_mirror(base::LargeFloats(memory.size())))),
        made(memory.make_delta()),
        taken(memory.make_delta()) {}

  void encode(const std::vector<float>& x) {
    need(memory.write(x));
    calls = {};
    auto& source =
        memory.difference(mirror, delta::ReplicaMemory::HoldBack{.keep = 0.5F, .gain = 0.5F});
    need(delta::encode(source, {.density = 0.1}, scratch, bytes, *made));
  }
  void decode() {
    calls = {};
    const auto shape = need(delta::check(bytes, memory.size()));
    need(delta::decode(shape, memory, *taken));
  }

  Calls calls;
  std::unique_ptr<Program> program;
  delta::ReplicaMemory& memory;
  delta::ReplicaMemory::MirrorId mirror;
  std::unique_ptr<delta::Delta> made;
  std::unique_ptr<delta::Delta> taken;
  delta::Scratch scratch;
  base::Bytes bytes;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_device_source)

BOOST_AUTO_TEST_CASE(the_host_waits_twice_for_a_delta_that_is_made_and_once_for_one_that_came) {
  base::Rng rng(81);
  Counting counting;
  const std::size_t n = counting.memory.size();
  for (int round = 0; round < 3; ++round) {
    counting.encode(delta::test::normals(n, rng));
    BOOST_TEST(counting.made->size() == delta::count_for(0.1, n));
    BOOST_TEST(counting.calls.waits == 2U);
    // Two lists of elements go around.
    if (round == 2) BOOST_TEST(counting.calls.allocations == 0U);
    counting.decode();
    BOOST_TEST(counting.taken->size() == counting.made->size());
    BOOST_TEST(counting.calls.waits == 1U);
    if (round > 0) BOOST_TEST(counting.calls.allocations == 0U);
  }
}

BOOST_AUTO_TEST_CASE(where_one_pass_does_not_find_enough_the_host_waits_once_more) {
  Counting counting;
  counting.encode(std::vector<float>(counting.memory.size(), 1.0F));
  BOOST_TEST(counting.made->size() == delta::count_for(0.1, counting.memory.size()));
  BOOST_TEST(counting.calls.waits == 3U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace starling::compute::cuda
