#include "cuda/device/device_replica.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/hasher.hpp"
#include "base/integer.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

/// For squares(): more runs are handled one part after another, in memory that is always there.
constexpr std::size_t kRunsAtOnce = 8192;
constexpr std::size_t kSumsOfRun = 2;

DeviceElements view_of(const delta::Delta& delta) {
  return static_cast<const DeviceDelta&>(delta).view();
}

}  // namespace

Result<std::unique_ptr<DeviceReplica>> DeviceReplica::create(Queue& queue, std::size_t size,
                                                             delta::MirrorType mirrors) {
  std::unique_ptr<DeviceReplica> replica(new DeviceReplica(queue, size, mirrors));
  if (auto reserved = replica->reserve(); !reserved) return fail(reserved.error());
  return replica;
}

Status DeviceReplica::reserve() {
  for (Block* block : {&y_, &r_}) {
    auto reserved = allocate(size_ * sizeof(float), "the replica's parameters");
    if (!reserved) return fail(reserved.error());
    *block = std::move(*reserved);
  }
  const std::size_t runs = std::min(base::ceil_div(size_, kRun), kRunsAtOnce);
  auto reserved = allocate(runs * kSumsOfRun * sizeof(double), "an estimate of the drift");
  if (!reserved) return fail(reserved.error());
  sums_ = std::move(*reserved);
  return {};
}

Result<DeviceReplica::Block> DeviceReplica::allocate(std::size_t bytes, const char* what) {
  auto memory = queue_.allocate(bytes, what, Queue::Reserve::kept);
  if (!memory) return fail(memory.error());
  return Block{std::move(*memory), bytes};
}

std::byte* DeviceReplica::at(MirrorId mirror) const {
  const auto found = mirrors_.find(mirror);
  ASSERT(found != mirrors_.end(), "the mirror is there");
  return found->second.memory.get();
}

template <class M>
MirrorDifference<M> DeviceReplica::difference_to(MirrorId mirror) {
  return {y(), r(), reinterpret_cast<const M*>(at(mirror))};
}

// Bytes of one mirror.
std::size_t DeviceReplica::mirror_bytes() const noexcept {
  return size_ *
         (mirror_type_ == delta::MirrorType::float32 ? sizeof(float) : sizeof(base::BFloat16));
}

template <class Use>
auto DeviceReplica::by_type(Use&& use) const {
  return mirror_type_ == delta::MirrorType::float32 ? use(float{}) : use(std::uint16_t{});
}

std::size_t DeviceReplica::memory_bytes() const noexcept {
  std::size_t bytes =
      y_.bytes + r_.bytes + sums_.bytes + source_.memory_bytes() + aside_.bytes() + read_.bytes();
  for (const auto* const blocks : {&mirrors_, &momenta_}) {
    for (const auto& [id, block] : *blocks) bytes += block.bytes;
  }
  return bytes;
}

Status DeviceReplica::read(std::span<float> x) {
  ASSERT(x.size() == size_);
  if (auto copied = copy_out(queue_, y(), x); !copied) return copied;
  return queue_.copy_out(reinterpret_cast<const std::byte*>(r()), x.size_bytes(),
                         [&](std::size_t offset, std::span<const std::byte> bytes) {
                           float* const to = x.data() + offset / sizeof(float);
                           for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
                             float r = 0;
                             std::memcpy(&r, bytes.data() + i * sizeof r, sizeof r);
                             to[i] += r;
                           }
                         });
}

Status DeviceReplica::write(std::span<const float> values) {
  ASSERT(values.size() == size_);
  if (auto copied = copy_in(queue_, y(), values); !copied) return copied;
  return queue_.clear(r_.memory.get(), size_ * sizeof(float));
}

Status DeviceReplica::release() { return queue_.run(KernelWork{Release{y(), r(), size_}, size_}); }

Result<DeviceReplica::MirrorId> DeviceReplica::add_mirror(base::LargeFloats values) {
  ASSERT(values.size() == size_);
  auto block = allocate(mirror_bytes(), "a link's mirror");
  if (!block) return fail(block.error().in("lower swarm.degree, or set exchange.mirror to bf16"));
  const auto copied = copy_in_mirror(block->memory.get(), values);
  if (!copied) return fail(copied.error());
  mirrors_.emplace(next_, std::move(*block));
  return next_++;
}

