#include "compute/cuda/device_replica.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/hash.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

Result<std::unique_ptr<DeviceReplica>> DeviceReplica::create(Queue& queue, std::size_t size,
                                                             MirrorType mirrors) {
  std::unique_ptr<DeviceReplica> replica(new DeviceReplica(queue, size, mirrors));
  for (Block* block : {&replica->y_, &replica->r_}) {
    auto reserved = replica->allocate(size * sizeof(float), "the replica's parameters");
    if (!reserved) return fail(reserved.error());
    *block = std::move(*reserved);
  }
  return replica;
}

Result<DeviceReplica::Block> DeviceReplica::allocate(std::size_t bytes, const char* what) {
  auto memory = queue_.allocate(bytes, what);
  if (!memory) return fail(memory.error());
  return Block{std::move(*memory), bytes};
}

/// What a pass works with beside the vectors; what was there may be gone.
Status DeviceReplica::make_room(std::size_t bytes) {
  if (bytes <= room_.bytes) return {};
  room_ = {};  // before more is asked for
  auto room = allocate(bytes + bytes / 2, "deltas");
  if (!room) return fail(room.error());
  room_ = std::move(*room);
  return {};
}

template <class T>
T* DeviceReplica::room_at(std::size_t offset) const {
  return reinterpret_cast<T*>(room_.memory.get() + offset);
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

/// Bytes of one.
std::size_t DeviceReplica::mirror_bytes() const noexcept {
  return size_ * (mirror_type_ == MirrorType::float32 ? sizeof(float) : sizeof(base::BFloat16));
}

template <class Use>
auto DeviceReplica::by_type(Use&& use) const {
  return mirror_type_ == MirrorType::float32 ? use(float{}) : use(std::uint16_t{});
}

std::size_t DeviceReplica::memory_bytes() const noexcept {
  std::size_t bytes = y_.bytes + r_.bytes + room_.bytes;
  for (const auto& [id, mirror] : mirrors_) bytes += mirror.bytes;
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

Status DeviceReplica::let_go() { return queue_.run(KernelWork{LetGo{y(), r()}, size_}); }

Result<DeviceReplica::MirrorId> DeviceReplica::add_mirror(base::LargeFloats values) {
  ASSERT(values.size() == size_);
  auto block = allocate(mirror_bytes(), "a link's mirror");
  if (!block) return fail(block.error().in("lower swarm.degree, or set exchange.mirror to bf16"));
  Status copied;
  if (mirror_type_ == MirrorType::float32) {
    copied = copy_in(queue_, block->memory.get(), std::span<const float>(values));
  } else {
    base::LargeVector<base::BFloat16> halves(size_);
    base::narrow(values, halves);
    copied = copy_in(queue_, block->memory.get(), std::span<const base::BFloat16>(halves));
  }
  if (!copied) return fail(copied.error());
  mirrors_.emplace(next_, std::move(*block));
  return next_++;
}

void DeviceReplica::free_mirror(MirrorId mirror) {
  const auto freed = mirrors_.erase(mirror);
  ASSERT(freed == 1, "the mirror is there");
}

Result<base::LargeFloats> DeviceReplica::mirror(MirrorId mirror) {
  base::LargeFloats values(size_);
  if (mirror_type_ == MirrorType::float32) {
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
  base::LargeVector<std::byte> bits(mirror_bytes());
  if (auto copied = copy_out(queue_, at(mirror), std::span(bits)); !copied) {
    return fail(copied.error());
  }
  return base::xxh3(bits);
}

Status DeviceReplica::sample(MirrorId mirror, std::span<const std::uint32_t> places,
                             std::span<float> values) {
  Places room;
  const std::size_t where = room.add<std::uint32_t>(places.size());
  const std::size_t to = room.add<float>(places.size());
  if (auto made = make_room(room.bytes()); !made) return made;
  if (auto copied = copy_in(queue_, room_at<std::byte>(where), places); !copied) return copied;
  const auto ran = by_type([&]<class M>(M) {
    return queue_.run(
        KernelWork{SampleDifference<M>{difference_to<M>(mirror), room_at<std::uint32_t>(where),
                                       room_at<float>(to)},
                   places.size()});
  });
  return ran ? copy_out(queue_, room_at<std::byte>(to), values) : ran;
}

Status DeviceReplica::difference(MirrorId mirror, std::size_t begin, std::span<float> out) {
  ASSERT(begin + out.size() <= size_);
  if (auto made = make_room(out.size_bytes()); !made) return made;
  const auto ran = by_type([&]<class M>(M) {
    return queue_.run(KernelWork{
        FillDifference<M>{difference_to<M>(mirror), begin, room_at<float>(0)}, out.size()});
  });
  return ran ? copy_out(queue_, room_at<std::byte>(0), out) : ran;
}

Status DeviceReplica::collect(MirrorId mirror, std::uint32_t key_min, std::size_t room,
                              FoundElements& found) {
  constexpr std::size_t kTile = CollectLargest<float>::kTile;
  const std::size_t tiles = (size_ + kTile - 1) / kTile;
  Places places;
  // The total, and each tile's place and count behind it.
  const std::size_t head = places.add<std::uint32_t>(2 + 2 * tiles);
  const std::size_t indices = places.add<std::uint32_t>(room);
  const std::size_t values = places.add<float>(room);
  if (auto made = make_room(places.bytes()); !made) return made;
  if (auto cleared = queue_.clear(room_at<std::byte>(head), sizeof(TileFound)); !cleared) {
    return cleared;
  }
  auto done = by_type([&]<class M>(M) {
    return queue_.run(KernelWork{CollectLargest<M>{.difference = difference_to<M>(mirror),
                                                   .n = size_,
                                                   .key_min = key_min,
                                                   .room = static_cast<std::uint32_t>(room),
                                                   .total = room_at<std::uint32_t>(head),
                                                   .tiles = room_at<TileFound>(head) + 1,
                                                   .indices = room_at<std::uint32_t>(indices),
                                                   .values = room_at<float>(values)},
                                 tiles, kTile});
  });
  if (!done) return done;
  tiles_.resize(2 + 2 * tiles);
  done = copy_out(queue_, room_at<std::byte>(head), std::span(tiles_));
  if (!done) return done;
  const std::size_t total = tiles_.front();
  if (total <= room) return order(total, std::span(tiles_).subspan(2), indices, values, found);
  found.count = total;
  return {};
}

/// Brings what was found into the order of its tiles, which is that of indices.
Status DeviceReplica::order(std::size_t total, std::span<const std::uint32_t> tiles,
                            std::size_t indices, std::size_t values, FoundElements& found) {
  found.reserve(total);
  found.count = total;
  unordered_.reserve(total);
  auto copied =
      copy_out(queue_, room_at<std::byte>(indices), std::span(unordered_.indices).first(total));
  if (copied) {
    copied =
        copy_out(queue_, room_at<std::byte>(values), std::span(unordered_.values).first(total));
  }
  if (!copied) return copied;
  std::size_t to = 0;
  for (std::size_t tile = 0; tile < tiles.size(); tile += 2) {
    const std::size_t first = tiles[tile];
    const std::size_t count = tiles[tile + 1];
    std::copy_n(unordered_.indices.begin() + static_cast<std::ptrdiff_t>(first), count,
                found.indices.begin() + static_cast<std::ptrdiff_t>(to));
    std::copy_n(unordered_.values.begin() + static_cast<std::ptrdiff_t>(first), count,
                found.values.begin() + static_cast<std::ptrdiff_t>(to));
    to += count;
  }
  ASSERT(to == total, "tiles have what was found");
  return {};
}

Result<Squares> DeviceReplica::squares(MirrorId mirror, std::size_t first, std::size_t every) {
  const std::size_t all = (size_ + kRun - 1) / kRun;
  if (first >= all) return Squares{};
  const std::size_t runs = (all - first + every - 1) / every;
  if (auto made = make_room(2 * runs * sizeof(double)); !made) return fail(made.error());
  auto done = by_type([&]<class M>(M) {
    return queue_.run(KernelWork{RunSquares<M>{.difference = difference_to<M>(mirror),
                                               .n = size_,
                                               .run = kRun,
                                               .first = first,
                                               .every = every,
                                               .sums = room_at<double>(0)},
                                 runs, kRun});
  });
  std::vector<double> sums(2 * runs);
  if (done) done = copy_out(queue_, room_at<std::byte>(0), std::span(sums));
  if (!done) return fail(done.error());
  Squares all_runs;
  for (std::size_t run = 0; run < runs; ++run) {
    all_runs.away += sums[2 * run];
    all_runs.norm += sums[2 * run + 1];
  }
  return all_runs;
}

DeviceReplica::Placed DeviceReplica::place(const ElementsView& delta, Places& places) {
  return {places.add<std::uint32_t>(delta.size()), places.add<float>(delta.size())};
}

/// Once there is room.
Result<DeviceElements> DeviceReplica::copy_delta(const ElementsView& delta, const Placed& to) {
  auto copied = copy_in(queue_, room_at<std::byte>(to.indices), delta.indices);
  if (copied) copied = copy_in(queue_, room_at<std::byte>(to.values), delta.values);
  if (!copied) return fail(copied.error());
  return DeviceElements{room_at<std::uint32_t>(to.indices), room_at<float>(to.values),
                        delta.size()};
}

Status DeviceReplica::commit(std::span<const CommitStep> steps) {
  for (const CommitStep& step : steps) {
    if (auto done = by_type([&]<class M>(M) { return commit_step<M>(step); }); !done) return done;
  }
  return {};
}

template <class M>
Status DeviceReplica::commit_step(const CommitStep& step) {
  Places places;
  const Placed own_place = place(step.own, places);
  const Placed their_place = place(step.their, places);
  const std::size_t touched = step.own.size() + step.their.size();
  const std::size_t aside_at = places.add<CommittedElement<M>>(touched);
  if (auto made = make_room(places.bytes()); !made) return made;
  const auto own = copy_delta(step.own, own_place);
  if (!own) return fail(own.error());
  const auto their = copy_delta(step.their, their_place);
  if (!their) return fail(their.error());
  const CommitSides<M> sides{.y = y(),
                             .mine = reinterpret_cast<M*>(at(step.mine)),
                             .theirs = reinterpret_cast<M*>(at(step.theirs)),
                             .w = step.w,
                             .moves_mirrors = step.moves_mirrors,
                             .draw = step.draw};
  auto* const aside = room_at<CommittedElement<M>>(aside_at);
  auto ran = queue_.run(KernelWork{CommitTouched<M>{sides, *own, *their, aside}, touched});
  if (ran) ran = queue_.run(KernelWork{CommitAll<M>{sides}, size_});
  if (ran) {
    ran = queue_.run(KernelWork{CommitPut<M>{sides, *own, *their, aside}, touched});
  }
  return ran;
}

Status DeviceReplica::hold_back(std::span<const Told> deltas, float keep, float gain) {
  for (std::size_t k = 0; k < deltas.size(); ++k) {
    const bool last = k + 1 == deltas.size();
    auto done = by_type([&]<class M>(M) {
      return hold_back_one<M>(deltas[k], k == 0 ? keep : 1.0F, gain, k == 0, last);
    });
    if (!done) return done;
  }
  return {};
}

template <class M>
Status DeviceReplica::hold_back_one(const Told& told, float keep, float gain, bool first,
                                    bool last) {
  const std::size_t count = told.delta.size();
  Places places;
  const Placed placed = place(told.delta, places);
  const std::size_t aside_at = places.add<HeldElement>(count);
  if (auto made = make_room(places.bytes()); !made) return made;
  const auto delta = copy_delta(told.delta, placed);
  if (!delta) return fail(delta.error());
  const HoldBackSides<M> sides{.y = y(),
                               .r = r(),
                               .mine = reinterpret_cast<const M*>(at(told.mine)),
                               .keep = keep,
                               .gain = gain,
                               .first = first,
                               .last = last};
  auto* const aside = room_at<HeldElement>(aside_at);
  auto ran = queue_.run(KernelWork{HoldBackTouched<M>{sides, *delta, aside}, count});
  if (ran) ran = queue_.run(KernelWork{HoldBackAll<M>{sides}, size_});
  if (ran) ran = queue_.run(KernelWork{HoldBackPut<M>{sides, *delta, aside}, count});
  return ran;
}

Status DeviceReplica::push(MirrorId mine, MirrorId theirs, float out, float in) {
  return by_type([&]<class M>(M) {
    return queue_.run(KernelWork{Push<M>{.y = y(),
                                         .mine = reinterpret_cast<const M*>(at(mine)),
                                         .theirs = reinterpret_cast<const M*>(at(theirs)),
                                         .out = out,
                                         .in = in},
                                 size_});
  });
}

}  // namespace starling::compute::cuda
