#include "compute/arena.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

#include "base/integer.hpp"
#include "base/large_vector.hpp"

namespace starling::compute {

namespace {

std::size_t aligned(std::size_t bytes) { return base::round_up(bytes, kArenaAlignment); }

bool together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  ArenaPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const std::size_t bytes = aligned(lifetimes[index].bytes);
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (!together(lifetimes[index], lifetimes[other])) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(lifetimes[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto place = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t other) { return plan.offsets[other]; });
    placed.insert(place, index);
  }
  return plan;
}

Arena::Arena(std::size_t bytes) {
  const std::size_t size = std::max(aligned(bytes), kArenaAlignment);
  const bool large = size >= base::kLargeBytes;
  try {
    void* const memory =
        large ? base::allocate_large(size) : std::aligned_alloc(kArenaAlignment, size);
    memory_ = {static_cast<std::byte*>(memory), large ? &base::free_large : &std::free};
  } catch (const std::bad_alloc&) {
    return;
  }
  if (memory_ == nullptr) return;
  std::memset(memory_.get(), 0, size);
  size_ = size;
}

}  // namespace starling::compute
