// Changes training images a little each time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/config.hpp"

namespace starling::data {

/// Changes each of the images in `images` ({channels, height, width} = `shape`), which are samples
/// `first`, first + 1, ... of the peer with that seed: crop, then flip, as Krizhevsky et al. (NIPS
/// 2012) and He et al. (arXiv:1512.03385, section 4.2) do. Every offset from -crop to crop comes
/// equally often. `scratch` has room for an image.
void augment(const Augmentation& augmentation, const std::vector<std::uint32_t>& shape,
             std::uint64_t seed, std::uint64_t first, std::span<float> images,
             std::span<float> scratch);

}  // namespace starling::data
