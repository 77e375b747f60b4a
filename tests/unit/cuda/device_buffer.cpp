// Memory of a device that is nearly full.
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
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

Graph layer(std::uint32_t side = 100) {
  auto builder = need(GraphBuilder::start({side}));
  need(builder.linear(side));
  return need(std::move(builder).finish(side));
}

/// A replica on a device with too little memory.
struct Nearly {
  explicit Nearly(const cuda_on_cpu::Faults& faults, const Graph& graph = layer())
      : program(need(cuda_on_cpu::make_backend(nullptr, faults)->compile(graph, {.batch = 1}))),
        memory(need(program->move_to_device({.decays = {false, false}}))->replica()) {}

  std::unique_ptr<Program> program;
  delta::ReplicaMemory& memory;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_device_buffer)

BOOST_AUTO_TEST_CASE(room_that_cannot_grow_by_half_is_as_large_as_needed) {
  constexpr std::size_t kCount = 8192;  // lists of it have no gaps behind them
  Nearly nearly({.piece_max = kCount * kElement});
  const auto delta = nearly.memory.make_delta();
  BOOST_TEST(need(delta->reserve(kCount)) == kCount * kElement);
  BOOST_TEST(need(delta->reserve(kCount / 2)) == kCount * kElement);
  BOOST_TEST(delta->size() == 0U);
  const auto other = nearly.memory.make_delta();
  BOOST_TEST(need(other->reserve(kCount / 2)) == kCount * kElement * 3 / 4);
  const auto refused = other->reserve(kCount + 64);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == base::ErrorCode::no_room));
}