Status DeviceReplica::copy_in_mirror(std::byte* to, const base::LargeFloats& values) {
  if (mirror_type_ == delta::MirrorType::float32) {
    return copy_in(queue_, to, std::span<const float>(values));
  }
  base::LargeVector<base::BFloat16> halves(size_);
  base::narrow(values, halves);
  return copy_in(queue_, to, std::span<const base::BFloat16>(halves));
}

void DeviceReplica::free_mirror(MirrorId mirror) {
  momenta_.erase(mirror);
  const auto freed = mirrors_.erase(mirror);
  ASSERT(freed == 1, "the mirror is there");
}

Result<base::LargeFloats> DeviceReplica::mirror(MirrorId mirror) {
  base::LargeFloats values(size_);
  if (mirror_type_ == delta::MirrorType::float32) {
    if (auto copied = copy_out(queue_, at(mirror), std::span(values)); !copied) {
      return fail(copied.error());
    }
    return values;
  }
  base::LargeVector<base::BFloat16> halves(size_);
  if (auto copied = copy_out(queue_, at(mirror), std::span(halves)); !copied) {
    return fail(copied.error());
  }
  base::widen(halves, values);
  return values;
}

Result<std::uint64_t> DeviceReplica::hash(MirrorId mirror) {
  base::Hasher hasher;
  const auto copied =
      queue_.copy_out(static_cast<const std::byte*>(at(mirror)), mirror_bytes(),
                      [&](std::size_t, std::span<const std::byte> bits) { hasher.update(bits); });
  if (!copied) return fail(copied.error());
  return hasher.digest();
}

Status DeviceReplica::values_at(MirrorId mirror, const delta::Delta& elements,
                                std::vector<float>& values) {
  const DeviceElements at = view_of(elements);
  values.resize(at.count);
  if (at.count == 0) return {};
  if (auto reserved = read_.reserve(at.count * sizeof(float)); !reserved) {
    return fail(reserved.error());
  }
  auto* const read = read_.at<float>();
  auto ran = by_type([&]<class M>(M) {
    const auto* const from = reinterpret_cast<const M*>(this->at(mirror));
    return queue_.run(KernelWork{ReadMirror<M>{at, from, read}, at.count});
  });
  if (!ran) return ran;
  return copy_out(queue_, read_.at<std::byte>(), std::span(values));
}

std::unique_ptr<delta::Delta> DeviceReplica::make_delta() {
  return std::make_unique<DeviceDelta>(queue_);
}

Result<std::size_t> DeviceReplica::reserve(std::size_t count, std::size_t room, bool has_momentum) {
  if (goes_alone(has_momentum)) {  // a commit works on two deltas
    if (auto reserved = reserve_aside(2 * count); !reserved) return fail(reserved.error());
  }
  if (auto reserved = read_.reserve(count * sizeof(float)); !reserved) {
    return fail(reserved.error());
  }
  auto reserved = source_.reserve(count, room);
  if (!reserved) return reserved;
  return aside_.bytes() + read_.bytes() + *reserved;
}

delta::DeltaSource& DeviceReplica::difference(MirrorId mirror,
                                              const std::optional<HoldBack>& hold) {
  by_type([&]<class M>(M) {
    source_.read(difference_to<M>(mirror),
                 hold ? HoldingBack{y(), r(), hold->keep, hold->gain} : HoldingBack{});
  });
  return source_;
}

Result<bool> DeviceReplica::decode(const delta::CodedDelta& coded, delta::Delta& into) {
  return source_.decode(coded, static_cast<DeviceDelta&>(into));
}

Result<delta::Squares> DeviceReplica::squares(MirrorId mirror, std::size_t first,
                                              std::size_t every) {
  const std::size_t all = base::ceil_div(size_, kRun);
  delta::Squares squares;
  for (std::size_t runs = 0; first < all; first += runs * every) {
    runs = std::min(base::ceil_div(all - first, every), kRunsAtOnce);
    auto done = by_type([&]<class M>(M) {
      return queue_.run(
          KernelWork{RunSquares<M>{.difference = difference_to<M>(mirror),
                                   .n = size_,
                                   .run = kRun,
                                   .first = first,
                                   .every = every,
                                   .sums = reinterpret_cast<double*>(sums_.memory.get())},
                     runs, kRun});
    });
    std::vector<double> sums(kSumsOfRun * runs);
    if (done) done = copy_out(queue_, sums_.memory.get(), std::span(sums));
    if (!done) return fail(done.error());
    for (std::size_t run = 0; run < runs; ++run) {
      squares.away += sums[kSumsOfRun * run];
      squares.norm += sums[kSumsOfRun * run + 1];
    }
  }
  return squares;
}

