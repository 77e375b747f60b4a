#include "compute/cuda/device_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "compute/cuda/plan.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

/// Behind codes that are read by words.
constexpr std::size_t kBytesBehind = ReadRuns::kWordsBehind * sizeof(std::uint64_t);

/// Of work space: what calls take beside their largest list, about.
constexpr std::size_t kWorkBeside = std::size_t{1} << 20;

Levels levels_of(int bits) {
  const auto top = static_cast<float>(1 << (bits - 1));
  return {.bits = bits, .top = top, .scale_max = Coding::kValueMax / top};
}

/// Bytes that belong at an offset.
struct Section {
  std::size_t at = 0;
  base::ByteView bytes{};
};

/// Writes sections, which outlive it, and zeros between and behind them.
Queue::Fill fill_from_sections(std::span<const Section> sections) {
  return [sections](std::size_t offset, std::span<std::byte> bytes) {
    const std::size_t end = offset + bytes.size();
    std::size_t filled = offset;
    const auto fill_up_to = [&](std::size_t place) {
      if (place <= filled) return;
      std::memset(bytes.data() + (filled - offset), 0, place - filled);
      filled = place;
    };
    for (const Section& section : sections) {
      const std::size_t from = std::max(section.at, offset);
      const std::size_t until = std::min(section.at + section.bytes.size(), end);
      if (from >= until) continue;
      fill_up_to(from);
      std::memcpy(bytes.data() + (from - offset), section.bytes.data() + (from - section.at),
                  until - from);
      filled = until;
    }
    fill_up_to(end);
  };
}

}  // namespace

Status DeviceElementsBuffer::resize(std::size_t count) {
  OffsetAllocator offsets;
  offsets.add<std::uint32_t>(count);
  values_at_ = offsets.add<float>(count);
  size_ = count;
  return buffer_.reserve(offsets.bytes());
}

void DeviceElementsBuffer::free_beyond(std::size_t count) noexcept {
  OffsetAllocator offsets;
  offsets.add<std::uint32_t>(count);
  offsets.add<float>(count);
  if (buffer_.bytes() <= offsets.bytes() + offsets.bytes() / 2) return;  // as DeviceBuffer takes it
  buffer_.free();
  size_ = 0;
}

Status DeviceElementsBuffer::read(Queue& queue, std::vector<std::uint32_t>& to_indices,
                                  std::vector<float>& to_values) const {
  to_indices.resize(size_);
  to_values.resize(size_);
  auto copied = copy_out(queue, indices(), std::span(to_indices));
  return copied ? copy_out(queue, values(), std::span(to_values)) : copied;
}

Status DeviceDelta::read(std::vector<std::uint32_t>& indices, std::vector<float>& values) const {
  return elements_.read(queue_, indices, values);
}

DeviceSource::DeviceSource(Queue& queue, std::size_t size)
    : queue_(queue),
      size_(size),
      found_(queue),
      chosen_(queue),
      tiles_(queue, "deltas"),
      work_(queue, "deltas"),
      coming_(queue, "a neighbour's delta") {}

std::size_t DeviceSource::memory_bytes() const noexcept {
  return found_.bytes() + chosen_.bytes() + tiles_.bytes() + work_.bytes() + coming_.bytes();
}

Result<std::size_t> DeviceDelta::reserve(std::size_t count) {
  auto made = elements_.resize(count);
  elements_.clear();
  if (!made) return fail(made.error());
  return elements_.bytes();
}

Result<std::size_t> DeviceSource::reserve(std::size_t count, std::size_t room) {
  auto done = found_.resize(room);
  if (done) done = chosen_.resize(count);
  if (done) done = tiles_.reserve(tiles() * sizeof(TileFound));
  // Of all calls code_indices() has the most work: a gap's code has about as many bits as the gap.
  const auto shift = static_cast<std::uint32_t>(std::bit_width(size_ / count));
  const std::size_t work = words_max(count, shift) * sizeof(std::uint32_t) + kWorkBeside;
  if (done) done = work_.reserve(work);
  if (done) done = coming_.reserve(work);
  found_.clear();
  chosen_.clear();
  if (!done) return fail(done.error());
  return memory_bytes();
}

Status DeviceSource::sample(std::span<const std::uint32_t> places, std::span<float> values) {
  OffsetAllocator work;
  const std::size_t where = work.add<std::uint32_t>(places.size());
  const std::size_t to = work.add<float>(places.size());
  auto done = work_.reserve(work.bytes());
  if (done) done = copy_in(queue_, work_.at<void>(where), places);
  if (done) {
    done = std::visit(
        [&]<class M>(const HeldDifference<M>& of) {
          return queue_.run(
              KernelWork{SampleDifference<M>{of.difference, work_.at<std::uint32_t>(where),
                                             work_.at<float>(to)},
                         places.size()});
        },
        difference_);
  }
  return done ? copy_out(queue_, work_.at<void>(to), values) : done;
}

