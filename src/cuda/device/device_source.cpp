#include "cuda/device/device_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "cuda/plans/plan.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

/// Bytes after codes that are read by words.
constexpr std::size_t kBytesBehind = ReadRuns::kWordsBehind * sizeof(std::uint64_t);

/// Approximate work space for a sample, for the host's results, and for anything that is not in a
/// list.
constexpr std::size_t kWorkBeside = std::size_t{1} << 20;

/// Work space is reserved for at least this many values per scale, and for at most this mean
/// quotient of gap and divisor.
constexpr std::size_t kBlockLeast = 8;
constexpr std::size_t kQuotientMost = 8;

/// Rows among which elements are divided for counting: some blocks for each processor of a GPU.
constexpr std::size_t kCountRows = 1056;

Levels levels_of(int bits) {
  const auto top = static_cast<float>(1 << (bits - 1));
  return {.bits = bits, .top = top, .scale_max = delta::Coding::kValueMax / top};
}

/// Bytes that belong at an offset.
template <class Byte>
struct Section {
  std::size_t at = 0;
  std::span<Byte> bytes{};
};

/// Calls use(at, part) for the part of each section within `size` bytes from `offset` on, where
/// `at` counts from there. Sections are in rising order.
template <class Byte, class Use>
void for_each_in(std::span<const Section<Byte>> sections, std::size_t offset, std::size_t size,
                 Use&& use) {
  for (const Section<Byte>& section : sections) {
    const std::size_t from = std::max(section.at, offset);
    const std::size_t until = std::min(section.at + section.bytes.size(), offset + size);
    if (from < until) use(from - offset, section.bytes.subspan(from - section.at, until - from));
  }
}

/// Writes sections, which outlive it, and zeros between and after them.
Queue::Fill fill_from_sections(std::span<const Section<const std::byte>> sections) {
  return [sections](std::size_t offset, std::span<std::byte> bytes) {
    std::size_t filled = 0;
    for_each_in(sections, offset, bytes.size(), [&](std::size_t at, base::ByteView part) {
      std::memset(bytes.data() + filled, 0, at - filled);
      std::memcpy(bytes.data() + at, part.data(), part.size());
      filled = at + part.size();
    });
    std::memset(bytes.data() + filled, 0, bytes.size() - filled);
  };
}

/// Reads the part of the sections within the bytes from `offset` on.
void take_to_sections(std::span<const Section<std::byte>> sections, std::size_t offset,
                      base::ByteView bytes) {
  for_each_in(sections, offset, bytes.size(), [&](std::size_t at, std::span<std::byte> part) {
    std::memcpy(part.data(), bytes.data() + at, part.size());
  });
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
  if (buffer_.bytes() <= offsets.bytes() + offsets.bytes() / 2) return;  // as in DeviceBuffer
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

/// The layout of choose()'s work space. The parts that start as zeros come first, and those for the
/// host at the very beginning.
struct DeviceSource::ChoiceRoom {
  ChoiceRoom(const delta::Choosing& which, std::size_t picked, std::size_t tiles)
      : figures(offsets.add<ChoiceFigures>(1)),
        gaps(offsets.add<std::uint32_t>(picked)),
        told(offsets.bytes()),
        least(offsets.add<std::uint32_t>(kCountsOfDigits)),
        cut(offsets.add<std::uint32_t>(kCountsOfDigits)),
        cleared(offsets.bytes()),
        sampled(offsets.add<float>(which.sample)),
        counts(offsets.add<std::uint64_t>(tiles)),
        begins(offsets.add<std::uint64_t>(tiles + 1)) {}

  OffsetAllocator offsets;
  std::size_t figures;
  std::size_t gaps;
  std::size_t told;  ///< bytes so far
  std::size_t least;
  std::size_t cut;
  std::size_t cleared;  ///< bytes so far
  std::size_t sampled;
  std::size_t counts;
  std::size_t begins;
};

/// The layout of code()'s work space: the host gets everything from the begins on.
struct DeviceSource::CodeRoom {
  CodeRoom(std::size_t count, std::size_t n, const delta::Coding& coding)
      : runs(base::ceil_div(count, delta::kCodesPerRun)),
        blocks(base::ceil_div(count, coding.block)),
        bits(offsets.add<std::uint64_t>(runs)),
        begins(offsets.add<std::uint64_t>(runs + 1)),
        scales(offsets.add<float>(blocks)),
        codes(offsets.add<std::byte>(base::ceil_div(count, kCodesPerGroup) *
                                     static_cast<std::size_t>(coding.bits))),
        words(offsets.add<std::uint32_t>(words_max(count, n, coding))) {}

  /// The sum of the quotients is at most the quotient of the last index.
  static std::size_t words_max(std::size_t count, std::size_t n, const delta::Coding& coding) {
    const std::size_t tails =
        count * std::size_t{1 + delta::longest_prefix(coding.odd) + coding.shift};
    return base::ceil_div(tails + n / (std::size_t{coding.odd} << coding.shift), 32) + 2;
  }

  OffsetAllocator offsets;
  std::size_t runs;
  std::size_t blocks;
  std::size_t bits;
  std::size_t begins;
  std::size_t scales;
  std::size_t codes;
  std::size_t words;  ///< of the codes of indices
};

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
  // code() needs the most work space of all calls: a divisor is about as large as a gap, or a few
  // times smaller.
  const auto shift = static_cast<std::uint32_t>(std::bit_width(size_ / count));
  const delta::Coding dear{.odd = 7, .shift = shift, .bits = 8, .block = kBlockLeast};
  const std::size_t quotients = count * kQuotientMost / 8;
  const ChoiceRoom choice({.count = count, .room = room}, 0, tiles());
  const std::size_t work =
      std::max(CodeRoom(count, size_, dear).offsets.bytes() + quotients, choice.offsets.bytes()) +
      kWorkBeside;
  if (done) done = work_.reserve(work);
  if (done) done = coming_.reserve(work);
  found_.clear();
  chosen_.clear();
  if (!done) return fail(done.error());
  return memory_bytes();
}