bool DeviceReplica::goes_alone(bool has_momentum) const {
  return mirror_type_ == delta::MirrorType::bfloat16 || has_momentum;
}

Status DeviceReplica::reserve_aside(std::size_t touched) {
  return by_type([&]<class M>(M) { return aside_.reserve(touched * sizeof(CommittedElement<M>)); });
}

Status DeviceReplica::reserve_commit(const CommitStep& step) {
  const bool has_momentum = step.momentum > 0.0F;
  if (!goes_alone(has_momentum)) return {};
  if (has_momentum && !momenta_.contains(step.mine)) {
    auto block = allocate(size_ * sizeof(float), "a link's momentum");
    if (!block) return fail(block.error().in("lower swarm.degree, or set exchange.momentum to 0"));
    momenta_.emplace(step.mine, std::move(*block));
  }
  return reserve_aside(step.own->size() + step.their->size());
}

Status DeviceReplica::commit(std::span<const CommitStep> steps) {
  Status done;
  while (done && !steps.empty()) {
    const bool alone = goes_alone(steps.front().momentum > 0.0F);
    const std::size_t taken = alone ? 1 : std::min(steps.size(), kLinksAtOnce);
    done = alone ? by_type([&]<class M>(M) { return commit_alone<M>(steps.front()); })
                 : commit_together(steps.first(taken));
    steps = steps.subspan(taken);
  }
  return done;
}

Status DeviceReplica::commit_together(std::span<const CommitStep> steps) {
  for (const CommitStep& step : steps) {
    for (const auto& [delta, mirror] :
         {std::pair(step.own, step.mine), std::pair(step.their, step.theirs)}) {
      const DeviceElements elements = view_of(*delta);
      auto* const to = reinterpret_cast<float*>(at(mirror));
      auto ran = queue_.run(KernelWork{AddDelta{elements, to}, elements.count});
      if (!ran) return ran;
    }
  }
  if (steps.size() == 1) return step_together<1>(steps);
  if (steps.size() == 2) return step_together<2>(steps);
  if (steps.size() <= 4) return step_together<4>(steps);
  return step_together<kLinksAtOnce>(steps);
}

template <std::size_t kLinks>
Status DeviceReplica::step_together(std::span<const CommitStep> steps) {
  CommitLinks<kLinks> all{.y = y(), .n = size_, .count = steps.size(), .links = {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const CommitStep& step = steps[i];
    all.links[i] = {reinterpret_cast<float*>(at(step.mine)),
                    reinterpret_cast<float*>(at(step.theirs)),
                    step.w,
                    step.parts.own,
                    step.parts.their,
                    step.moves_mirrors};
  }
  return queue_.run(KernelWork{all, size_});
}

template <class M>
Status DeviceReplica::commit_alone(const CommitStep& step) {
  const DeviceElements own = view_of(*step.own);
  const DeviceElements their = view_of(*step.their);
  const std::size_t touched = own.count + their.count;
  if (auto made = reserve_commit(step); !made) return made;
  const auto momentum = momenta_.find(step.mine);
  auto* const v = momentum == momenta_.end()
                      ? nullptr
                      : reinterpret_cast<float*>(momentum->second.memory.get());
  const CommitSides<M> sides{.y = y(),
                             .mine = reinterpret_cast<M*>(at(step.mine)),
                             .theirs = reinterpret_cast<M*>(at(step.theirs)),
                             .v = v,
                             .momentum = step.momentum,
                             .momentum_step = step.momentum_step,
                             .degree_inverse = step.degree_inverse,
                             .w = step.w,
                             .parts = step.parts,
                             .moves_mirrors = step.moves_mirrors,
                             .draw = step.draw};
  auto* const aside = aside_.at<CommittedElement<M>>();
  auto ran = queue_.run(KernelWork{CommitTouched<M>{sides, own, their, aside}, touched});
  if (ran) ran = queue_.run(KernelWork{CommitAll<M>{sides, size_}, size_});
  if (ran) ran = queue_.run(KernelWork{CommitPut<M>{sides, own, their, aside}, touched});
  return ran;
}

}  // namespace starling::compute::cuda