Result<std::size_t> DeviceSource::find(std::uint32_t key_min, std::size_t room) {
  auto done = found_.resize(room);
  if (done) done = tiles_.reserve(tiles() * sizeof(TileFound));
  if (done) done = work_.reserve(sizeof(std::uint32_t));
  if (done) done = queue_.clear(work_.at<std::byte>(), sizeof(std::uint32_t));
  if (done) {
    done = std::visit(
        [&]<class M>(HeldDifference<M>& of) {
          return queue_.run(KernelWork{FindLargest<M>{.difference = of.difference,
                                                      .n = size_,
                                                      .key_min = key_min,
                                                      .room = static_cast<std::uint32_t>(room),
                                                      .total = work_.at<std::uint32_t>(),
                                                      .tiles = tiles_.at<TileFound>(),
                                                      .indices = found_.indices(),
                                                      .values = found_.values(),
                                                      .hold = std::exchange(of.hold, {})},
                                       tiles(), kTile});
        },
        difference_);
  }
  std::uint32_t total = 0;
  if (done) done = copy_out(queue_, work_.at<void>(), std::span(&total, 1));
  if (!done) return fail(done.error());
  return total;
}

Result<Choice> DeviceSource::choose(Among among, std::size_t count, float limit) {
  if (among == Among::found) {
    return choose_from(FoundTiles{tiles_.at<TileFound>(), found_.indices(), found_.values(),
                                  found_.size() / tiles()},
                       count, limit);
  }
  return std::visit(
      [&]<class M>(const HeldDifference<M>& of) {
        return choose_from(AllTiles<M>{of.difference, size_}, count, limit);
      },
      difference_);
}

template <class Tiles>
Result<Choice> DeviceSource::choose_from(const Tiles& from, std::size_t count, float limit) {
  if (auto counted = count_keys(from, {}); !counted) return fail(counted.error());
  const auto there = std::accumulate(bins_.begin(), bins_.end(), std::size_t{0});
  const auto largest = std::find_if(bins_.rbegin(), bins_.rend(), [](auto n) { return n > 0; });
  const bool may_be_beyond =
      static_cast<std::uint32_t>(bins_.rend() - largest) > key_of(limit) >> kHalfKeyBits;
  Cut cut;
  if (there > count) {
    const Cut high = cut_of(bins_, count);
    if (auto counted = count_keys(from, high.key); !counted) return fail(counted.error());
    const Cut low = cut_of(bins_, high.equals);
    cut = {high.key << kHalfKeyBits | low.key, low.equals};
  }
  Choice choice{.count = std::min(count, there), .beyond = {}};
  if (auto taken = take(from, cut, choice.count); !taken) return fail(taken.error());
  if (may_be_beyond) {  // looked at by the host, as training has most likely failed
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    if (auto read = chosen_.read(queue_, indices, values); !read) return fail(read.error());
    choice.beyond = compute::first_beyond(indices, values, limit);
  }
  return choice;
}

// To bins_: by the upper halves of keys, or of those with one upper half by the lower ones.
template <class Tiles>
Status DeviceSource::count_keys(const Tiles& from, std::optional<std::uint32_t> high) {
  bins_.resize(high ? kLowKeys : kHighKeys);
  const std::size_t bytes = bins_.size() * sizeof(std::uint32_t);
  auto done = work_.reserve(bytes);
  if (done) done = queue_.clear(work_.at<std::byte>(), bytes);
  if (done) {
    done = queue_.run(KernelWork{CountKeys<Tiles>{.from = from,
                                                  .lower = high.has_value(),
                                                  .high = high.value_or(0),
                                                  .bins = work_.at<std::uint32_t>()},
                                 tiles(), from.width});
  }
  return done ? copy_out(queue_, work_.at<void>(), std::span(bins_)) : done;
}

