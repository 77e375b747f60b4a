#include "model/spec.hpp"

namespace starling::model {

std::uint32_t context_of(const Spec& spec) noexcept {
  if (spec.preset == Preset::gpt) return spec.sizes.context;
  if (spec.input.size() != 1) return 0;
  const std::vector<LayerSpec>* list = &spec.layers;
  for (std::size_t depth = 0; depth < kDepthMax && !list->empty(); ++depth) {
    const LayerSpec& first = list->front();
    if (first.kind == LayerKind::embedding) return spec.input[0];
    if (first.kind == LayerKind::residual) {
      list = &first.layers;
    } else if (first.kind == LayerKind::block) {
      const auto found = spec.blocks.find(first.block);
      if (found == spec.blocks.end()) return 0;
      list = &found->second;
    } else {
      return 0;
    }
  }
  return 0;
}

}  // namespace starling::model