// The host waits once, at the end: it assumes that one pass finds enough.
Result<delta::Choice> DeviceSource::choose(const delta::Choosing& which,
                                           std::span<std::uint32_t> gaps) {
  const ChoiceRoom room(which, gaps.size(), tiles());
  auto done = found_.resize(which.room);
  if (done) done = chosen_.resize(which.count);
  if (done) done = tiles_.reserve(tiles() * sizeof(TileFound));
  if (done) done = work_.reserve(room.offsets.bytes());
  if (done) done = queue_.clear(work_.at<std::byte>(), room.cleared);
  if (done) done = find(which, room);
  if (!done) return fail(done.error());
  auto* const figures = work_.at<ChoiceFigures>(room.figures);
  const ListedValues found{found_.values(), which.room, &figures->found};
  const FoundTiles in{tiles_.at<TileFound>(), found_.indices(), found_.values(),
                      which.room / tiles()};
  auto told = choose_from(found, which.room, in, which, room, gaps);
  if (!told) return fail(told.error());
  const bool is_enough = told->found <= which.room &&
                         (told->found >= which.count || told->least[kDigits - 1].key <= 1);
  if (!is_enough) {
    done = queue_.clear(work_.at<std::byte>(room.cut), room.cleared - room.cut);
    if (!done) return fail(done.error());
    told = std::visit(
        [&]<class M>(const MirrorDifference<M>& of) {
          return choose_from(AllValues<M>{of, size_}, size_, AllTiles<M>{of, size_}, which, room,
                             gaps);
        },
        difference_);
    if (!told) return fail(told.error());
  }
  delta::Choice choice{.count = std::min(which.count, std::size_t{told->tally.count}),
                       .beyond = {},
                       .in_one_pass = is_enough};
  chosen_.shrink(choice.count);
  if (told->tally.largest >= delta::key_of(which.limit) >> bits_below(0)) {
    // Checked by the host, since training has most likely failed.
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    if (auto read = chosen_.read(queue_, indices, values); !read) return fail(read.error());
    choice.beyond = delta::first_beyond(indices, values, which.limit);
  }
  return choice;
}

// Also holds back, if requested.
Status DeviceSource::find(const delta::Choosing& which, const ChoiceRoom& room) {
  auto* const figures = work_.at<ChoiceFigures>(room.figures);
  auto* const sampled = work_.at<float>(room.sampled);
  return std::visit(
      [&]<class M>(const MirrorDifference<M>& of) {
        Status done;
        if (which.sample > 0) {
          done = queue_.run(
              KernelWork{SampleDifference<M>{of, which.sample, size_, sampled}, which.sample});
          const ListedValues values{sampled, which.sample, nullptr};
          const Search search{.wanted = which.rank,
                              .counts = work_.at<std::uint32_t>(room.least),
                              .stages = figures->least,
                              .tally = nullptr};
          if (done) done = find_cut(values, which.sample, search);
        }
        const FindLargest<M> find{
            .difference = of,
            .n = size_,
            .least = which.sample > 0 ? &figures->least[kDigits - 1] : nullptr,
            .room = static_cast<std::uint32_t>(which.room),
            .found = &figures->found,
            .tiles = tiles_.at<TileFound>(),
            .indices = found_.indices(),
            .values = found_.values(),
            .hold = std::exchange(is_held_, true) ? HoldingBack{} : hold_};
        return done ? queue_.run(KernelWork{find, tiles(), kTile}) : done;
      },
      difference_);
}