// What the cut leaves, in order, to chosen_.
template <class Tiles>
Status DeviceSource::take(const Tiles& from, const Cut& cut, std::size_t count) {
  OffsetAllocator offsets;
  const std::size_t counts_at = offsets.add<std::uint64_t>(tiles());
  const std::size_t begins_at = offsets.add<std::uint64_t>(tiles() + 1);
  const std::size_t last_at = offsets.add<std::uint32_t>(1);
  auto done = work_.reserve(offsets.bytes());
  if (done) done = chosen_.resize(count);
  auto* const counts = work_.at<std::uint64_t>(counts_at);
  auto* const begins = work_.at<std::uint64_t>(begins_at);
  auto* const last = work_.at<std::uint32_t>(last_at);
  if (done) {
    done = queue_.run(KernelWork{CountTiles<Tiles>{from, cut.key, counts}, tiles(), from.width});
  }
  if (done) done = queue_.run(KernelWork{AddBefore{counts, tiles(), begins}, 1, tiles()});
  if (done && cut.equals > 0) {
    done = queue_.run(KernelWork{FindLastEqual<Tiles>{from, cut.key, cut.equals, begins, last},
                                 tiles(), from.width});
  }
  if (done) {
    done = queue_.run(KernelWork{TakeChosen<Tiles>{.from = from,
                                                   .cut = cut.key,
                                                   .equals = cut.equals,
                                                   .begins = begins,
                                                   .last = last,
                                                   .indices = chosen_.indices(),
                                                   .values = chosen_.values()},
                                 tiles(), from.width});
  }
  return done;
}

Status DeviceSource::gaps(std::span<std::uint32_t> gaps) {
  auto done = work_.reserve(gaps.size_bytes());
  if (done) {
    done = queue_.run(KernelWork{
        PickGaps{chosen_.indices(), chosen_.size(), gaps.size(), work_.at<std::uint32_t>()},
        gaps.size()});
  }
  return done ? copy_out(queue_, work_.at<void>(), gaps) : done;
}

Status DeviceSource::code(const Coding& coding, base::Buffer& out, Delta& coded) {
  if (chosen_.size() > 0) {
    if (auto done = code_indices(coding, out); !done) return done;
    if (auto done = code_values(coding, out); !done) return done;
  }
  std::swap(chosen_, static_cast<DeviceDelta&>(coded).elements());
  chosen_.clear();
  return {};
}

std::size_t DeviceSource::words_max(std::size_t count, std::uint32_t shift) const {
  // No code has more bits than its gap and its tail.
  return base::ceil_div(size_ + count * (1 + kGolombPrefixMax + shift), 32) + 2;
}

// Appends starts and codes.
Status DeviceSource::code_indices(const Coding& coding, base::Buffer& out) {
  const std::size_t runs = base::ceil_div(chosen_.size(), kCodesPerRun);
  const IndexRuns of{{chosen_.size(), coding.odd, coding.shift}, chosen_.indices()};
  const std::size_t words_max = this->words_max(chosen_.size(), coding.shift);
  OffsetAllocator offsets;
  const std::size_t bits_at = offsets.add<std::uint64_t>(runs);
  const std::size_t begins_at = offsets.add<std::uint64_t>(runs + 1);
  const std::size_t words_at = offsets.add<std::uint32_t>(words_max);
  auto done = work_.reserve(offsets.bytes());
  auto* const begins = work_.at<std::uint64_t>(begins_at);
  if (done) {
    done = queue_.run(
        KernelWork{MeasureRuns{of, work_.at<std::uint64_t>(bits_at)}, runs, kCodesPerRun});
  }
  if (done) {
    done =
        queue_.run(KernelWork{AddBefore{work_.at<std::uint64_t>(bits_at), runs, begins}, 1, runs});
  }
  std::vector<std::uint64_t> ends(runs);
  if (done) done = copy_out(queue_, begins + 1, std::span(ends));
  if (!done) return done;
  const std::size_t bytes = base::ceil_div(ends.back(), 8);
  ASSERT(bytes + sizeof(std::uint64_t) <= words_max * sizeof(std::uint32_t));
  done = queue_.clear(work_.at<std::byte>(words_at), bytes + sizeof(std::uint64_t));
  if (done) {
    done = queue_.run(
        KernelWork{WriteRuns{of, begins, work_.at<std::uint32_t>(words_at)}, runs, kCodesPerRun});
  }
  if (!done) return done;
  const std::size_t at = out.size();
  out.resize(at + (runs - 1) * sizeof(std::uint32_t));
  for (std::size_t run = 0; run + 1 < runs; ++run) {
    const auto start = static_cast<std::uint32_t>(ends[run]);
    std::memcpy(out.data() + at + run * sizeof start, &start, sizeof start);
  }
  return append(work_.at<std::byte>(words_at), bytes, out);
}

