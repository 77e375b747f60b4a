#include "delta/host_memory.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "base/prefetch.hpp"
#include "base/simulated.hpp"
#include "delta/codec.hpp"
#include "delta/host_passes.hpp"

namespace starling::delta {
namespace {

using base::Result;
using base::Status;
using passes::kBlock;

// That are on their way from memory.
constexpr std::size_t kRunsAhead = 8;

// Adds the part of a delta that lies in the block of `n` elements from `begin` on, from place `at`;
// returns the place after it.
std::size_t apply_block(const Elements& delta, std::size_t at, std::size_t begin, std::size_t n,
                        float* block) {
  for (; at < delta.size() && delta.indices[at] < begin + n; ++at) {
    block[delta.indices[at] - begin] += delta.values[at];
  }
  return at;
}

const Elements& elements_of(const Delta& delta) {
  return static_cast<const HostDelta&>(delta).elements();
}

}  // namespace

HostMemory::HostMemory(base::LargeFloats initial, MirrorType mirrors)
    : mirror_type_(mirrors), y_(std::move(initial)), r_(y_.size(), 0.0F) {}

Mirror& HostMemory::at(MirrorId mirror) {
  const auto found = mirrors_.find(mirror);
  ASSERT(found != mirrors_.end(), "the mirror is there");
  return found->second;
}

// Of a step's link; null without one.
float* HostMemory::momentum_of(const CommitStep& step) {
  if (step.momentum == 0.0F) return nullptr;
  return momenta_.try_emplace(step.mine, size(), 0.0F).first->second.data();
}

Status HostMemory::read(std::span<float> x) {
  ASSERT(x.size() == size());
  passes::add(y_.data(), r_.data(), x.data(), size());
  return {};
}

Status HostMemory::write(std::span<const float> values) {
  ASSERT(values.size() == size());
  std::ranges::copy(values, y_.begin());
  std::ranges::fill(r_, 0.0F);
  return {};
}

Status HostMemory::release() {
  std::ranges::transform(y_, r_, y_.begin(), std::plus<>());
  std::ranges::fill(r_, 0.0F);
  return {};
}

Result<HostMemory::MirrorId> HostMemory::add_mirror(base::LargeFloats values) {
  ASSERT(values.size() == size());
  mirrors_.emplace(next_, Mirror(mirror_type_, std::move(values)));
  return next_++;
}

void HostMemory::free_mirror(MirrorId mirror) {
  momenta_.erase(mirror);
  const auto freed = mirrors_.erase(mirror);
  ASSERT(freed == 1, "the mirror is there");
}

Result<base::LargeFloats> HostMemory::mirror(MirrorId mirror) { return at(mirror).values(); }

Result<std::uint64_t> HostMemory::hash(MirrorId mirror) { return at(mirror).hash(); }

Status HostMemory::values_at(MirrorId mirror, const Delta& elements, std::vector<float>& values) {
  at(mirror).read_at(elements_of(elements).indices, values);
  return {};
}

std::unique_ptr<Delta> HostMemory::make_delta() { return std::make_unique<HostDelta>(); }

DeltaSource& HostMemory::difference(MirrorId mirror, const std::optional<HoldBack>& hold) {
  const MirrorView view = at(mirror).view();
  if (hold) {
    source_.read({.base = y_, .offset = r_, .keep = hold->keep, .gain = hold->gain}, view);
  } else {
    source_.read({.base = y_, .offset = r_, .mirror = view});
  }
  return source_;
}

Result<bool> HostMemory::decode(const CodedDelta& coded, Delta& into) {
  return delta::decode(coded, size(), static_cast<HostDelta&>(into).elements());
}

Result<Squares> HostMemory::squares(MirrorId mirror, std::size_t first, std::size_t every) {
  const Mirror& of = at(mirror);
  const std::size_t step = every * kRun;
  passes::Squares sums;
  Mirror::Room room;
  for (std::size_t begin = first * kRun; begin < size(); begin += step) {
    const std::size_t run = std::min(kRun, size() - begin);
    const std::size_t ahead = begin + kRunsAhead * step;
    for (const float* vector : {y_.data(), r_.data()}) {
      base::prefetch(vector, ahead * sizeof(float), kRun * sizeof(float));
    }
    of.view().prefetch(ahead, kRun);
    passes::add_squares(y_.data() + begin, r_.data() + begin, of.read(begin, run, room), run, sums);
  }
  return Squares{.away = std::accumulate(std::begin(sums.away), std::end(sums.away), 0.0),
                 .norm = std::accumulate(std::begin(sums.norm), std::end(sums.norm), 0.0)};
}

// With r as it is, y moves as x does.
Status HostMemory::commit(std::span<const CommitStep> steps) {
  struct Cursor {
    const CommitStep* step;
    const Elements* own_delta;
    const Elements* their_delta;
    Mirror* mine;
    Mirror* theirs;
    float* momentum;
    std::size_t own = 0;
    std::size_t their = 0;
  };
  std::array<Cursor, kStepsMax> cursors;
  ASSERT(steps.size() <= cursors.size());
  std::ranges::transform(steps, cursors.begin(), [this](const CommitStep& step) {
    return Cursor{.step = &step,
                  .own_delta = &elements_of(*step.own),
                  .their_delta = &elements_of(*step.their),
                  .mine = &at(step.mine),
                  .theirs = &at(step.theirs),
                  .momentum = momentum_of(step)};
  });
  Mirror::Room rooms[2];
  Mirror::Room before;
  Mirror::Room lost{};
  for (std::size_t begin = 0; begin < size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, size() - begin);
    float* const y = SIM_BUG(step_not_applied) ? lost.data() : y_.data() + begin;
    for (Cursor& at : std::span(cursors).first(steps.size())) {
      const CommitStep& step = *at.step;
      float* const mine = at.mine->take(begin, n, rooms[0]);
      float* const theirs = at.theirs->take(begin, n, rooms[1]);
      if (at.momentum != nullptr) passes::agree(mine, theirs, step.parts, before.data(), n);
      at.own = apply_block(*at.own_delta, at.own, begin, n, mine);
      if (!SIM_BUG(mirror_of_theirs_forgotten)) {
        at.their = apply_block(*at.their_delta, at.their, begin, n, theirs);
      }
      if (at.momentum != nullptr) {
        passes::carry_on(at.momentum + begin, before.data(), mine, theirs, y, step, n);
      }
      if (mirror_type_ == MirrorType::float32) {
        passes::average(y, mine, theirs, step, n);
      } else {
        passes::average_halves(y, mine, theirs, step,
                               {.mine = at.mine->half(begin),
                                .theirs = at.theirs->half(begin),
                                .seed = step.draw,
                                .first = static_cast<std::uint32_t>(begin)},
                               n);
      }
    }
  }
  return {};
}

}  // namespace starling::delta
