#include "hostile/flipped_labels.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace starling::hostile {
namespace {

std::int32_t flipped(std::int32_t label, std::uint32_t classes) {
  return static_cast<std::int32_t>(classes) - 1 - label;
}

std::vector<std::int32_t> all_flipped(const data::SampleSet& set) {
  const auto labels = set.labels();
  std::vector<std::int32_t> others(labels.begin(), labels.end());
  for (std::int32_t& label : others) label = flipped(label, set.format().classes);
  return others;
}

}  // namespace

FlippedLabels::FlippedLabels(const data::SampleSet& set)
    : SampleSet(set.format(), set.size(), all_flipped(set)), set_(set) {}

void FlippedLabels::read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept {
  data::BatchBuffer one;
  set_.fill(std::span(&index, 1), std::span(&shift, format().vocabulary == 0 ? 0 : 1), one);
  if (out.samples != nullptr) std::ranges::copy(one.samples, out.samples);
  if (out.tokens != nullptr) std::ranges::copy(one.tokens, out.tokens);
  if (out.targets != nullptr) std::ranges::copy(one.targets, out.targets);
  if (out.labels == nullptr) return;
  std::ranges::transform(one.labels, out.labels,
                         [&](std::int32_t label) { return flipped(label, format().classes); });
}

}  // namespace starling::hostile
