#include "compute/arena.hpp"

#include <cstdint>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling;
using namespace starling::compute;

BOOST_AUTO_TEST_SUITE(arena)

BOOST_AUTO_TEST_CASE(buffers_that_live_together_never_overlap) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      std::vector<Lifetime> lives(1 + rng.below(40));
      for (Lifetime& life : lives) {
        life.bytes = rng.below(1000);
        life.first = rng.below(20);
        life.last = life.first + rng.below(10);
      }
      const ArenaPlan plan = plan_arena(lives);
      for (std::size_t i = 0; i < lives.size(); ++i) {
        BOOST_TEST(plan.offsets[i] % kArenaAlignment == 0U);
        BOOST_TEST(plan.offsets[i] + lives[i].bytes <= plan.bytes);
        for (std::size_t j = 0; j < i; ++j) {
          const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
          const bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                             plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
          BOOST_TEST((!together || apart));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(buffers_that_follow_each_other_share_their_bytes) {
  const std::vector<Lifetime> lives{{640, 0, 1}, {640, 2, 3}, {128, 1, 2}};
  BOOST_TEST(plan_arena(lives).bytes == 640U + 128U);
}

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_zeroed) {
  Arena arena(1000);
  BOOST_REQUIRE(arena.data() != nullptr);
  BOOST_TEST(arena.size() == 1024U);
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(arena.data()) % kArenaAlignment == 0U);
  for (std::size_t i = 0; i < arena.size(); ++i) BOOST_TEST((arena.data()[i] == std::byte{0}));
}

BOOST_AUTO_TEST_SUITE_END()