// Chooses into chosen_ from at most `most` values, which also lie in the tiles; returns the
// device's status.
template <class Values, class Tiles>
Result<ChoiceFigures> DeviceSource::choose_from(const Values& values, std::size_t most,
                                                const Tiles& from, const delta::Choosing& which,
                                                const ChoiceRoom& room,
                                                std::span<std::uint32_t> gaps) {
  auto* const figures = work_.at<ChoiceFigures>(room.figures);
  auto* const picked = work_.at<std::uint32_t>(room.gaps);
  const Search search{.wanted = which.count,
                      .counts = work_.at<std::uint32_t>(room.cut),
                      .stages = figures->cut,
                      .tally = &figures->tally};
  auto done = find_cut(values, most, search);
  if (done) done = take(from, room, which.count);
  if (done) {
    done = queue_.run(KernelWork{
        PickGaps{chosen_.indices(), &figures->tally.count, which.count, gaps.size(), picked},
        gaps.size()});
  }
  std::vector<std::byte> told(room.told);
  if (done) done = copy_out(queue_, figures, std::span(told));
  if (!done) return fail(done.error());
  ChoiceFigures answer;
  std::memcpy(&answer, told.data() + room.figures, sizeof answer);
  if (!gaps.empty()) std::memcpy(gaps.data(), told.data() + room.gaps, gaps.size_bytes());
  return answer;
}

// The key of a rank among at most `most` values.
template <class Values>
Status DeviceSource::find_cut(const Values& values, std::size_t most, const Search& search) {
  const std::size_t rows = std::clamp(base::ceil_div(most, kTile), std::size_t{1}, kCountRows);
  Status done;
  std::uint32_t* counts = search.counts;
  for (std::size_t digit = 0; done && digit < kDigits; ++digit) {
    const CutStage* const before = digit == 0 ? nullptr : search.stages + digit - 1;
    done = queue_.run(KernelWork{
        CountKeys<Values>{
            .from = values, .rows = rows, .digit = digit, .stage = before, .counts = counts},
        rows, kTile});
    if (!done) break;
    done = queue_.run(KernelWork{FindDigit{.counts = counts,
                                           .digit = digit,
                                           .stage = before,
                                           .wanted = static_cast<std::uint32_t>(search.wanted),
                                           .to = search.stages + digit,
                                           .tally = digit == 0 ? search.tally : nullptr},
                                 1, kTile});
    counts += values_of_digit(digit);
  }
  return done;
}

// Writes the elements that the cut leaves, in order, to chosen_: up to `count`.
template <class Tiles>
Status DeviceSource::take(const Tiles& from, const ChoiceRoom& room, std::size_t count) {
  auto* const figures = work_.at<ChoiceFigures>(room.figures);
  auto* const counts = work_.at<std::uint64_t>(room.counts);
  auto* const begins = work_.at<std::uint64_t>(room.begins);
  const CutStage* const cut = &figures->cut[kDigits - 1];
  auto done = queue_.run(KernelWork{CountTiles<Tiles>{from, cut, counts}, tiles(), from.width});
  if (done) done = queue_.run(KernelWork{AddBefore{counts, tiles(), begins}, 1, tiles()});
  if (done) {
    done = queue_.run(KernelWork{TakeChosen<Tiles>{.from = from,
                                                   .cut = cut,
                                                   .begins = begins,
                                                   .room = count,
                                                   .indices = chosen_.indices(),
                                                   .values = chosen_.values()},
                                 tiles(), from.width});
  }
  return done;
}

Status DeviceSource::code(const delta::Coding& coding, base::Bytes& out, delta::Delta& coded) {
  if (chosen_.size() > 0) {
    const CodeRoom room(chosen_.size(), size_, coding);
    auto done = work_.reserve(room.offsets.bytes());
    if (done) done = code_indices(coding, room);
    if (done) done = code_values(coding, room);
    if (done && hold_.y != nullptr) done = release_sent();
    if (done) done = append_sections(coding, room, out);
    if (!done) return done;
  }
  std::swap(chosen_, static_cast<DeviceDelta&>(coded).elements());
  chosen_.clear();
  return {};
}

Status DeviceSource::code_indices(const delta::Coding& coding, const CodeRoom& room) {
  const IndexRuns of{{chosen_.size(), coding.odd, coding.shift}, chosen_.indices()};
  auto* const bits = work_.at<std::uint64_t>(room.bits);
  auto* const begins = work_.at<std::uint64_t>(room.begins);
  auto done = queue_.clear(work_.at<std::byte>(room.words), room.offsets.bytes() - room.words);
  if (done) done = queue_.run(KernelWork{MeasureRuns{of, bits}, room.runs, delta::kCodesPerRun});
  if (done) done = queue_.run(KernelWork{AddBefore{bits, room.runs, begins}, 1, room.runs});
  if (done) {
    done = queue_.run(KernelWork{WriteRuns{of, begins, work_.at<std::uint32_t>(room.words)},
                                 room.runs, delta::kCodesPerRun});
  }
  return done;
}