BOOST_AUTO_TEST_CASE(deltas_do_not_take_what_is_kept_free) {
  std::size_t reserve = 4096;
  Nearly nearly({.room = 500'000, .reserve = &reserve});
  std::vector<std::unique_ptr<delta::Delta>> deltas;
  base::Result<std::size_t> taken;
  while (taken) {
    deltas.push_back(nearly.memory.make_delta());
    taken = deltas.back()->reserve(32);
  }
  BOOST_TEST((taken.error().code == base::ErrorCode::no_room));
  reserve = 0;
  BOOST_TEST(deltas.back()->reserve(32).has_value());
}

BOOST_AUTO_TEST_CASE(what_cannot_grow_keeps_what_it_had_though_the_reserve_is_in_use) {
  std::size_t reserve = 0;
  Nearly nearly({.room = 500'000, .reserve = &reserve});
  const auto delta = nearly.memory.make_delta();
  const std::size_t had = need(delta->reserve(1000));
  reserve = 500'000;
  BOOST_TEST(!delta->reserve(2000).has_value());
  BOOST_TEST(need(delta->reserve(1000)) == had);
}

BOOST_AUTO_TEST_CASE(what_is_reserved_for_deltas_is_enough_to_make_and_commit_them) {
  const std::size_t size = layer().parameter_count;
  Nearly nearly({});
  delta::ReplicaMemory& memory = nearly.memory;
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  need(memory.write(values));
  const auto mine = need(memory.add_mirror(base::LargeFloats(size)));
  const auto theirs = need(memory.add_mirror(base::LargeFloats(size)));
  const std::size_t count = size / 10;
  const std::size_t reserved = need(memory.reserve(count, size, false));
  const auto delta = memory.make_delta();
  base::Bytes bytes;
  constexpr delta::ReplicaMemory::HoldBack kHold{.keep = 0.5F, .gain = 0.5F};
  delta::DeltaSource& source = memory.difference(mine, kHold);
  const delta::Choice choice =
      need(source.choose({.count = count, .limit = 1e30F, .room = size}, {}));
  BOOST_TEST(choice.count == count);
  need(source.code({.odd = 1, .shift = 3, .bits = 8, .block = 128}, bytes, *delta));
  need(memory.commit(std::vector<delta::ReplicaMemory::CommitStep>{
      {.mine = mine, .theirs = theirs, .own = delta.get(), .their = delta.get(), .w = 0.5F}}));
  // Nothing of it has grown; the room of the chosen elements has gone to the delta.
  BOOST_TEST(need(memory.reserve(1, 1, false)) <= reserved);
}

BOOST_AUTO_TEST_CASE(a_link_whose_momentum_has_no_room_is_as_it_was) {
  const std::size_t size = layer().parameter_count;
  // The vectors of a replica and two mirrors, and half of one.
  Nearly nearly({.room = 9 * size * sizeof(float) / 2});
  delta::ReplicaMemory& memory = nearly.memory;
  const auto mine = need(memory.add_mirror(base::LargeFloats(size)));
  const auto theirs = need(memory.add_mirror(base::LargeFloats(size)));
  const auto nothing = memory.make_delta();
  delta::ReplicaMemory::CommitStep step{
      .mine = mine, .theirs = theirs, .own = nothing.get(), .their = nothing.get(), .w = 0.5F};
  BOOST_TEST(memory.reserve_commit(step).has_value());
  step.momentum = 0.5F;
  const auto refused = memory.reserve_commit(step);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == base::ErrorCode::no_room));
  BOOST_TEST(refused.error().text.find("a link's momentum") != std::string::npos);
  BOOST_TEST(refused.error().text.find("exchange.momentum") != std::string::npos);
  // Where a neighbour's link is closed, there is room again.
  const auto other = memory.add_mirror(base::LargeFloats(size));
  BOOST_TEST(!other.has_value());
  memory.free_mirror(theirs);
  BOOST_TEST(memory.reserve_commit(step).has_value());
  memory.free_mirror(mine);
  BOOST_TEST(memory.add_mirror(base::LargeFloats(size)).has_value());
  BOOST_TEST(memory.add_mirror(base::LargeFloats(size)).has_value());
}

BOOST_AUTO_TEST_CASE(a_delta_of_a_neighbour_that_does_not_fit_leaves_room_for_those_that_do) {
  // The vectors of a replica, two mirrors, and deltas of a tenth; not one of all elements.
  const std::size_t size = layer().parameter_count;
  const std::size_t vector = size * sizeof(float);
  Nearly nearly({.room = 4 * vector + 2 * size * kElement});
  delta::ReplicaMemory& memory = nearly.memory;
  need(memory.add_mirror(base::LargeFloats(size)));
  need(memory.add_mirror(base::LargeFloats(size)));
  const auto coded = [](std::size_t count, const base::Bytes& bytes) {
    // Gaps of zero in one bit, levels of one bit, and one scale.
    const auto at = base::ByteView(bytes);
    const std::size_t starts = (count - 1) / delta::kCodesPerRun * sizeof(std::uint32_t);
    const std::size_t codes = (count + 7) / 8;
    return delta::CodedDelta{.coding = {.odd = 1, .shift = 0, .bits = 1, .block = 65535},
                             .count = count,
                             .starts = at.subspan(0, starts),
                             .codes = at.subspan(starts, codes),
                             .scales = at.subspan(starts + codes, sizeof(float)),
                             .values = at.subspan(starts + codes + sizeof(float))};
  };
  const auto bytes_of = [](std::size_t count) {
    base::Bytes bytes;
    const auto append = [&](const auto& value) {
      const auto more = std::as_bytes(std::span(&value, 1));
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    for (std::uint32_t run = 1; run * delta::kCodesPerRun < count; ++run) {
      append(static_cast<std::uint32_t>(run * delta::kCodesPerRun));
    }
    for (std::size_t i = 0; i < count; i += 8) {
      append(static_cast<std::uint8_t>(count - i < 8 ? (1U << (count - i)) - 1 : 0xffU));
    }
    append(1.0F);
    bytes.resize(bytes.size() + (count + 7) / 8);
    return bytes;
  };
  const base::Bytes few = bytes_of(size / 10);
  const base::Bytes all = bytes_of(size);
  const auto delta = memory.make_delta();
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST(need(memory.decode(coded(size / 10, few), *delta)));
    BOOST_TEST(delta->size() == size / 10);
    const auto other = memory.make_delta();
    BOOST_TEST(need(other->reserve(size)) > 0U);
    const auto refused = memory.decode(coded(size, all), *delta);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == base::ErrorCode::no_room));
  }
  // Where it fits, it does not stay.
  BOOST_TEST(need(memory.decode(coded(size, all), *delta)));
  delta->free_beyond(size / 5);
  BOOST_TEST(delta->size() == 0U);
  const auto other = memory.make_delta();
  BOOST_TEST(need(other->reserve(size)) > 0U);
  BOOST_TEST(!memory.decode(coded(size, all), *delta).has_value());
}

BOOST_AUTO_TEST_CASE(an_estimate_of_the_drift_needs_no_room) {
  // More runs than are taken at once.
  std::size_t reserve = 0;
  Nearly nearly({.reserve = &reserve}, layer(800));
  delta::ReplicaMemory& memory = nearly.memory;
  const std::size_t size = memory.size();
  const auto mirror = need(memory.add_mirror(base::LargeFloats(size, 1.0F)));
  need(memory.write(std::vector<float>(size, 3.0F)));
  reserve = ~std::size_t{0};
  BOOST_TEST(!memory.add_mirror(base::LargeFloats(size)).has_value());
  for (const std::size_t every : {1, 2}) {
    const delta::Squares squares = need(memory.squares(mirror, 1, every));
    double count = 0;
    for (std::size_t at = delta::ReplicaMemory::kRun; at < size;
         at += every * delta::ReplicaMemory::kRun) {
      count += static_cast<double>(std::min(delta::ReplicaMemory::kRun, size - at));
    }
    BOOST_TEST(squares.away == 4 * count);
    BOOST_TEST(squares.norm == 9 * count);
  }
}

BOOST_AUTO_TEST_CASE(why_steps_are_not_recorded_is_told) {
  BOOST_TEST(!Nearly({}).program->slow_steps().has_value());
  const Nearly nearly({.recording = "no capture"});
  const auto why = nearly.program->slow_steps();
  BOOST_REQUIRE(why.has_value());
  BOOST_TEST(why->find("no capture") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