// Appends scales and values, whose elements become what they say.
Status DeviceSource::code_values(const Coding& coding, base::Buffer& out) {
  const std::size_t count = chosen_.size();
  const std::size_t blocks = base::ceil_div(count, coding.block);
  const std::size_t groups = base::ceil_div(count, kCodesPerGroup);
  const auto bits = static_cast<std::size_t>(coding.bits);
  OffsetAllocator offsets;
  const std::size_t scales_at = offsets.add<float>(blocks);
  const std::size_t codes_at = offsets.add<std::byte>(groups * bits);
  auto done = work_.reserve(offsets.bytes());
  const Levels levels = levels_of(coding.bits);
  if (done) {
    done = queue_.run(KernelWork{FitScales{.values = chosen_.values(),
                                           .count = count,
                                           .block = coding.block,
                                           .levels = levels,
                                           .scales = work_.at<float>(scales_at)},
                                 blocks, FitScales::kWidth});
  }
  if (done) {
    done = queue_.run(KernelWork{PackValues{.values = chosen_.values(),
                                            .count = count,
                                            .block = coding.block,
                                            .levels = levels,
                                            .scales = work_.at<float>(scales_at),
                                            .codes = work_.at<std::byte>(codes_at)},
                                 groups});
  }
  if (done) done = append(work_.at<std::byte>(scales_at), blocks * sizeof(float), out);
  if (done) done = append(work_.at<std::byte>(codes_at), base::ceil_div(count * bits, 8), out);
  return done;
}

Status DeviceSource::append(const std::byte* from, std::size_t bytes, base::Buffer& out) {
  const std::size_t at = out.size();
  out.resize(at + bytes);
  return copy_out(queue_, from, std::span(out).subspan(at));
}

Result<bool> DeviceSource::decode(const CodedDelta& coded, DeviceDelta& into) {
  if (coded.count == 0) {
    into.clear();
    return coded.codes.empty();
  }
  auto made = into.elements().resize(coded.count);
  auto taken = made ? decode_elements(coded, into.elements()) : fail(made.error());
  // One that is larger than what is made here leaves nothing that is kept.
  if (coming_.bytes() > work_.bytes() + kWorkBeside) coming_.free();
  return taken;
}

// False where the codes of indices are not what they should be. All comes in one copy, and one
// number goes back.
Result<bool> DeviceSource::decode_elements(const CodedDelta& coded,
                                           const DeviceElementsBuffer& to) {
  const std::size_t runs = base::ceil_div(coded.count, kCodesPerRun);
  ASSERT(coded.starts.size() == (runs - 1) * sizeof(std::uint32_t));
  OffsetAllocator offsets;
  const std::size_t starts_at = offsets.add<std::uint32_t>(runs);
  const std::size_t words_at = offsets.add<std::byte>(coded.codes.size() + kBytesBehind);
  const std::size_t scales_at = offsets.add<std::byte>(coded.scales.size());
  const std::size_t codes_at = offsets.add<std::byte>(coded.values.size());
  const std::size_t came = offsets.bytes();
  const std::size_t reach_at = offsets.add<std::uint64_t>(runs);
  const std::size_t begins_at = offsets.add<std::uint64_t>(runs + 1);
  auto done = coming_.reserve(offsets.bytes());
  auto* const reach = coming_.at<std::uint64_t>(reach_at);
  auto* const begins = coming_.at<std::uint64_t>(begins_at);
  if (done) {
    // The first run begins at bit 0.
    const std::array sections{Section{starts_at + sizeof(std::uint32_t), coded.starts},
                              Section{words_at, coded.codes}, Section{scales_at, coded.scales},
                              Section{codes_at, coded.values}};
    done = queue_.copy_in(coming_.at<std::byte>(), came, fill_from_sections(sections));
  }
  if (done) {
    done = queue_.run(KernelWork{ReadRuns{.words = coming_.at<std::uint64_t>(words_at),
                                          .end = std::uint64_t{coded.codes.size()} * 8,
                                          .starts = coming_.at<std::uint32_t>(starts_at),
                                          .runs = runs,
                                          .n = size_,
                                          .of = {coded.count, coded.coding.odd, coded.coding.shift},
                                          .indices = to.indices(),
                                          .reach = reach},
                                 runs, ReadRuns::kWidth});
  }
  if (done) done = queue_.run(KernelWork{AddBefore{reach, runs, begins}, 1, runs});
  if (done) done = queue_.run(KernelWork{JoinRuns{begins, to.indices()}, coded.count});
  if (done) {
    done = queue_.run(KernelWork{UnpackValues{.codes = coming_.at<std::byte>(codes_at),
                                              .bits = coded.coding.bits,
                                              .block = coded.coding.block,
                                              .scales = coming_.at<float>(scales_at),
                                              .values = to.values()},
                                 coded.count});
  }
  std::uint64_t end = 0;
  if (done) done = copy_out(queue_, begins + runs, std::span(&end, 1));
  if (!done) return fail(done.error());
  return end <= size_;
}

}  // namespace starling::compute::cuda