// Chosen elements become the values of their codes.
Status DeviceSource::code_values(const delta::Coding& coding, const CodeRoom& room) {
  const std::size_t count = chosen_.size();
  const Levels levels = levels_of(coding.bits);
  auto* const scales = work_.at<float>(room.scales);
  auto done = queue_.run(KernelWork{FitScales{.values = chosen_.values(),
                                              .count = count,
                                              .block = coding.block,
                                              .levels = levels,
                                              .scales = scales},
                                    room.blocks, FitScales::kWidth});
  if (done) {
    done = queue_.run(KernelWork{PackValues{.values = chosen_.values(),
                                            .count = count,
                                            .block = coding.block,
                                            .levels = levels,
                                            .scales = scales,
                                            .codes = work_.at<std::byte>(room.codes)},
                                 base::ceil_div(count, kCodesPerGroup)});
  }
  return done;
}

// Releases the chosen elements by their coded values.
Status DeviceSource::release_sent() {
  const DeviceElements sent{chosen_.indices(), chosen_.values(), chosen_.size()};
  return queue_.run(KernelWork{ReleaseSent{hold_.y, hold_.r, sent, hold_.gain}, sent.count});
}

// One wait: the end of the last run, which comes before the codes of indices, tells their bytes,
// and room for the most that they may have is made while the device works.
Status DeviceSource::append_sections(const delta::Coding& coding, const CodeRoom& room,
                                     base::Bytes& out) {
  const std::size_t most = room.offsets.bytes() - room.words;
  const std::size_t starts = (room.runs - 1) * sizeof(std::uint32_t);
  const std::size_t scales = room.blocks * sizeof(float);
  const std::size_t codes =
      base::ceil_div(chosen_.size() * static_cast<std::size_t>(coding.bits), 8);
  const std::size_t at = out.size();
  out.resize(at + starts + most + scales + codes);
  const auto section = std::span(out).subspan(at + starts);
  std::vector<std::uint64_t> begins(room.runs + 1);
  const Section<std::byte> first{0, std::as_writable_bytes(std::span(begins))};
  std::array<Section<std::byte>, 3> rest{};
  std::size_t bytes = 0;
  auto done = queue_.copy_out(
      work_.at<std::byte>(room.begins), room.offsets.bytes() - room.begins,
      [&](std::size_t offset, base::ByteView part) {
        take_to_sections(std::span(&first, 1), offset, part);
        if (bytes == 0 && offset + part.size() >= first.bytes.size()) {
          bytes = base::ceil_div(begins.back(), 8);
          ASSERT(bytes + sizeof(std::uint64_t) <= most);
          rest = {{{room.scales - room.begins, section.subspan(bytes, scales)},
                   {room.codes - room.begins, section.subspan(bytes + scales, codes)},
                   {room.words - room.begins, section.first(bytes)}}};
        }
        take_to_sections(std::span<const Section<std::byte>>(rest), offset, part);
      });
  if (!done) return done;
  out.resize(at + starts + bytes + scales + codes);
  for (std::size_t run = 0; run + 1 < room.runs; ++run) {
    const auto start = static_cast<std::uint32_t>(begins[run + 1]);
    std::memcpy(out.data() + at + run * sizeof start, &start, sizeof start);
  }
  return {};
}

Result<bool> DeviceSource::decode(const delta::CodedDelta& coded, DeviceDelta& into) {
  if (coded.count == 0) {
    into.clear();
    return coded.codes.empty();
  }
  auto made = into.elements().resize(coded.count);
  auto taken = made ? decode_elements(coded, into.elements()) : fail(made.error());
  // The memory for a delta far larger than those made here is not kept.
  if (coming_.bytes() > 2 * work_.bytes() + kWorkBeside) coming_.free();
  return taken;
}

// False if the codes of indices are wrong. Everything comes in one copy, and one number goes back.
Result<bool> DeviceSource::decode_elements(const delta::CodedDelta& coded,
                                           const DeviceElementsBuffer& to) {
  const std::size_t runs = base::ceil_div(coded.count, delta::kCodesPerRun);
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
    const std::array<Section<const std::byte>, 4> sections{
        {{starts_at + sizeof(std::uint32_t), coded.starts},
         {words_at, coded.codes},
         {scales_at, coded.scales},
         {codes_at, coded.values}}};
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
