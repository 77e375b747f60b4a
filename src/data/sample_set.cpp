#include "data/sample_set.hpp"

#include "base/assert.hpp"
#include "data/spread.hpp"

namespace starling::data {
namespace {

template <class Value>
Value* place(std::vector<Value>& values, std::size_t at, std::size_t width) noexcept {
  return values.empty() ? nullptr : values.data() + at * width;
}

}  // namespace

void SampleSet::fill_slot(std::uint32_t index, std::uint32_t shift, std::size_t at,
                          BatchBuffer& out) const {
  ASSERT(index < size_);
  const Slot slot{.samples = place(out.samples, at, format_.values()),
                  .tokens = place(out.tokens, at, format_.values()),
                  .labels = place(out.labels, at, format_.labels()),
                  .targets = place(out.targets, at, format_.targets())};
  if (!labels_.empty()) {
    ASSERT(slot.labels != nullptr);
    *slot.labels = labels_[index];
  }
  read(index, shift, slot);
}

void SampleSet::fill(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> shifts,
                     BatchBuffer& out) const {
  ASSERT(shifts.empty() || shifts.size() == indices.size());
  out.resize(format_, static_cast<std::uint32_t>(indices.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    fill_slot(indices[i], shifts.empty() ? 0 : shifts[i], i, out);
  }
}

void SampleSet::fill_range(std::uint32_t first, std::uint32_t count, BatchBuffer& out) const {
  ASSERT(first <= size_ && count <= size_ - first);
  out.resize(format_, count);
  for (std::uint32_t i = 0; i < count; ++i) fill_slot(first + i, 0, i, out);
}

void SampleSet::fill_spread(std::uint32_t first, std::uint32_t count, std::uint32_t wanted,
                            BatchBuffer& out) const {
  out.resize(format_, count);
  for (std::uint32_t i = 0; i < count; ++i) fill_slot(spread(first + i, wanted, size_), 0, i, out);
}

}  // namespace starling::data
